package record

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchSignals catches the signals that would end us. A signal that was ignored
// when we started (nohup) is left alone, since what we handle the program would
// get back as its default. Without a program to protect (a shell starts jobs in the
// background with Ctrl-C ignored) every signal is ours.
func watchSignals(withProgram bool) chan os.Signal {
	c := make(chan os.Signal, 8)
	// A reader of our lines that is gone must not end the recording.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !withProgram || !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// A stopper turns signals into the wish of a person to stop recording.
type stopper struct {
	wish   chan struct{} // closed when a person wants the recording to end
	signal atomic.Int32  // the signal that said so
}

const (
	// stopGrace is time for a program that got the same signal to end by itself,
	// before recording is stopped under it.
	stopGrace = 500 * time.Millisecond
	// stopHint is when a person whose Ctrl-C ended nothing is told what does.
	stopHint = time.Second
)

// watchStop listens to signals until over is closed, which says that all is recorded. p is nil
// in a recording of running processes.
//
// Ctrl-C at a terminal goes to the program as well, and what it does on its way out
// is worth recording: the first is the program's as long as it runs, the second
// stops recording. A signal that comes otherwise, from kill or a job scheduler, may
// have gone to the whole group or to us alone, so it stops recording if all is not
// over soon by itself.
func watchStop(signals <-chan os.Signal, p *program, over <-chan struct{}, say func(string)) *stopper {
	s := &stopper{wish: make(chan struct{})}
	go func() {
		interrupted := false
		for {
			var sig os.Signal
			select {
			case <-over:
				return
			case sig = <-signals:
			}
			n, _ := sig.(syscall.Signal)
			if p != nil && !interrupted && !isClosed(p.ended) && fromTerminal(n) {
				interrupted = true
				go hint(p, over, say)
				continue
			}
			if p != nil && !interrupted && isOver(over, stopGrace) {
				return
			}
			s.signal.Store(int32(n))
			close(s.wish)
			return
		}
	}()
	return s
}

// fromTerminal says whether a signal is one that a terminal sends, and we are among
// those to whom it does.
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

// hint tells a person whose Ctrl-C the program does not end by how to stop recording.
func hint(p *program, over <-chan struct{}, say func(string)) {
	select {
	case <-over:
	case <-p.ended:
	case <-time.After(stopHint):
		say(fmt.Sprintf("process %d goes on after Ctrl-C, and so does recording; Ctrl-C once more stops recording", p.pid()))
	}
}

func isOver(over <-chan struct{}, within time.Duration) bool {
	select {
	case <-over:
		return true
	case <-time.After(within):
		return false
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
