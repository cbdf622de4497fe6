package probe

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
)

// Detach removes the probes from a process. Calls that are open then are delivered
// by Unfinished.
func (p *Prober) Detach(pid int) error {
	p.attached.Lock()
	defer p.attached.Unlock()
	return p.detach(pid)
}

func (p *Prober) detachAll() error {
	p.attached.Lock()
	defer p.attached.Unlock()
	return p.detach(slices.Collect(maps.Keys(p.processes))...)
}

// detach closes the links of all libraries at once, as for each the kernel waits
// until no CPU runs a probe any more, and the waits can overlap.
func (p *Prober) detach(pids ...int) error {
	var errs []error
	var closing sync.WaitGroup
	results := make(chan error)
	for _, pid := range pids {
		proc := p.processes[pid]
		if proc == nil {
			continue
		}
		delete(p.processes, pid)
		errs = append(errs, p.maps.Targets.Delete(uint32(pid)))
		for _, file := range proc.files {
			closing.Go(func() { results <- errors.Join(closeAll(file.links), closeAll(file.fallback)) })
		}
		for _, links := range proc.watches {
			closing.Go(func() { results <- closeAll(links) })
		}
	}
	go func() { closing.Wait(); close(results) }()
	for err := range results {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func closeAll(links []io.Closer) error {
	var err error
	for _, l := range links {
		err = errors.Join(err, l.Close())
	}
	return err
}
