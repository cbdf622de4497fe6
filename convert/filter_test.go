package convert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// filterLog is a recording that begins at 1000: calls and work of two processes, with two
// threads in the first. CUPTI knows thread 11 as 2.
var filterLog = []string{`
function id=1 name=launch library=driver
function id=2 name=wait library=driver
process pid=10
process pid=20
thread pid=10 tid=11 local_tid=2
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
`, `
call pid=10 tid=10 func=#1 enter=1100 dur=50
call pid=10 tid=10 func=#2 enter=1200 dur=200
call pid=10 tid=11 func=#1 enter=1500 dur=10
call pid=20 tid=20 func=#1 enter=1900 dur=20
`, `
api pid=10 tid=10 domain=1 name=launch start=1110 dur=10 correlation=1
api pid=10 tid=2 domain=1 name=launch start=1502 dur=5 correlation=2
api pid=20 tid=20 domain=1 name=launch start=1902 dur=5 correlation=3
`, `
kernel pid=10 device=0 context=1 stream=7 start=1160 dur=100 name=k correlation=1
kernel pid=10 device=1 context=2 stream=13 start=1600 dur=300 name=long correlation=2
kernel pid=20 device=0 context=1 stream=7 start=2000 dur=5 name=k correlation=3
`}

// chosen shows what of a log is in a timeline: calls by thread and time, work by its name and
// time.
func chosen(tl *timelinetest.Timeline) string {
	var all []string
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				all = append(all, fmt.Sprintf("%d@%d", th.TID, th.Slices[i].Start))
			}
		}
		for _, s := range p.Streams {
			for i := range s.Work {
				all = append(all, fmt.Sprintf("%s@%d", s.Work[i].Shape.Kernel.Name, s.Work[i].Start))
			}
		}
	}
	return strings.Join(all, " ")
}

// TestFilter chooses parts of a log: with an index, without one, and cut off.
func TestFilter(t *testing.T) {
	t.Parallel()
	const everything = "10@1100 10@1200 11@1500 k@1160 long@1600 20@1900 k@2000"
	for name, c := range map[string]struct {
		filter  Filter
		want    string
		leftOut *LeftOut
	}{
		"nothing is limited":           {Filter{}, everything, nil},
		"from the beginning":           {Filter{From: 1}, everything, &LeftOut{Of: 10}},
		"from":                         {Filter{From: 260}, "10@1200 11@1500 k@1160 long@1600 20@1900 k@2000", &LeftOut{Of: 10, Records: 2}},
		"from just after":              {Filter{From: 261}, "10@1200 11@1500 long@1600 20@1900 k@2000", &LeftOut{Of: 10, Records: 3}},
		"to":                           {Filter{To: 160}, "10@1100 k@1160", &LeftOut{Of: 10, Records: 7}},
		"times":                        {Filter{From: 160, To: 501, Times: [][2]time.Duration{{410, 420}, {415, 500}, {160, 161}}}, "11@1500 k@1160", &LeftOut{Of: 10, Records: 8}},
		"from and to":                  {Filter{From: 410, To: 500}, "11@1500", &LeftOut{Of: 10, Records: 9}},
		"last":                         {Filter{Last: 100}, "20@1900 k@2000", &LeftOut{Of: 10, Records: 7}},
		"more than there was":          {Filter{Last: time.Hour}, everything, &LeftOut{Of: 10}},
		"last, and from":               {Filter{Last: 900, From: 950}, "k@2000", &LeftOut{Of: 10, Records: 9}},
		"a process":                    {Filter{PIDs: []uint32{20}}, "20@1900 k@2000", &LeftOut{Of: 10, Records: 7}},
		"two processes":                {Filter{PIDs: []uint32{20, 10}}, everything, &LeftOut{Of: 10}},
		"a thread, and what it caused": {Filter{TIDs: []uint32{11}}, "11@1500 long@1600", &LeftOut{Of: 10, Records: 5, Slices: 2}},
		"a number that only CUPTI has": {Filter{TIDs: []uint32{2}}, "", &LeftOut{Of: 10, Records: 7, Slices: 3}},
		"a thread that is not there":   {Filter{TIDs: []uint32{99}}, "", &LeftOut{Of: 10, Records: 7, Slices: 3}},
		"a device":                     {Filter{Devices: []uint32{1}}, "10@1100 10@1200 11@1500 long@1600 20@1900", &LeftOut{Of: 10, Records: 2}},
		"a stream":                     {Filter{Streams: []uint32{7}}, "10@1100 10@1200 11@1500 k@1160 20@1900 k@2000", &LeftOut{Of: 10, Records: 1}},
		"a name":                       {Filter{Name: "l*"}, "10@1100 11@1500 long@1600 20@1900", &LeftOut{Of: 0, Slices: 3}},
		"a duration":                   {Filter{MinDuration: 100}, "10@1200 k@1160 long@1600", &LeftOut{Of: 0, Slices: 4}},
		"a process and a name":         {Filter{PIDs: []uint32{10}, Name: "launch"}, "10@1100 11@1500", &LeftOut{Of: 10, Records: 3, Slices: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := map[string]logtest.Opener{"with an index": logtest.Parts(t, filterLog...)}
			g := logtest.NewGrowing(t)
			for _, part := range filterLog {
				g.Append(part)
			}
			logs["cut off"] = logtest.InMemory(g.Bytes())
			for kind, open := range logs {
				tl, all := timelineWith(t, Options{Filter: c.filter}, Log{"log", open})
				if got := chosen(tl); got != c.want {
					t.Errorf("%s: chosen are %s, want %s", kind, got, c.want)
				}
				want := c.leftOut
				if kind == "cut off" && want != nil {
					want = &LeftOut{Slices: want.Slices, Unknown: want.Of > 0}
				}
				goldentest.Same(t, want, all[0].LeftOut, "%s: left out is", kind)
			}
		})
	}
}

// CUPTI's number of a thread in its PID namespace may be another thread's number outside:
// what is asked for are the numbers outside.
func TestFilterNamesakes(t *testing.T) {
	t.Parallel()
	log := append([]string{strings.Replace(filterLog[0], "local_tid=2", "local_tid=10\nthread pid=10 tid=10 local_tid=1", 1)}, filterLog[1:]...)
	log[2] = strings.NewReplacer(" tid=10 ", " tid=1 ", " tid=2 ", " tid=10 ").Replace(log[2])
	log = append(log, `overhead pid=10 overhead_kind=1 object_kind=2 tid=10 start=1500 dur=5
marker pid=10 tid=10 time=1501 flags=1 id=1 name=mark
`)
	for tid, want := range map[uint32]string{10: "10@1100 10@1200 k@1160", 11: "11@1500 long@1600"} {
		tl, all := timelineWith(t, Options{Filter: Filter{TIDs: []uint32{tid}}}, Log{"log", logtest.Parts(t, log...)})
		if got := chosen(tl); got != want {
			t.Errorf("of thread %d chosen are %s, want %s", tid, got, want)
		}
		tracks := 0
		for _, p := range tl.Processes {
			tracks += len(p.Tracks)
			for _, th := range p.Threads {
				tracks += len(th.Tracks)
			}
		}
		if want := map[uint32]int{10: 0, 11: 2}[tid]; tracks != want || all[0].RangeMarks != uint64(want/2) {
			t.Errorf("of thread %d there are %d tracks and %d marks, want %d tracks", tid, tracks, all[0].RangeMarks, want)
		}
	}
}

// A recording of which nobody read a clock begins with its first event.
func TestFilterWithoutClock(t *testing.T) {
	t.Parallel()
	without := append([]string{strings.ReplaceAll(filterLog[0], "clock ", "# ")}, filterLog[1:]...)
	tl, _ := timelineWith(t, Options{Filter: Filter{To: 60}}, Log{"log", logtest.Parts(t, without...)})
	if got := chosen(tl); got != "10@1100 k@1160" {
		t.Errorf("chosen are %s", got)
	}
}

// A log that cannot be opened for the look that a filter takes fails the conversion.
func TestFilterErrors(t *testing.T) {
	t.Parallel()
	for fails := range 5 {
		open, n := logtest.Parts(t, filterLog...), 0
		_, err := Timeline([]Log{{"log", func() (*tracelog.Reader, error) {
			if n++; n == fails+1 {
				return nil, fmt.Errorf("no file handle")
			}
			return open()
		}}}, Options{Filter: Filter{TIDs: []uint32{11}, From: 1}}, nil)
		if n <= fails {
			t.Fatalf("the log is opened %d times", n)
		}
		if err == nil {
			t.Errorf("opening fails the time number %d, the conversion does not", n)
		}
	}
}
