package read

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Losses are summed by cause. Every cause that this version knows has a number; one of a
// newer version is kept, too.
func TestLost(t *testing.T) {
	t.Parallel()
	lost := catalogOf(t, logtest.Assemble(t, `lost pid=1 cause=ring_buffer count=3
lost pid=2 cause=ring_buffer count=4
lost cause=from_the_future count=5`)).Outcome.Lost()
	want := make(map[string]uint64)
	for _, cause := range tracelog.LostCauses {
		want[cause] = 0
	}
	want["ring_buffer"], want["from_the_future"] = 7, 5
	goldentest.Same(t, want, lost, "lost")
}

// remarksText shows remarks, a line each.
func remarksText(list []timeline.Event) string {
	var lines []string
	for _, e := range list {
		switch e := e.(type) {
		case *timeline.Loss:
			lines = append(lines, fmt.Sprintf("%d: %d %s of process %d from %d to %d", e.Time, e.Count, e.Cause, e.PID, e.From, e.To))
		case *timeline.Note:
			lines = append(lines, fmt.Sprintf("%d: %s of process %d", e.Time, e.Text, e.PID))
		}
	}
	return strings.Join(lines, "\n")
}

// Losses and notes come in the order of time, those of one time in that of the log. One of
// unknown time comes at the end; the time of a loss is also told from the beginning.
func TestRemarks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"none", []string{"marker pid=1 time=1000"}, ""},
		{"by time", []string{"marker pid=1 time=1000\nnote time=3000 text=second", "note time=2000 pid=4 text=first"},
			"2000: first of process 4\n3000: second of process 0"},
		{"a loss comes when it ended", []string{"marker pid=1 time=1000\nnote time=2500 text=note\nlost pid=3 cause=nesting count=2 from=2000 to=3000"},
			"2500: note of process 0\n3000: 2 nesting of process 3 from 1000 to 2000"},
		{"at one time, as in the log", []string{"marker pid=1 time=1000", "note time=2000 text=a", "lost cause=b count=1 to=2000", "note time=2000 text=c", "lost cause=d count=1 to=2000"},
			"2000: a of process 0\n2000: 1 b of process 0 from 0 to 1000\n2000: c of process 0\n2000: 1 d of process 0 from 0 to 1000"},
		{"of unknown time", []string{"note text=a", "lost cause=b count=1", "marker pid=1 time=1000\nmarker pid=1 time=9000", "note time=2000 text=c"},
			"2000: c of process 0\n9000: a of process 0\n9000: 1 b of process 0 from 0 to 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, remarksText(catalogOf(t, logtest.Parts(t, test.parts...)).Remarks())); diff != "" {
				t.Errorf("remarks (-want +got):\n%s", diff)
			}
		})
	}
}

// So many losses and notes are kept that a recording may have; those beyond are counted, and
// losses among them still count in the sum.
func TestRemarksBound(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	g.Append("lost cause=nesting count=1 to=5")
	g.Append(strings.Repeat("note time=7 text=x\n", maxRemarks-1))
	g.Append("note time=8 text=x\nlost cause=nesting count=1 to=5\nlost cause=nesting count=1 to=5")
	c := catalogOf(t, logtest.InMemory(g.Bytes()))
	if n := len(c.Remarks()); n != maxRemarks || c.Outcome.LeftOut != 3 || c.Outcome.Lost()["nesting"] != 3 || len(c.Outcome.Notes) != maxRemarks-1 {
		t.Errorf("%d remarks, %d notes, %d left out, %d records lost", n, len(c.Outcome.Notes), c.Outcome.LeftOut, c.Outcome.Lost()["nesting"])
	}
}

// What CUPTI says of a process last counts; the clock's error is the largest of all.
func TestCUPTI(t *testing.T) {
	t.Parallel()
	o := &catalogOf(t, logtest.Assemble(t, `cupti pid=1 status=off clock_error=5
cupti pid=1 status=on clock_error=50
cupti pid=2 status=on clock_error=90
cupti pid=2 status="another client took over" clock_error=7`)).Outcome
	if !o.Recorded(1) || o.Recorded(2) || o.Recorded(3) {
		t.Errorf("recorded are 1: %v, 2: %v, 3: %v", o.Recorded(1), o.Recorded(2), o.Recorded(3))
	}
	if o.ClockError() != 90 || new(Outcome).ClockError() != 0 {
		t.Errorf("the clock's error is %d", o.ClockError())
	}
}

// How long the log states that it is complete.
func TestCompleteUntil(t *testing.T) {
	t.Parallel()
	o := &catalogOf(t, logtest.Parts(t, "flushed pid=0 until=100\nflushed pid=1 until=90\nflushed pid=2 until=95",
		"flushed pid=0 until=80\nflushed pid=1 until=190\nprocess_end pid=1 until=170\nprocess_end pid=2 until=300")).Outcome
	got := []uint64{o.CallsUntil(), o.RecordsUntil(1), o.RecordsUntil(2), o.RecordsUntil(3)}
	if diff := cmp.Diff([]uint64{100, 190, 300, 0}, got); diff != "" {
		t.Errorf("calls, and records of processes 1, 2 and 3, are complete until (-want +got):\n%s", diff)
	}
	goldentest.Same(t, []uint32{1, 2}, slices.Sorted(maps.Keys(o.ends)), "processes that have ended")
}

// Only where CUPTI recorded all of a process should each call that puts work on a GPU have
// an API record: until the process handed over its last records.
func TestCorrelated(t *testing.T) {
	t.Parallel()
	const on, whole = "cupti pid=1 status=on\n", "process_end pid=1 time=900 complete=1 until=800\n"
	for _, test := range []struct {
		name, log string
		filter    *tracelog.Filter
		want      bool
	}{
		{"all was recorded", on + whole, nil, true},
		{"CUPTI was off", "cupti pid=1 status=off\n" + whole, nil, false},
		{"CUPTI said nothing", whole, nil, false},
		{"the process is still running", on, nil, false},
		{"the last records did not arrive", on + "process_end pid=1 time=900 complete=0", nil, false},
		{"another process ended", on + "process_end pid=2 time=900 complete=1", nil, false},
		{"parts of the program were left out", on + whole + "meta key=schedule value=\"--after 5s\"", nil, false},
		{"the schedule is empty", on + whole + "meta key=schedule value=\"\"", nil, true},
		{"a filter leaves records out", on + whole, &tracelog.Filter{From: 1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := take(t, NewCatalog(test.filter), openLog(t, logtest.Assemble(t, test.log)))
			if got := c.Correlated(&Program{PID: 1}); got != test.want {
				t.Errorf("calls are correlated: %v, want %v", got, test.want)
			}
		})
	}
	c := catalogOf(t, logtest.Assemble(t, on+whole+"process_end pid=2 time=900"))
	until := func(pid uint32) uint64 { return c.HandedOver(&Program{PID: pid}) }
	if until(1) != 800 || until(2) != never || until(3) != never {
		t.Errorf("the last records were handed over at %d, %d, %d", until(1), until(2), until(3))
	}
}

// Each program that ran under a PID has an end of its own.
func TestEndsOfReplacedPrograms(t *testing.T) {
	t.Parallel()
	const programs = "cupti pid=1 status=on\nprocess pid=1 start=1000 exe=/bin/one\nprocess pid=1 start=5000 exe=/bin/two\nprocess pid=1 start=7000 exe=/bin/three\nend time=9000\n"
	for name, x := range map[string]struct {
		ends string
		want []string
	}{
		"all handed over": {"process_end pid=1 time=4000 complete=1 until=3900 reason=exec\nprocess_end pid=1 time=6500 complete=1 until=6400 reason=exec\nprocess_end pid=1 time=8000 complete=1 until=7900",
			[]string{"one true 3900, 5000 exec, horizon 5000", "two true 6400, 7000 exec, horizon 7000", "three true 7900, 8000 exit code 0, horizon 8000"}},
		"not in the order of time": {"process_end pid=1 time=8000 complete=1 until=7900 status=3\nprocess_end pid=1 time=4000 complete=1 until=3900 reason=exec\nprocess_end pid=1 time=6500 complete=1 until=6400 reason=exec",
			[]string{"one true 3900, 5000 exec, horizon 5000", "two true 6400, 7000 exec, horizon 7000", "three true 7900, 8000 exit code 3, horizon 8000"}},
		"one had no time": {"process_end pid=1 time=4000 complete=0 until=2000 reason=exec\nprocess_end pid=1 time=6500 complete=1 until=6400 reason=exec\nprocess_end pid=1 time=8000 complete=1",
			[]string{"one false 2000, 5000 exec, horizon 5000", "two true 6400, 7000 exec, horizon 7000", "three true never, 8000 exit code 0, horizon 8000"}},
		"the end of one is missing": {"process_end pid=1 time=6500 complete=1 until=6400 reason=exec\nprocess_end pid=1 time=8000 complete=1 until=7900",
			[]string{"one false never, 5000 exec, horizon 5000", "two true 6400, 7000 exec, horizon 7000", "three true 7900, 8000 exit code 0, horizon 8000"}},
		"the last has not ended": {"process_end pid=1 time=4000 complete=1 until=3900 status=3 reason=exec\nprocess_end pid=1 time=6500 complete=1 until=6400 status=3 reason=exec",
			[]string{"one true 3900, 5000 exec, horizon 5000", "two true 6400, 7000 exec, horizon 7000", "three false never, 0 , horizon 9000"}},
		"two ends of one program": {"process_end pid=1 time=3000 complete=1 until=2900 reason=exec\nprocess_end pid=1 time=4000 complete=1 until=3900 reason=exec",
			[]string{"one true 3900, 5000 exec, horizon 5000", "two false never, 7000 exec, horizon 7000", "three false never, 0 , horizon 9000"}},
		"the first two ended, and others got the PID": {"process_end pid=1 time=4000 complete=1 until=3900 status=139 reason=\"signal 11 (SIGSEGV)\"\nprocess_end pid=1 time=6500 complete=1 until=6400 status=-1 reason=exit",
			[]string{"one true 3900, 4000 signal 11 (SIGSEGV), horizon 4000", "two true 6400, 6500 , horizon 6500", "three false never, 0 , horizon 9000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := resolved(t, logtest.Assemble(t, programs+x.ends))
			var got []string
			for _, g := range c.Processes.Get(1).Programs {
				until := fmt.Sprint(c.HandedOver(g))
				if c.HandedOver(g) == never {
					until = "never"
				}
				at, how := c.Ending(g)
				got = append(got, fmt.Sprintf("%s %t %s, %d %s, horizon %d", g.Name, c.Correlated(g), until, at, how, c.Horizon(g)))
			}
			if diff := cmp.Diff(x.want, got); diff != "" {
				t.Errorf("whether the calls of each program are correlated, and until when; its end; its horizon (-want +got):\n%s", diff)
			}
			if n := strings.Count(x.ends, "process_end"); len(c.Outcome.AllEnds()) != n {
				t.Errorf("%d ends, not %d", len(c.Outcome.AllEnds()), n)
			}
		})
	}
}

// As many ends as a log may have are found at once, in whatever order they are.
func TestManyEnds(t *testing.T) {
	t.Parallel()
	for _, step := range []int{1, -1} {
		o := newOutcome()
		for i := range maxDefinitions {
			o.addEnd(tracelog.ProcessEnd{PID: 1, Time: uint64(maxDefinitions + step*i)})
		}
		for at := uint64(maxDefinitions + 100); at < 2*maxDefinitions && step > 0; at++ {
			if e, _ := o.EndOf(&Program{PID: 1, Until: at}); e.Time != at {
				t.Fatalf("the end before %d is at %d", at, e.Time)
			}
		}
		if len(o.ends[1]) != maxDefinitions {
			t.Errorf("%d ends, not %d", len(o.ends[1]), maxDefinitions)
		}
	}
}

// What a program left unfinished ends with exec, else with the process, else with the log.
func TestHorizon(t *testing.T) {
	t.Parallel()
	c := resolved(t, logtest.Assemble(t, `process pid=1 start=1000 exe=/bin/one
process pid=1 start=5000 exe=/bin/two
call pid=1 tid=1 func=#1 enter=4900 dur=200
process pid=2 start=1000 exe=/bin/three
process pid=3 start=1000 exe=/bin/four
process_end pid=1 time=8000
process_end pid=2
end time=9000`))
	var got []string
	for _, pid := range c.Processes.PIDs {
		for _, g := range c.Processes.Get(pid).Programs {
			got = append(got, fmt.Sprint(g.Name, " ", c.Horizon(g)))
		}
	}
	goldentest.Same(t, []string{"one 4900", "two 8000", "three 9000", "four 9000"}, got, "programs with their horizon")
}

// What is known of the error of the wall clock: it holds for all readings, of all logs of a host.
func TestClockError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		logs []string
		want string
	}{
		{"a clock of unknown error", []string{"clock monotonic=100 realtime=5100"}, "0 false, ahead 5000"},
		{"a synchronized clock", []string{"clock monotonic=100 realtime=5100 spread=20 max_error=1000"}, "1010 true, ahead 5000"},
		{"the best of two readings", []string{"clock monotonic=100 realtime=5100 max_error=1000\nclock monotonic=200 realtime=5500 max_error=300"}, "1300 true, ahead 5300"},
		{"no longer synchronized", []string{"clock monotonic=100 realtime=5100 max_error=1000\nclock monotonic=200 realtime=5200"}, "0 false, ahead 5000"},
		{"an error beyond measure", []string{"clock monotonic=100 realtime=5100 max_error=18446744073709551615 spread=9"}, "0 false, ahead 5000"},
		{"two logs", []string{"clock monotonic=100 realtime=5100 max_error=1000", "clock monotonic=700 realtime=5650 max_error=40"}, "1050 true, ahead 4950"},
		{"two logs, one old", []string{"clock monotonic=100 realtime=5100", "clock monotonic=700 realtime=5650 max_error=40"}, "0 false, ahead 4950"},
		{"two logs, one without a reading", []string{"", "clock monotonic=700 realtime=5650 max_error=40"}, "40 true, ahead 4950"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var k Clocks
			for _, log := range test.logs {
				k.Join(&catalogOf(t, logtest.Assemble(t, log)).Clocks)
			}
			ns, known := k.Error()
			if got := fmt.Sprintf("%d %t, ahead %d", ns, known, k.Ahead); got != test.want {
				t.Errorf("the error is %s, want %s", got, test.want)
			}
		})
	}
}

// How far the wall clock was ahead in the first reading, and how far apart all readings are.
func TestClocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, log string
		want      string
	}{
		{"no reading", "", "first 0, known false, ahead 0, booted 0, moved 0"},
		{"one reading", "clock monotonic=100 realtime=5100 boottime=700", "first 100, known true, ahead 5000, booted 4400, moved 0"},
		{"a clock that runs even", "clock monotonic=100 realtime=5100\nclock monotonic=200 realtime=5200", "first 100, known true, ahead 5000, booted 5100, moved 0"},
		{"a clock that was set forth and back", "clock monotonic=100 realtime=5100\nclock monotonic=200 realtime=5900\nclock monotonic=300 realtime=4800", "first 100, known true, ahead 5000, booted 5100, moved 1200"},
		{"a clock behind the monotonic one", "clock monotonic=5000 realtime=100\nclock monotonic=6000 realtime=1200", "first 5000, known true, ahead -4900, booted 100, moved 100"},
		{"readings without one of the clocks", "clock monotonic=100\nclock realtime=70\nclock monotonic=200 realtime=300 boottime=200", "first 100, known true, ahead 100, booted 100, moved 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := &catalogOf(t, logtest.Assemble(t, test.log)).Clocks
			got := fmt.Sprintf("first %d, known %t, ahead %d, booted %d, moved %d", k.First.Monotonic, k.Known, k.Ahead, k.Booted, k.Moved())
			if got != test.want {
				t.Errorf("the clocks are\n%s, want\n%s", got, test.want)
			}
		})
	}
}
