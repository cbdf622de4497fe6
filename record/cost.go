package record

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// ownCPU is the processor time that the recorder has taken so far, without the program's.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// costText says how much time recording cost, as far as that is known: the recorder's processor
// time, and the program's time for probed calls. CUPTI's overhead has a track of its own in the
// trace.
func costText(calls uint64, perCall time.Duration) string {
	own, program := uint64(ownCPU()), calls*uint64(perCall)
	largest := max(own, program)
	text := "cost of recording: " + figures.DurationBeside(own, largest) + " of processor time in the recorder"
	if program > 0 {
		text += fmt.Sprintf("; about %s in the program for %s (%s each, measured at the start)",
			figures.DurationBeside(program, largest), figures.Count(calls, "probed call", "probed calls"),
			figures.Duration(uint64(perCall)))
	}
	return text
}

// A countingLog is a probe.Sink that writes to the log and counts calls. It holds the log's lock
// during a run of calls. It is for one goroutine.
type countingLog struct {
	log     *tracelog.Writer
	calls   *atomic.Uint64
	chain   func(*probe.Chain) // takes a chain
	threads *threads.Recorder  // nil: none
	run     uint64             // calls of the run so far
	held    tracelog.Calls
}

func (l *countingLog) Begin() { l.held = l.log.Calls() }

func (l *countingLog) End() {
	l.held.Release()
	l.held = tracelog.Calls{}
	l.calls.Add(l.run)
	l.run = 0
}

func (l *countingLog) Call(c *tracelog.Call) {
	if l.held == (tracelog.Calls{}) {
		l.calls.Add(1)
		c.AddTo(l.log)
		return
	}
	l.run++
	l.held.Add(c)
}

func (l *countingLog) Thread(t *tracelog.Thread) {
	l.aside(func() { t.AddTo(l.log) })
	if l.threads != nil {
		l.threads.Add(t.PID, t.TID)
	}
}

func (l *countingLog) Function(e *tracelog.FunctionEvent) { l.aside(func() { e.AddTo(l.log) }) }

func (l *countingLog) Symbol(s *tracelog.Symbol) { l.aside(func() { s.AddTo(l.log) }) }

// Chain takes a chain of return addresses.
func (l *countingLog) Chain(c *probe.Chain) { l.chain(c) }

// aside calls a function that writes a record other than a call. It releases the lock meanwhile.
func (l *countingLog) aside(f func()) {
	if l.held == (tracelog.Calls{}) {
		f()
		return
	}
	l.End()
	f()
	l.Begin()
}
