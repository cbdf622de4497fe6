package probe

import (
	"errors"
	"io"
	"sync"

	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// A background closes probes for which nobody waits.
type background struct {
	closing sync.WaitGroup
	mu      sync.Mutex
	err     error // what went wrong
}

func (b *background) close(probes ...io.Closer) {
	b.closing.Go(func() {
		err := uprobe.CloseTogether(probes)
		b.mu.Lock()
		b.err = errors.Join(b.err, err)
		b.mu.Unlock()
	})
}

// takeErrors returns what has gone wrong so far, once.
func (b *background) takeErrors() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	b.err = nil
	return err
}
