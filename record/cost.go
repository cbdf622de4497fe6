package record

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

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

// costText says what recording cost as far as is known: the recorder's own time, and the
// program's for probed calls. CUPTI's overhead has a track of its own in the trace.
func costText(calls uint64, perCall time.Duration) string {
	text := fmt.Sprintf("cost of recording: %.2f s of processor time in the recorder", ownCPU().Seconds())
	if calls > 0 && perCall > 0 {
		text += fmt.Sprintf("; about %v in the program for %d probed calls of %v each, as measured at the start",
			(time.Duration(calls) * perCall).Round(time.Microsecond), calls, perCall)
	}
	return text
}

// A countingLog is a probe.Sink that writes to the log and counts calls. During a run of
// calls it keeps the log locked. It is for one goroutine.
type countingLog struct {
	log   *tracelog.Writer
	calls *atomic.Uint64
	run   uint64 // calls of the run so far
	held  tracelog.Calls
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

func (l *countingLog) Thread(t *tracelog.Thread) { l.aside(func() { t.AddTo(l.log) }) }
func (l *countingLog) Symbol(s *tracelog.Symbol) { l.aside(func() { s.AddTo(l.log) }) }

// aside writes something other than a call to the log, also during a run.
func (l *countingLog) aside(f func()) {
	if l.held == (tracelog.Calls{}) {
		f()
		return
	}
	l.End()
	f()
	l.Begin()
}
