package record

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// watchSignals takes the signals that would end us. A signal that was ignored
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

// A stopper turns signals into the wish to stop recording.
type stopper struct {
	wish   chan struct{} // closed when a person wants the recording to end
	signal atomic.Int32  // the signal that said so
}

// watchStop listens to signals. With a program, the first Ctrl-C is the program's:
// the terminal sends it to both, and what the program does on its way out is worth
// recording. The second, SIGTERM, and any signal without a program, are ours.
func watchStop(signals <-chan os.Signal, withProgram bool) *stopper {
	s := &stopper{wish: make(chan struct{})}
	go func() {
		interrupts := 0
		for sig := range signals {
			n, _ := sig.(syscall.Signal)
			if withProgram && (n == syscall.SIGINT || n == syscall.SIGQUIT) {
				if interrupts++; interrupts < 2 {
					continue
				}
			}
			s.signal.Store(int32(n))
			close(s.wish)
			return
		}
	}()
	return s
}
