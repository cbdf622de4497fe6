package probe

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cudatrace/cudatrace/bpf"
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
	return p.detach(p.known()...)
}

// known lists the processes that are attached or watched.
func (p *Prober) known() []int {
	pids := slices.Collect(maps.Keys(p.processes))
	return slices.AppendSeq(pids, maps.Keys(p.ends.libc))
}

// releaseEnded forgets processes that have ended, so that there is room for others.
func (p *Prober) releaseEnded() error {
	ended := slices.DeleteFunc(p.known(), func(pid int) bool { return !p.ended(pid) })
	if len(ended) == 0 {
		return nil
	}
	return p.detach(ended...)
}

// ended says whether a process was seen to end. Its PID may be another's by now.
func (p *Prober) ended(pid int) bool {
	var end bpf.ProbesProcessEnd
	return p.maps.Ends.Lookup(uint32(pid), &end) == nil && end.EndTime > 0
}

// detach closes the links of all libraries at once, as for each the kernel waits
// until no CPU runs a probe any more, and the waits can overlap. For processes that
// have ended nobody waits: none of their code can run.
func (p *Prober) detach(pids ...int) error {
	var errs []error
	var live, dead []io.Closer
	for _, pid := range pids {
		links, err := p.release(pid)
		errs = append(errs, err)
		if p.ended(pid) {
			dead = append(dead, links...)
		} else {
			live = append(live, links...)
		}
	}
	if len(dead) > 0 {
		p.closing.Go(func() { p.closeFailed(closeAtOnce(dead)) })
	}
	return errors.Join(append(errs, closeAtOnce(live))...)
}

// release takes a process out of all tables, and returns its links.
func (p *Prober) release(pid int) ([]io.Closer, error) {
	links, err := p.unwatch(pid)
	proc := p.processes[pid]
	if proc == nil {
		return links, err
	}
	delete(p.processes, pid)
	err = errors.Join(err, p.maps.Targets.Delete(uint32(pid)))
	for _, file := range proc.files {
		links = append(links, inOrder(file.links), inOrder(file.fallback))
	}
	for _, watch := range proc.watches {
		links = append(links, inOrder(watch))
	}
	return links, err
}

// inOrder is links that are closed one after the other.
type inOrder []io.Closer

func (links inOrder) Close() error {
	var err error
	for _, l := range links {
		err = errors.Join(err, l.Close())
	}
	return err
}

func closeAtOnce(links []io.Closer) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// closeFailed keeps what went wrong in the background for Close.
func (p *Prober) closeFailed(err error) {
	p.failed.Lock()
	p.failures = errors.Join(p.failures, err)
	p.failed.Unlock()
}

func (p *Prober) takeFailures() error {
	p.failed.Lock()
	defer p.failed.Unlock()
	err := p.failures
	p.failures = nil
	return err
}
