package record

import (
	"os"
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
