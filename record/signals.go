package record

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
)

// watchSignals catches the signals that would end the recorder. With a program it leaves out the
// signals that were ignored when the recorder started (nohup): the program inherits a signal that
// we ignore, but not one that we handle. Without a program it catches all of them: a shell starts
// background jobs with Ctrl-C ignored.
func watchSignals(withProgram bool) chan os.Signal {
	c := make(chan os.Signal, 8)
	// The recording must not end when nobody reads our lines any more.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !withProgram || !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// wished is the event that a person wants recording to end, by a signal.
type wished syscall.Signal

func (e wished) take(s *session) { s.decide(stopBySignal, syscall.Signal(e)) }

// stopBy ends recording because of a signal. It returns false if recording has ended and the program has not.
func (s *session) stopBy(n syscall.Signal) bool {
	s.post(wished(n))
	<-s.decided
	return s.early != stopByTime
}

// isPast reports whether the program runs on without being recorded.
func (s *session) isPast() bool { return isClosed(s.decided) && s.early == stopByTime }

const (
	// stopGrace is the time in which a program that got the same signal has to begin its end, before
	// recording stops.
	stopGrace = 500 * time.Millisecond
	// endGrace is the time that it has for its end once that has begun: GPU records are handed over, and the kernel takes
	// the process apart.
	endGrace = 5 * time.Second
	// stopHint is the time after a Ctrl-C without effect at which a person is told how to stop.
	stopHint = time.Second
)

// heed listens to signals until over is closed: then everything is recorded.
//
// Ctrl-C at a terminal goes to the program too, and the program's way out is worth recording. So
// the first Ctrl-C is the program's as long as it runs, and the second stops recording. A signal
// from kill or a job scheduler may have gone to the whole process group or to us alone. So it
// stops recording unless everything ends by itself soon, or begins to. After the recording it is the program's, if it
// reached us alone: the program gets it unless the program ends soon.
//
// Something may keep the recorder from its end: another process can have us wait for a file. So signals count to the
// last.
func (s *session) heed(signals <-chan os.Signal, over <-chan struct{}) {
	p, interrupted := s.program, false
	last := lastWish{signals: signals, finished: s.ctx.Done(), say: s.opts.Say, exit: os.Exit}
	if s.log.file != nil {
		last.left = "; the unfinished log is " + s.log.file.Name()
	}
	for {
		var sig os.Signal
		select {
		case <-over:
			last.await(nil)
			return
		case sig = <-signals:
		}
		n, _ := sig.(syscall.Signal)
		if p != nil && (!interrupted || s.isPast()) && !isClosed(p.ended) && fromTerminal(n) {
			if !interrupted && !s.isPast() {
				go hint(p, over, s.opts.Say)
			}
			interrupted = true
			continue
		}
		if p != nil && (!interrupted || s.isPast()) && s.endsBy(over, signals) || s.stopBy(n) {
			last.await(time.After(stopPatience))
			return
		}
		if p != nil {
			p.pass(n)
		}
	}
}

// endsBy reports whether everything ends by itself after a signal.
func (s *session) endsBy(over <-chan struct{}, signals <-chan os.Signal) bool {
	since := time.Now().Add(-stopGrace) // the program may have got the signal before us
	return awaitEnd(over, signals, time.After(stopGrace), time.After(stopGrace+endGrace), func() bool {
		return !s.isPast() && s.isEnding(since)
	})
}

// awaitEnd waits for the end of everything. It returns false if by the first time nothing has begun to end, by the
// second it has not ended, or between them there is a further signal.
func awaitEnd(over <-chan struct{}, signals <-chan os.Signal, first, second <-chan time.Time, begun func() bool) bool {
	select {
	case <-over:
		return true
	case <-first:
	}
	if !begun() {
		return false
	}
	for range len(signals) { // one sender may reach us by our PID and by our group
		<-signals
	}
	select {
	case <-over:
		return true
	case <-signals:
	case <-second:
	}
	return false
}

// isEnding reports whether the program, or a process that is recorded, has ended or shown a sign of its end since a
// time.
func (s *session) isEnding(since time.Time) bool {
	if isClosed(s.program.ended) && s.program.until.After(since) {
		return true
	}
	pids := ask(s, func() []uint32 {
		if !s.opened {
			return nil
		}
		return s.which(func(*recordedProcess) bool { return true })
	})
	from := host.Monotonic() - uint64(time.Since(since))
	return slices.ContainsFunc(pids, func(pid uint32) bool {
		e, ok := s.calls.exit(pid)
		return ok && e.Time >= from
	})
}

// stopPatience is the time that the recorder has for its end once a person wants it.
const stopPatience = 3 * time.Second

// A lastWish ends a recorder that does not end by itself.
type lastWish struct {
	signals  <-chan os.Signal
	finished <-chan struct{} // closed when the recorder has ended
	left     string          // what a recorder leaves that ends so
	say      func(string)
	exit     func(code int)
}

// await waits for the recorder's end. If late fires before that, which begins with a signal unless it is given, the
// next signal ends the process.
func (w *lastWish) await(late <-chan time.Time) {
	waited := false
	for {
		select {
		case <-w.finished:
			return
		case <-late:
			late, waited = nil, true
			w.say("recording has not ended yet; Ctrl-C or SIGTERM ends it at once" + w.left)
		case sig := <-w.signals:
			n, _ := sig.(syscall.Signal)
			if waited {
				w.say("recording was given up" + w.left)
				w.exit(128 + int(n))
				return
			}
			if late == nil {
				late = time.After(stopPatience)
			}
		}
	}
}

// fromTerminal reports whether a terminal may have sent a signal: if we run in its foreground.
func fromTerminal(n syscall.Signal) bool {
	if n != syscall.SIGINT && n != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// hint tells a person how to stop recording if the program survives Ctrl-C.
func hint(p *program, over <-chan struct{}, say func(string)) {
	select {
	case <-over:
	case <-p.ended:
	case <-time.After(stopHint):
		say(fmt.Sprintf("process %d survived Ctrl-C and is still recorded; press Ctrl-C again to stop recording", p.pid()))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
