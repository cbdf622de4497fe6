package probe

import (
	"errors"
	"io"
	"sync"

	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// A backgroundCloser closes probes in the background.
type backgroundCloser struct {
	closing sync.WaitGroup
	mu      sync.Mutex
	err     error
}

func (b *backgroundCloser) close(probes ...io.Closer) {
	b.closing.Go(func() {
		err := uprobe.CloseTogether(probes)
		b.mu.Lock()
		b.err = errors.Join(b.err, err)
		b.mu.Unlock()
	})
}

// takeErrors returns the errors since the last call.
func (b *backgroundCloser) takeErrors() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	b.err = nil
	return err
}
