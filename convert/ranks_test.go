package convert

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// convertRanks makes one timeline of the logs of ranks.
func convertRanks(t testing.TB, logs []*logtest.RankLog) (*timelinetest.Timeline, []Summary) {
	t.Helper()
	var list []Log
	for _, l := range logs {
		list = append(list, Log{fmt.Sprintf("rank%d", l.Rank), logtest.InMemory(l.Data)})
	}
	c := timelinetest.NewCollector(t)
	all := must.Get(Timeline(list, Options{}, c))(t)
	return c.Timeline(), all
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

// A job's only process has rank 0, as when it is recorded.
func TestFilterOnlyRank(t *testing.T) {
	t.Parallel()
	alone := Log{"alone", logtest.Assemble(t, "process pid=1 exe=/bin/a args=a environment=\"RANK=0\\x00WORLD_SIZE=1\"\ncall pid=1 tid=1 func=#1 enter=1000 dur=5\n")}
	for text, want := range map[string]int{"0": 1, "last": 1, "1": 0} {
		list, err := ranks.ParseList(text)
		if err != nil {
			t.Fatal(err)
		}
		collector := timelinetest.NewCollector(t)
		_, err = SomeTimeline([]Log{alone}, Options{Filter: Filter{Ranks: list}}, collector)
		if want == 0 && errors.Is(err, ErrNothing) {
			continue
		}
		if err != nil || len(collector.Timeline().Processes) != want {
			t.Errorf("--ranks %s: %d processes, %v", text, len(collector.Timeline().Processes), err)
		}
	}
}

// Ranks select processes, of logs of one rank and of logs of several. What is left keeps its clock.
func TestFilterRanks(t *testing.T) {
	t.Parallel()
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 2, PerHost: 4, Steps: 20, WallOff: 1e6, WallError: 2e6, Straggler: -1})
	var list []Log
	for _, l := range logs {
		list = append(list, Log{fmt.Sprintf("rank%d", l.Rank), logtest.InMemory(l.Data)})
	}
	var both strings.Builder
	for rank := range 3 {
		fmt.Fprintf(&both, "process pid=%d exe=/bin/a args=a environment=\"RANK=%d\\x00WORLD_SIZE=3\"\ncall pid=%[1]d tid=%[1]d func=#1 enter=1000 dur=5\n", rank+1, rank)
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
			if p.Rank.Known && slicesOf > 0 {
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
