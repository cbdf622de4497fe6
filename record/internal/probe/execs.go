package probe

import (
	"fmt"

	"github.com/cudatrace/cudatrace/bpf"
)

// An Exec is the beginning of another program in a process that was attached to already.
type Exec struct {
	Time uint64 // ns, CLOCK_MONOTONIC; 0: there was none
	// Bare says that another thread than the first called exec, so that the kernel removed the process's
	// probes: calls of the new program are missing unless it has waited for Attach since.
	Bare bool
}

// execs are what was seen of a process's programs.
type execs struct {
	all, bare uint32          // as in bpf.ProbesTarget
	closing   <-chan struct{} // is closed when the probes of the program before are; nil: none are being closed
}

// Renew makes a process that runs another program than at the last call ready to be probed again. Attach does so,
// too. It takes about 0.1 s if the kernel has removed the probes. Meanwhile Rescan leaves the process alone.
func (p *Prober) Renew(pid int) (Exec, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renew(pid)
}

func (p *Prober) renew(pid int) (Exec, error) {
	for {
		proc := p.byPID[pid]
		switch {
		case proc == nil:
			return Exec{}, nil
		case proc.execs.closing == nil:
			return p.removeBare(pid, proc)
		}
		p.await(proc.execs.closing)
	}
}

// await waits without the lock.
func (p *Prober) await(done <-chan struct{}) {
	p.mu.Unlock()
	defer p.mu.Lock()
	<-done
}

// removeBare closes what is left of the probes that the kernel removed from a process. It gives up the lock meanwhile.
func (p *Prober) removeBare(pid int, proc *probedProcess) (Exec, error) {
	var t bpf.ProbesTarget
	if err := p.program.maps.targets.Lookup(uint32(pid), &t); err != nil {
		return Exec{}, fmt.Errorf("the probes of process %d are not known: %w", pid, err)
	}
	if t.Execs == proc.execs.all {
		return Exec{}, nil
	}
	e := Exec{Time: t.Since, Bare: t.Bare != proc.execs.bare}
	proc.execs.all, proc.execs.bare = t.Execs, t.Bare
	if !e.Bare {
		return e, nil
	}
	libc, err := p.exits.unwatch(pid)
	probes := proc.takeProbes()
	if libc != nil {
		probes = append(probes, libc)
	}
	p.replaced = append(p.replaced, uint32(pid))
	closed := p.background.close(probes...)
	if p.program.mode == modeSingle {
		return e, err // perf events of the old program see nothing of the new one
	}
	// Links that are still open would record the calls a second time beside new ones.
	proc.execs.closing = closed
	p.await(closed)
	proc.execs.closing = nil
	return e, err
}

// takeReplaced lists the processes in which a thread other than the first has run a program by exec since the last
// call.
func (p *Prober) takeReplaced() []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := p.replaced
	p.replaced = nil
	return pids
}
