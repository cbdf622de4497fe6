package output

import (
	"errors"
	"sync"
)

// ErrTooLarge is the error of a Limit that was exceeded.
var ErrTooLarge = errors.New("the trace is too large")

// A Limit counts the bytes written to it, keeps none of them, and fails once there are too
// many. Several writers may share it.
type Limit struct {
	mu      sync.Mutex
	Most    int64 // bytes
	Written int64
}

func (l *Limit) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Written += int64(len(p)); l.Written > l.Most {
		return 0, ErrTooLarge
	}
	return len(p), nil
}
