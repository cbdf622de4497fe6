package probe

import (
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

func TestNextPause(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		fill  float64
		want  time.Duration
	}{
		{time.Millisecond, 0, 2 * time.Millisecond},
		{maxPause, 0, maxPause},
		{40 * time.Millisecond, 0.05, 40 * time.Millisecond},
		{40 * time.Millisecond, 0.2, 10 * time.Millisecond},
		{time.Millisecond, 0.2, minPause},
		{40 * time.Millisecond, 0.9, minPause},
	} {
		if got := nextPause(c.pause, c.fill); got != c.want {
			t.Errorf("after %v and %.2f full: %v", c.pause, c.fill, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{BufferBytes: -1}, {Functions: []*cudaapi.Function{{ID: 5000}}}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestSymbolBytes(t *testing.T) {
	for calls, want := range map[int]int{1: 64 << 10, 16 << 20: 4 << 20, 1 << 40: 64 << 20} {
		if got := symbolBytes(calls); got != want {
			t.Errorf("beside %d bytes for calls, names take %d", calls, got)
		}
	}
}
