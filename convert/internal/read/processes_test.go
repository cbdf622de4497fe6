package read

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// programsText shows the programs of all processes, a line each.
func programsText(c *Catalog) string {
	var lines []string
	for _, pid := range c.Processes.PIDs {
		for _, g := range c.Processes.Get(pid).Programs {
			line := fmt.Sprintf("%d: %s %q from %d", g.PID, g.Name, g.Args, g.Start)
			if g.Until != 0 {
				line += fmt.Sprintf(" until %d, cut at %d", g.Until, g.Cut)
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// A process is split into programs where it ran exec. What a program left unfinished is cut
// off where the call was entered in which the recorder met its successor.
func TestPrograms(t *testing.T) {
	t.Parallel()
	const two = `process pid=1 start=1000 exe=/bin/one args=one
process pid=1 start=5000 exe=/bin/two args=two
`
	const other = "process pid=2 start=1000 exe=/bin/a\nprocess pid=2 start=7000 exe=/bin/b\n"
	call := func(pid, enter, dur int) string {
		return fmt.Sprintf("call pid=%d tid=%d func=#1 enter=%d dur=%d\n", pid, pid, enter, dur)
	}
	for _, test := range []struct{ name, log, want string }{
		{"one program", "process pid=1 start=1000 exe=/usr/bin/app args=\"./app\\x00-v\\x00\"",
			`1: app ["./app" "-v" ""] from 1000`},
		{"a program without a folder", "process pid=1 start=1000 exe=app args=app",
			`1: app ["app"] from 1000`},
		{"a process of which there are events only", "marker pid=1 tid=1 time=5",
			`1:  [] from 0`},
		{"exec", two,
			"1: one [\"one\"] from 1000 until 5000, cut at 5000\n1: two [\"two\"] from 5000"},
		{"records in another order", "process pid=1 start=5000 exe=/bin/two args=two\nprocess pid=1 start=1000 exe=/bin/one args=one",
			"1: one [\"one\"] from 1000 until 5000, cut at 5000\n1: two [\"two\"] from 5000"},
		{"the same record twice", "process pid=1 start=1000 exe=/bin/one args=one\nprocess pid=1 start=1000 exe=/bin/one args=one",
			`1: one ["one"] from 1000`},
		{"the call in which the successor was met", two + call(1, 4900, 200),
			"1: one [\"one\"] from 1000 until 5000, cut at 4900\n1: two [\"two\"] from 5000"},
		{"a call that returned as the successor was met", two + call(1, 4900, 100),
			"1: one [\"one\"] from 1000 until 5000, cut at 4900\n1: two [\"two\"] from 5000"},
		{"the earliest of several such calls", two + call(1, 4900, 200) + call(1, 4800, 300) + call(1, 4950, 100),
			"1: one [\"one\"] from 1000 until 5000, cut at 4800\n1: two [\"two\"] from 5000"},
		{"calls that returned before and calls that were entered later", two + call(1, 4800, 199) + call(1, 5100, 200),
			"1: one [\"one\"] from 1000 until 5000, cut at 5000\n1: two [\"two\"] from 5000"},
		{"a call of unknown start, beside another", two + call(1, 0, 6000) + call(1, 4950, 100),
			"1: one [\"one\"] from 1000 until 5000, cut at 4950\n1: two [\"two\"] from 5000"},
		{"a call of impossible duration, beside another", two + "call pid=1 tid=1 func=#1 enter=4900 dur=0xffffffffffffffff\n" + call(1, 4950, 100),
			"1: one [\"one\"] from 1000 until 5000, cut at 4950\n1: two [\"two\"] from 5000"},
		{"three programs", two + "process pid=1 start=9000 exe=/bin/three args=three\n" + call(1, 8900, 200) + call(1, 4900, 200),
			"1: one [\"one\"] from 1000 until 5000, cut at 4900\n1: two [\"two\"] from 5000 until 9000, cut at 8900\n1: three [\"three\"] from 9000"},
		{"two processes", two + other + call(2, 6900, 200) + call(3, 4900, 200) + call(1, 4950, 100),
			"1: one [\"one\"] from 1000 until 5000, cut at 4950\n1: two [\"two\"] from 5000\n2: a [\"\"] from 1000 until 7000, cut at 6900\n2: b [\"\"] from 7000\n3:  [] from 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			goldentest.Same(t, test.want, programsText(resolved(t, logtest.Assemble(t, test.log))), "programs")
		})
	}
}

// A program lasts until the moment in which its successor was met.
func TestProgramAt(t *testing.T) {
	t.Parallel()
	programs := Programs{{Name: "one", Until: 1000}, {Name: "two", Until: 2000}, {Name: "three"}}
	for at, want := range map[uint64]int{0: 0, 999: 0, 1000: 1, 1999: 1, 2000: 2, never: 2} {
		if got := programs.At(at); got != want {
			t.Errorf("at %d program %d runs, want %d", at, got, want)
		}
	}
	if one := (Programs{{Name: "one"}}); one.At(0) != 0 || one.At(never) != 0 {
		t.Error("the only program does not run all the time")
	}
}

// Kernel handles belong to the program that made them.
func TestHandlesOfPrograms(t *testing.T) {
	t.Parallel()
	c := resolved(t, logtest.Assemble(t, `process pid=1 start=1000 exe=/bin/one
process pid=1 start=5000 exe=/bin/two
process pid=1 start=9000 exe=/bin/three
symbol pid=1 time=6000 handle=7 name=second
symbol pid=1 time=2000 handle=7 name=first`))
	var got []string
	for _, g := range c.Processes.Get(1).Programs {
		name := ""
		if k := g.Handles.Kernel(7, 8000); k != nil {
			name = k.Name
		}
		got = append(got, name)
	}
	goldentest.Same(t, []string{"first", "second", ""}, got, "kernel of handle 7 in each program")
}

// The processes of a log are those that it says something of, in the order in which it names
// them.
func TestPIDs(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Parts(t, "marker pid=3 tid=1 time=5", "process pid=1 start=1", "kernel pid=2 start=5",
		"thread pid=6 tid=6\ndevice pid=7\nprocess_end pid=8", "symbol pid=5 time=1 handle=1", "call pid=3 tid=1 func=#1 enter=4"))
	goldentest.Same(t, []uint32{3, 1, 2, 5}, c.Processes.PIDs, "processes")
	if p := c.Processes.Get(6); p != nil {
		t.Errorf("process 6 is %+v", p)
	}
}

// Each process has the kinds of event that its records are of.
func TestKindsOfProcesses(t *testing.T) {
	t.Parallel()
	l := &catalogOf(t, logtest.Parts(t, "marker pid=1 tid=1 time=5\nprocess pid=2 start=1",
		"kernel pid=1 start=5\nkernel pid=3 start=5", "marker pid=3 time=1\nmarker pid=4 time=1", "memset pid=5 start=1")).Processes
	var got []string
	for _, pid := range l.PIDs {
		p := l.Get(pid)
		got = append(got, fmt.Sprintf("%d: marker %t, kernel or call %t, work %t", p.PID, p.Has(tracelog.KindMarker), p.Has(tracelog.KindKernel, tracelog.KindCall), p.HasWork()))
	}
	want := []string{
		"2: marker false, kernel or call false, work false",
		"1: marker true, kernel or call true, work true",
		"3: marker true, kernel or call true, work true",
		"4: marker true, kernel or call false, work false",
		"5: marker false, kernel or call false, work true",
	}
	goldentest.Same(t, want, got, "processes")
	if !l.Have(tracelog.KindMarker) || l.Have(tracelog.KindMemory) {
		t.Error("the log has markers and no memory records")
	}
}

// The number of programs is known before they are made: a process without a record has one.
func TestCountOfPrograms(t *testing.T) {
	t.Parallel()
	open := logtest.Assemble(t, "process pid=1 start=1\nprocess pid=1 start=5\nmarker pid=2 time=3\nprocess pid=3 start=1")
	c := catalogOf(t, open)
	if n := c.Processes.Count(); n != 4 {
		t.Errorf("%d programs, want 4", n)
	}
	if n := resolved(t, open).Processes.Count(); n != 4 {
		t.Errorf("%d programs once they are made, want 4", n)
	}
}

// Only a log in which a process ran exec is opened once more, and what keeps it from being
// read is returned.
func TestResolveOpens(t *testing.T) {
	t.Parallel()
	failing := errors.New("gone")
	fails := func() (*tracelog.Reader, error) { return nil, failing }
	if c := catalogOf(t, logtest.Assemble(t, "process pid=1 start=1\nprocess pid=2 start=1")); c.Processes.Resolve(fails, c.Contents) != nil {
		t.Error("a log without exec was opened once more")
	}
	exec := logtest.Assemble(t, "process pid=1 start=1\nprocess pid=1 start=5")
	c := catalogOf(t, exec)
	if err := c.Processes.Resolve(fails, c.Contents); !errors.Is(err, failing) {
		t.Errorf("the error is %v", err)
	}
	begun := func() (*tracelog.Reader, error) {
		r, err := exec()
		if err == nil {
			r.Next() // too late for Reread
		}
		return r, err
	}
	if err := c.Processes.Resolve(begun, c.Contents); err == nil {
		t.Error("a log that can't be read from the start was read")
	}
}
