package read

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A log that is followed is known up to what it says, but a silent process holds nothing back, and no
// watermark is in the future.
func TestKnown(t *testing.T) {
	t.Parallel()
	const s = 1_000_000_000
	two := "flushed pid=0 until=1000000000\ncupti pid=1 status=on\ncupti pid=2 status=on\n"
	flushed := func(pid, until int) string { return fmt.Sprintf("flushed pid=%d until=%d\n", pid, until) }
	for _, test := range []struct {
		name, log            string
		calls, first, second uint64 // of calls, and of the records of two processes
	}{
		{"nothing is said", "", 0, 0, 0},
		{"probes alone", flushed(0, 5*s), 5 * s, 5 * s, 5 * s},
		{"processes that have said nothing", two, s, 0, 0},
		{"a process that has said nothing for long", two + flushed(0, 6*s) + flushed(1, 5*s), 6 * s, 5 * s, 6 * s},
		{"processes that differ", two + flushed(0, 4*s) + flushed(1, 3*s) + flushed(2, 2*s), 4 * s, 3 * s, 2 * s},
		{"a process that has been silent", two + flushed(0, 9*s) + flushed(1, 8*s) + flushed(2, 2*s), 9 * s, 8 * s, 9 * s},
		{"a process that has ended", two + flushed(0, 4*s) + flushed(1, 3*s) + "process_end pid=2 time=5\n", 4 * s, 3 * s, 4 * s},
		{"a process without CUPTI", "cupti pid=1 status=missing\ncupti pid=2 status=on\n" + flushed(0, 4*s) + flushed(2, 2*s), 4 * s, 4 * s, 2 * s},
		{"no probes", "cupti pid=1 status=on\ncupti pid=2 status=on\n" + flushed(1, 3*s) + flushed(2, 2*s), 3 * s, 3 * s, 2 * s},
		{"no statement of calls for long", two + flushed(1, 9*s) + flushed(2, 9*s), 6 * s, 9 * s, 9 * s},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := followedCatalog(t, test.log)
			low := func(kind tracelog.Kind, pid uint32) uint64 { return c.Watermarks.ofProcess(pid, kind).Low() }
			got := []uint64{low(tracelog.KindCall, 1), low(tracelog.KindKernel, 1), low(tracelog.KindAPI, 2), c.Outcome.Known()}
			if diff := cmp.Diff([]uint64{test.calls, test.first, test.second, min(test.calls, test.first, test.second)}, got); diff != "" {
				t.Errorf("known up to (-want +got):\n%s", diff)
			}
		})
	}
}

func followedCatalog(t *testing.T, log string) *Catalog {
	t.Helper()
	c := NewFollowing()
	r := must.Get(logtest.Assemble(t, log)())(t)
	defer r.Close()
	for {
		if more, err := c.Next(r); err != nil {
			t.Fatal(err)
		} else if !more {
			return c
		}
	}
}

// A catalog that follows keeps nothing of blocks of events, and Update finds programs as they come.
func TestFollowing(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	r := g.Follow()
	c := NewFollowing()
	step := func(text string) (programs []string) {
		g.Append(text)
		for {
			if more, err := c.Next(r); err != nil {
				t.Fatal(err)
			} else if !more {
				break
			}
		}
		c.Processes.Update()
		for _, pid := range c.Processes.PIDs {
			for _, p := range c.Processes.Get(pid).Programs {
				programs = append(programs, fmt.Sprintf("%d %s %d-%d %t", p.PID, p.Name, p.Start, p.Until, p.Handles.Kernel(5, 150) != nil))
			}
		}
		return programs
	}
	got := [][]string{
		step("call pid=1 tid=1 func=#1 enter=100\n"),
		step("process pid=1 start=90 exe=/bin/first\nsymbol pid=1 time=100 handle=5 name=k\n"),
		step("process pid=2 start=120 exe=/bin/other\ncall pid=1 tid=1 func=#1 enter=140\n"),
		step("process pid=1 start=200 exe=/bin/second\n"),
	}
	want := [][]string{
		{"1  0-0 false"}, {"1 first 90-0 true"}, {"1 first 90-0 true", "2 other 120-0 false"},
		{"1 first 90-200 true", "1 second 200-0 false", "2 other 120-0 false"},
	}
	goldentest.Same(t, want, got, "programs by step")
	for o, m := range c.Watermarks.all {
		if len(m.from)+len(m.at) > 0 {
			t.Errorf("blocks of %v are kept", o)
		}
	}
}

// A long recording says often how far it is: that is no definition.
func TestManyFlushed(t *testing.T) {
	t.Parallel()
	c := NewCatalog(nil)
	c.Totals[tracelog.KindFlushed] = maxDefinitions + 1
	if err := c.excess(); err != nil {
		t.Error(err)
	}
	for pid := range uint32(maxFlushed + 10) {
		c.Outcome.flush(&tracelog.Flushed{PID: pid, Until: 7})
	}
	if n := len(c.Outcome.flushed); n != maxFlushed {
		t.Errorf("%d processes are kept, want %d", n, maxFlushed)
	}
}
