package record

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A recorder that does not end by itself ends with the next signal after a while, and says what it leaves. One that ends is left
// alone.
func TestLastWish(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waited, ends bool
		code         int
		said         string
	}{
		"stuck":       {true, false, 130, "recording has not ended yet; Ctrl-C or SIGTERM ends it at once; the log is x|recording was given up; the log is x"},
		"ends":        {true, true, 0, "recording has not ended yet; Ctrl-C or SIGTERM ends it at once; the log is x"},
		"ends itself": {false, true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signals, finished, late := make(chan os.Signal), make(chan struct{}), make(chan time.Time)
			var said []string
			code, over := 0, make(chan struct{})
			w := lastWish{signals: signals, finished: finished, left: "; the log is x", say: func(line string) { said = append(said, line) }, exit: func(n int) { code = n }}
			go func() {
				w.await(late)
				close(over)
			}()
			signals <- syscall.SIGINT // too early
			if c.waited {
				late <- time.Now()
			}
			if c.ends {
				close(finished)
			} else {
				signals <- syscall.SIGINT
			}
			<-over
			if got := strings.Join(said, "|"); code != c.code || got != c.said {
				t.Errorf("it ends with %d and says %q", code, got)
			}
		})
	}
}

// After a signal the recorder waits for a program that has begun to end, until the next signal.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		begun bool
		then  string // what comes after the first time
		ends  bool
	}{
		{"at once", false, "", true},
		{"lives on", false, "nothing", false},
		{"slowly", true, "over", true},
		{"too slowly", true, "second", false},
		{"signal", true, "signal", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			over, signals, first, second, got := make(chan struct{}), make(chan os.Signal, 8), make(chan time.Time), make(chan time.Time), make(chan bool, 1)
			asked := make(chan struct{})
			signals <- syscall.SIGTERM // the same signal once more
			go func() {
				got <- awaitEnd(over, signals, first, second, func() bool {
					close(asked)
					return c.begun
				})
			}()
			if c.then != "" {
				first <- time.Now()
				<-asked
			}
			switch c.then {
			case "", "over":
				close(over)
			case "second":
				second <- time.Now()
			case "signal":
				for len(signals) > 0 { // until the earlier one is taken
					runtime.Gosched()
				}
				signals <- syscall.SIGTERM
			}
			if ends := <-got; ends != c.ends {
				t.Errorf("it ends: %t", ends)
			}
		})
	}
}
