// Package probe records calls of CUDA functions in running processes with uprobes. PIDs go in;
// calls come out.
//
// A Prober loads the eBPF program once. Attach finds the CUDA libraries that a process has
// mapped and probes their functions in that process alone. Rescan adds libraries that the
// process maps later. Run delivers calls to a Sink. Finish ends the recording and delivers the
// calls that are still open. Nothing is pinned: when the Prober is closed, or its own process
// is killed, the kernel removes every probe.
//
// A call is delivered when it returns, so an inner call comes before the call around it. The
// calls of one thread come in that order. Times are nanoseconds of CLOCK_MONOTONIC.
//
//	procfs ──► cudalib, elfsym ──► recipe ──► uprobe, loader, kerneltypes ──► kernel
//	what a     which functions     how to read  attaching programs              │
//	process    a library has       arguments                                    ▼
//	has mapped                                    Sink ◄── decode ◄── eventstore, ringbuf
//
// Two more packages stand beside these: exits tells how processes end, callcost measures what a
// probed call costs.
package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/record/probe/decode"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/probe/exits"
	"github.com/cudatrace/cudatrace/record/probe/recipe"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// A Sink takes calls, names of threads and names of kernels.
type Sink = decode.Sink

// A Chain is the return addresses above calls.
type Chain = decode.Chain

// A PermissionError is an error of Open and Attach: the recorder may not use eBPF probes.
type PermissionError = uprobe.PermissionError

// Rights says in words what this process may do about probes, and what restricts it.
func Rights() string { return uprobe.Rights() }

// An Exit says how a process ended, or that it is about to.
type Exit = exits.Exit

// A Prober probes processes. Its methods may be called from different goroutines.
type Prober struct {
	program   *loadedProgram
	layout    eventstore.Layout
	processes *processes
	exits     *exits.Watcher
	events    *events
	losses    losses
	callers   *eventstore.Callers

	threadEnds   link.Link // nil if the tracepoint cannot be used
	noThreadEnds error     // why it cannot
	execs        link.Link // nil if the tracepoint cannot be used
	noExecs      error     // why it cannot
}

// Open loads the eBPF program. The error is a *PermissionError if rights are missing, and a
// *uprobe.UnsupportedError if the kernel lacks a feature.
func Open(o Options) (*Prober, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	table, err := recipe.New(recipe.Options{Functions: o.Functions, Symbols: o.Symbols, CaptureRange: o.CaptureRange})
	if err != nil {
		return nil, err
	}
	p := &Prober{layout: eventstore.NewLayout(o.BufferBytes, o.MaxThreads)}
	if err := p.load(o, table); err != nil {
		return nil, err
	}
	if err := p.prepare(o, table); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// load makes the buffers and loads the program.
func (p *Prober) load(o Options, table *recipe.Table) error {
	store, err := eventstore.Open(p.layout)
	if err != nil {
		if uprobe.IsPermission(err) {
			return uprobe.LoadError(uprobe.Auto, err)
		}
		return err
	}
	if p.program, err = load(o, p.layout, store); err != nil {
		return errors.Join(err, store.Close())
	}
	p.events, err = newEvents(store, p.program.maps.names, symbolBytes(o.BufferBytes), decode.New(table))
	if err != nil {
		return errors.Join(err, store.Close(), p.program.maps.names.Close(), p.program.close())
	}
	p.callers = store.Callers()
	p.events.onClient = o.OnCUPTIClient
	p.losses.counters = p.program.maps.losses
	p.exits = exits.New(p.program.mode, p.program.maps.ends, p.program.maps.watches)
	p.processes = newProcesses(p.program, table, p.exits, p.callers)
	p.processes.attacher.clients = o.OnCUPTIClient != nil
	p.processes.attacher.ranges = o.CaptureNVTX
	return nil
}

// prepare fills the maps and hooks the end of threads and the beginning of programs.
func (p *Prober) prepare(o Options, table *recipe.Table) error {
	for function, r := range table.Recipes() {
		if err := p.program.maps.recipes.Put(function, r); err != nil {
			return fmt.Errorf("storing the arguments of function %d: %w", function, err)
		}
	}
	if o.Paused {
		if err := p.Pause(); err != nil {
			return err
		}
	}
	p.threadEnds, p.noThreadEnds = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: p.program.threadExit})
	p.execs, p.noExecs = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exec", Program: p.program.exec})
	p.callers.HearOfExecs(p.noExecs == nil)
	if o.WatchExits {
		p.exits.Prepare()
	}
	return nil
}

// Mode is the way in which functions are probed.
func (p *Prober) Mode() uprobe.Mode { return p.program.mode }

// Degraded says what does not work in full, in words for a person; nil normally.
func (p *Prober) Degraded() error {
	if p.noThreadEnds == nil {
		if p.noExecs == nil {
			return nil
		}
		return fmt.Errorf("programs that run by exec are not seen, because the tracepoint sched_process_exec cannot be used: calls are missing of those that another thread than the first ran: %w", p.noExecs)
	}
	return fmt.Errorf("the end of threads is not seen, because the tracepoint sched_process_exit cannot be used: open calls of a thread that ends are delivered at the end, and of more than %d threads the later ones are not recorded: %w",
		p.layout.Slots, p.noThreadEnds)
}

// Pause stops recording in every process. A call that is open then is still delivered.
func (p *Prober) Pause() error { return p.setPaused(1) }

// Resume resumes recording, with the calls that begin from now on.
func (p *Prober) Resume() error { return p.setPaused(0) }

func (p *Prober) setPaused(value uint32) error {
	if err := p.program.maps.paused.Put(uint32(0), value); err != nil {
		return fmt.Errorf("recording can't be paused or resumed: %w", err)
	}
	return nil
}

// Finish ends the recording: it detaches from every process, delivers the events in the
// buffers, and then the calls that have not returned.
func (p *Prober) Finish(sink Sink) error {
	err := errors.Join(p.processes.detachAll(), p.unhook())
	detached := func(t eventstore.Thread) bool { return !p.processes.has(int(t.PID)) }
	return errors.Join(err, p.events.drain(sink), p.events.deliverOpenCalls(detached, p.program.maps.threads, sink))
}

// unhook leaves the tracepoints.
func (p *Prober) unhook() error {
	var errs []error
	for _, hook := range []*link.Link{&p.threadEnds, &p.execs} {
		if *hook != nil {
			errs = append(errs, (*hook).Close())
			*hook = nil
		}
	}
	return errors.Join(errs...)
}

// Close removes all probes and frees everything. It does not wait for the kernel to free the
// probes of ended processes, which takes tens of milliseconds.
func (p *Prober) Close() error {
	return errors.Join(p.processes.detachAll(), p.processes.background.takeErrors(), p.unhook(),
		p.exits.Close(), p.events.close(), p.program.close())
}
