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

// watchSignals catches the signals that would end us. With a program it leaves out signals
// that were ignored when we started (nohup): a program that we start ignores what we
// ignore, but not what we handle. Without a program it takes all of them: a shell starts
// jobs in the background with Ctrl-C ignored.
func watchSignals(withProgram bool) chan os.Signal {
	c := make(chan os.Signal, 8)
	// The recording must not end because nobody reads our lines any more.
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
	signal atomic.Int32  // the number of the signal behind the wish
}

const (
	// stopGrace is time for a program that got the same signal to end by itself, before
	// recording is stopped.
	stopGrace = 500 * time.Millisecond
	// stopHint is the time after which a person whose Ctrl-C ended nothing is told what does.
	stopHint = time.Second
)

// watchStop listens to signals until over is closed, which says that all is recorded. p is nil
// in a recording of running processes.
//
// Ctrl-C at a terminal goes to the program too, whose way out is worth recording. So the
// first Ctrl-C is the program's as long as it runs, and the second stops recording. A signal
// from kill or a job scheduler may have gone to the whole group or to us alone, so it stops
// recording if all is not over soon by itself.
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

// fromTerminal says whether a terminal may have sent a signal: we are in its foreground.
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

// hint tells a person how to stop recording if the program does not end by Ctrl-C.
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
