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

// close closes probes, and then the channel.
func (b *backgroundCloser) close(probes ...io.Closer) (closed <-chan struct{}) {
	done := make(chan struct{})
	b.closing.Go(func() {
		defer close(done)
		err := uprobe.CloseTogether(probes)
		b.mu.Lock()
		b.err = errors.Join(b.err, err)
		b.mu.Unlock()
	})
	return done
}

// takeErrors returns the errors since the last call.
func (b *backgroundCloser) takeErrors() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	b.err = nil
	return err
}
