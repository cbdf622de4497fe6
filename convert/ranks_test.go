package convert

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// convertRanks makes one timeline of the logs of ranks.
func convertRanks(t testing.TB, logs []*logtest.RankLog) (*timelinetest.Timeline, []Summary) {
	t.Helper()
	return timelineWith(t, Options{}, logsOf(logs)...)
}

// A partOf is the kernel of a rank.
type partOf struct{ start, end uint64 }

// kernelsOf are the kernels of each rank with a name, in order.
func kernelsOf(tl *timelinetest.Timeline, name string) (all map[uint32][]partOf) {
	all = make(map[uint32][]partOf)
	for _, p := range tl.Processes {
		for _, s := range p.Streams {
			for _, w := range s.Work {
				if w.Shape.Kernel.Name == name {
					all[p.Rank.Number] = append(all[p.Rank.Number], partOf{w.Start, w.Start + w.Dur})
				}
			}
		}
	}
	return all
}

// Ranks on 8 hosts with wall clocks that are wrong by milliseconds: their collectives align them to a few microseconds, and the
// stated bound holds. No collective ends on a rank before the last one has entered it.
func TestRanksOnHosts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		perHost := []int{2, 8}[seed/3] // eight ranks of a host are in step with those of another one, and are no communicator
		logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 8, PerHost: perHost, Seed: seed, Steps: 200, Drift: 40, WallOff: 3e6, WallError: 4e6, Straggler: -1})
		tl, all := convertRanks(t, logs)
		reference := referenceOf(t, logs, all)
		for i := range all {
			a := all[i].Alignment
			if logs[i].Host == reference.Host {
				if a.By != BySameClock {
					t.Errorf("seed %d: rank %d is aligned by %s", seed, i, a.By)
				}
				continue
			}
			if a.By != ByCollectives || a.Collectives != 200 || !a.Known {
				t.Fatalf("seed %d: rank %d is aligned by %s of %d: %s", seed, i, a.By, a.Collectives, all[i].Aligned)
			}
			if off := offBy(logs[i], reference, kernelsOf(tl, "_Z4gemmPfS_S_i")[uint32(i)], kernelsIn(t, logs[i])); off > 5000 || off > float64(a.ErrorNS) {
				t.Errorf("seed %d: rank %d is %.0f ns off, bound %d", seed, i, off, a.ErrorNS)
			}
			if !strings.Contains(all[i].Aligned, "through 200 collectives: right to ") || !strings.Contains(all[i].Aligned, "; the wall clocks are right to 8.0 ms") {
				t.Errorf("seed %d: said is %q", seed, all[i].Aligned)
			}
		}
		notBackwards(t, kernelsOf(tl, logtest.World), 8*perHost)
	}
}

// referenceOf is the log whose clock the timeline has.
func referenceOf(t *testing.T, logs []*logtest.RankLog, all []Summary) *logtest.RankLog {
	t.Helper()
	for _, l := range logs {
		if all[0].Alignment.To == fmt.Sprintf("rank%d", l.Rank) {
			return l
		}
	}
	t.Fatalf("the timeline has the clock of %s", all[0].Alignment.To)
	return nil
}

// kernelsIn are the computing kernels of a log as they are there.
func kernelsIn(t *testing.T, l *logtest.RankLog) []partOf {
	t.Helper()
	tl, _ := convertRanks(t, []*logtest.RankLog{l})
	return kernelsOf(tl, "_Z4gemmPfS_S_i")[uint32(l.Rank)]
}

// offBy is how far the kernels of a rank are at most from where they were on the reference's clock.
func offBy(l, reference *logtest.RankLog, got, own []partOf) (ns float64) {
	for i, p := range own {
		ns = max(ns, math.Abs(float64(int64(got[i].start-reference.At(l.Since(p.start))))))
	}
	return ns
}

// notBackwards checks that no collective ends on a rank before the last one has entered it.
func notBackwards(t *testing.T, parts map[uint32][]partOf, ranks int) {
	t.Helper()
	if len(parts) != ranks {
		t.Fatalf("%d ranks have collectives", len(parts))
	}
	for i := range parts[0] {
		entered, left := uint64(0), uint64(math.MaxUint64)
		for _, list := range parts {
			entered, left = max(entered, list[i].start), min(left, list[i].end)
		}
		if left < entered {
			t.Errorf("collective %d ends %d ns before the last rank has entered it", i, entered-left)
		}
	}
}

// Where the wall clocks tell more, they count. Where collectives contradict them, that is said.
func TestRanksByWallClocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ranks logtest.Ranks
		by    string
		says  string
	}{
		"wall clocks of PTP":              {logtest.Ranks{WallOff: 300, WallError: 500}, ByWallClocks, "right to 1.1 µs"},
		"not synchronized":                {logtest.Ranks{WallOff: 3e6}, ByCollectives, "through 100 collectives: right to "},
		"a wall clock that is wrong":      {logtest.Ranks{WallOff: 9e9, WallError: 1e6}, ByWallClocks, "; the collectives contradict that by "},
		"too few collectives":             {logtest.Ranks{WallOff: 3e6, WallError: 4e6, Steps: 12}, ByWallClocks, "right to 8.0 ms"},
		"a clock of an error not known":   {logtest.Ranks{WallOff: 9e12}, ByCollectives, "through 100 collectives"},
		"a rank that is always the last":  {logtest.Ranks{WallOff: 3e6, WallError: 4e6, Straggler: 1, Late: 20e6}, ByWallClocks, "right to 8.0 ms"},
		"hosts whose collectives are own": {logtest.Ranks{WallOff: 3e6, WallError: 4e6, Apart: true}, ByWallClocks, "right to 8.0 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.ranks
			o.Hosts, o.PerHost, o.Drift = 2, 1, 20
			if o.Steps == 0 {
				o.Steps = 100
			}
			if o.Late == 0 {
				o.Straggler = -1
			}
			_, all := convertRanks(t, logtest.WriteRanks(t, o))
			aligned := all[0]
			if aligned.Aligned == "" {
				aligned = all[1]
			}
			if aligned.Alignment.By != c.by || !strings.Contains(aligned.Aligned, c.says) {
				t.Errorf("aligned by %s: %q", aligned.Alignment.By, aligned.Aligned)
			}
		})
	}
}

// Ranks select processes, of logs of one rank and of logs of several. What is left keeps its clock. A job's only process
// counts as rank 0, as when it is recorded.
func TestFilterRanks(t *testing.T) {
	t.Parallel()
	list := logsOf(logtest.WriteRanks(t, logtest.Ranks{Hosts: 2, PerHost: 4, Steps: 20, WallOff: 1e6, WallError: 2e6, Straggler: -1}))
	process := func(rank, of int) string {
		return fmt.Sprintf("process pid=%d exe=/bin/a args=a environment=\"RANK=%d\\x00WORLD_SIZE=%d\"\n", rank+1, rank, of) +
			fmt.Sprintf("call pid=%d tid=%[1]d func=#1 enter=1000 dur=5\n", rank+1)
	}
	alone := []Log{{"alone", logtest.Assemble(t, process(0, 1))}}
	var both strings.Builder
	for rank := range 3 {
		both.WriteString(process(rank, 3))
	}
	fmt.Fprintf(&both, "process pid=9 exe=/bin/launcher args=launcher\ncall pid=9 tid=9 func=#1 enter=1000 dur=5\n")
	several := []Log{{"several", logtest.Assemble(t, both.String())}}
	for _, c := range []struct {
		logs []Log
		text string
		pids []uint32
		want string
	}{
		{list, "0,5-6,last", nil, "0 5 6 7"},
		{list, "3", nil, "3"},
		{list, "9", nil, ""},
		{several, "0-last", nil, "0 1 2"},
		{several, "last", nil, "2"},
		{several, "0,1", []uint32{2, 9}, "1"},
		{alone, "0", nil, "0"},
		{alone, "last", nil, "0"},
		{alone, "1", nil, ""},
	} {
		list, err := ranks.ParseList(c.text)
		if err != nil {
			t.Fatal(err)
		}
		collector := timelinetest.NewCollector(t)
		_, err = SomeTimeline(c.logs, Options{Filter: Filter{Ranks: list, PIDs: c.pids}}, collector)
		if c.want == "" {
			if !errors.Is(err, ErrNothing) {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range collector.Timeline().Processes {
			slicesOf := 0
			for _, th := range p.Threads {
				slicesOf += len(th.Slices)
			}
			if p.Name != "launcher" && slicesOf > 0 {
				got = append(got, fmt.Sprint(p.Rank.Number))
			} else {
				t.Errorf("%s: the process %s is there, with %d calls", c.text, p.Name, slicesOf)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s selects %s, want %s", c.text, strings.Join(got, " "), c.want)
		}
	}
}

// A log that is converted leaves little behind: the memory does not grow with the number of logs. The test is alone while
// it runs, as it is not parallel.
func TestManyLogsMemory(t *testing.T) {
	var data bytes.Buffer
	logtest.WriteLaunches(t, &data, 10_000)
	held := func(n int) uint64 {
		var logs []Log
		for i := range n {
			logs = append(logs, Log{fmt.Sprint(i), logtest.InMemory(data.Bytes())})
		}
		c := newConversion(logs, Options{})
		must.Do(t, c.read())
		must.Get(c.run(nil))(t)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		runtime.KeepAlive(c)
		return m.HeapAlloc
	}
	const few, many, each = 2, 18, 512 << 10
	before, after := held(few), held(many)
	if after > before+(many-few)*each {
		t.Errorf("%d logs leave %d KiB, %d leave %d: more than %d KiB a log", few, before>>10, many, after>>10, each>>10)
	}
}

// rankLog is a log of a process with a rank, which uses one GPU.
func rankLog(host string, pid int, variables, gpu string) string {
	return fmt.Sprintf(`meta key=host value=%[1]s
process pid=%[2]d start=10 exe=/bin/train environment=%[3]q
device pid=%[2]d id=0 name=%[4]s uuid=%[4]s
kernel pid=%[2]d device=0 context=1 stream=7 correlation=1 start=100 dur=5 name=k
`, host, pid, variables, gpu)
}

// Ranks order processes and GPUs, in a log and between logs, and name processes.
func TestRanks(t *testing.T) {
	t.Parallel()
	rank := func(n int) string { return fmt.Sprintf("LOCAL_RANK=%d\x00RANK=%d\x00WORLD_SIZE=12", n%4, n) }
	for name, test := range map[string]struct {
		logs []string
		want string
	}{
		"one log": {[]string{rankLog("n1", 30, rank(10), "aa") + rankLog("n1", 20, "", "bb") + rankLog("n1", 10, rank(2), "cc")},
			"rank 2: train 10, rank 10: train 30, train 20; GPUs cc aa bb"},
		"logs of several hosts": {[]string{rankLog("n2", 7, rank(9), "aa"), rankLog("n1", 7, rank(1), "bb"), rankLog("n3", 7, rank(4), "cc")},
			"rank 1: train 7, rank 4: train (n3, PID 7) 4194311, rank 9: train (n2, PID 7) 8388615; GPUs bb cc aa"},
		"without ranks": {[]string{rankLog("n2", 9, "", "aa") + rankLog("n2", 8, "", "bb")}, "train 9, train 8; GPUs aa bb"},
	} {
		tl, _ := joinedTimelines(t, Options{}, test.logs...)
		var processes, gpus []string
		for _, p := range tl.Processes {
			processes = append(processes, fmt.Sprintf("%s %d", p.Name, p.PID))
		}
		for _, g := range tl.GPUs {
			gpus = append(gpus, g.Name)
		}
		got := strings.Join(processes, ", ") + "; GPUs " + strings.Join(gpus, " ")
		goldentest.Same(t, test.want, got, "%s", name)
	}
}

// identitiesOf are the logs of ranks, with a second of time each.
func identitiesOf(world uint32, numbers ...uint32) (logs []Identity) {
	for _, r := range numbers {
		logs = append(logs, Identity{Name: fmt.Sprintf("rank%d", r), Run: "r1", Ranks: []uint32{r}, World: world, Begin: 5e9, End: 6e9, Aligned: true})
	}
	return logs
}

func TestRosterLines(t *testing.T) {
	t.Parallel()
	change := func(logs []Identity, i int, f func(l *Identity)) []Identity {
		f(&logs[i])
		return logs
	}
	for name, c := range map[string]struct {
		logs []Identity
		want []string
	}{
		"all":                  {identitiesOf(3, 0, 1, 2), nil},
		"one log":              {identitiesOf(8, 0), nil},
		"number not known":     {identitiesOf(0, 0, 5), nil},
		"one is missing":       {identitiesOf(8, 0, 1, 2, 3, 4, 6, 7), []string{"rank 5 of 8 is not among the logs"}},
		"several are missing":  {identitiesOf(8, 0, 3), []string{"ranks 1-2, 4-7 of 8 are not among the logs"}},
		"left out on purpose":  {change(identitiesOf(8, 0, 3), 1, func(l *Identity) { l.Chosen = true }), nil},
		"of another run":       {change(identitiesOf(3, 0, 1, 2, 2), 3, func(l *Identity) { l.Run, l.Name = "r2", "odd" }), []string{"odd is of another run, r2: the others are of r1"}},
		"of a run not known":   {change(identitiesOf(3, 0, 1, 2), 0, func(l *Identity) { l.Run = "" }), nil},
		"twice":                {change(identitiesOf(3, 0, 1, 2, 2), 3, func(l *Identity) { l.Name = "copy" }), []string{"rank 2 is in several logs, rank2 and copy: are they of one run?"}},
		"ends early":           {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6 }), []string{"rank1 ends 400.0 ms before the others: rank 1"}},
		"ends a little early":  {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 40e6 }), nil},
		"within the error":     {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6; l.Error = 380e6 }), nil},
		"clock not known":      {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6; l.Aligned = false }), nil},
		"without ranks":        {[]Identity{{Name: "a"}, {Name: "b"}}, nil},
		"many in several logs": {append(identitiesOf(5, 0, 1, 2, 3, 4), identitiesOf(5, 0, 1, 2, 3, 4)...), []string{"rank 0 is in several logs, rank0 and rank0: are they of one run?", "rank 1 is in several logs, rank1 and rank1: are they of one run?", "rank 2 is in several logs, rank2 and rank2: are they of one run?", "2 more ranks are in several logs"}},
	} {
		if got := RosterLines(c.logs); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	at := func(begin uint64, run string, world uint32, ranks ...uint32) Identity {
		return Identity{Run: run, Ranks: ranks, World: world, Begin: begin, End: begin + 10, Aligned: true}
	}
	unknown := at(0, "", 2, 1)
	unknown.Aligned = false
	for name, c := range map[string]struct {
		logs []Identity
		want string
	}{
		"none":                               {nil, "[]"},
		"one run":                            {[]Identity{at(0, "a", 3, 2), at(1, "a", 3, 0), at(2, "a", 3, 1)}, "[[0 1 2]]"},
		"clocks of hosts that differ":        {[]Identity{at(0, "a", 2, 0), at(1000, "a", 2, 1)}, "[[0 1]]"},
		"two runs":                           {[]Identity{at(0, "a", 2, 0), at(0, "b", 2, 0), at(0, "a", 2, 1), at(0, "b", 2, 1)}, "[[0 2] [1 3]]"},
		"several runs of one job":            {[]Identity{at(0, "a", 2, 0), at(1, "a", 2, 1), at(50, "a", 2, 1), at(51, "a", 2, 0)}, "[[0 1] [2 3]]"},
		"a job that runs one process":        {[]Identity{at(0, "a", 1, 0), at(1, "a", 1, 0)}, "[[0] [1]]"},
		"a job that runs no ranks":           {[]Identity{at(0, "a", 0), at(1, "a", 0)}, "[[0] [1]]"},
		"no name, at one time":               {[]Identity{at(0, "", 2, 0), at(5, "", 2, 1), at(30, "", 2, 0), at(31, "", 2, 1)}, "[[0 1] [2 3]]"},
		"no name, a rank of each run":        {[]Identity{at(0, "", 2, 0), at(30, "", 2, 1)}, "[[0] [1]]"},
		"no name, and a clock is not known":  {[]Identity{at(0, "", 2, 0), unknown}, "[[0] [1]]"},
		"numbers of ranks that differ":       {[]Identity{at(0, "a", 2, 0), at(0, "a", 3, 1)}, "[[0] [1]]"},
		"a log of several ranks":             {[]Identity{at(0, "a", 4, 0, 1), at(0, "a", 4, 2, 3)}, "[[0 1]]"},
		"the same rank at one time":          {[]Identity{at(0, "a", 2, 0), at(1, "a", 2, 0)}, "[[0] [1]]"},
		"a number of ranks that is not told": {[]Identity{at(0, "a", 0, 0), at(0, "a", 0, 1)}, "[[0 1]]"},
	} {
		if got := fmt.Sprint(RunsOf(c.logs)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
