package uprobe

import (
	"errors"
	"io"
	"sync"
)

// InOrder closes one link after the other.
type InOrder []io.Closer

// Close closes all links, even if some cannot be closed.
func (links InOrder) Close() error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// together closes all links at the same time.
type together []io.Closer

func (t together) Close() error { return CloseTogether(t) }

// CloseTogether closes all links at the same time. For each of them the kernel waits until no
// processor runs the probe any more, tens of milliseconds perhaps, and these waits can overlap.
func CloseTogether(links []io.Closer) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}
