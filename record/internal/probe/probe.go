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
//	libraries ──► recipes ──► uprobe, load ──► kernel
//	which         how to      attaching          │ events
//	functions a   read        programs           ▼
//	library has   arguments        Sink ◄── decoder ◄── store, namering
//
// Each word is a file. Beside them stand exitwatcher.go, which sees how processes end, epochs.go,
// which bounds for how long return addresses mean the same, and calibrate.go, which measures what a
// probed call costs.
package probe

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Prober probes processes. Its methods may be called from different goroutines.
type Prober struct {
	options Options
	table   *recipeTable
	program *loadedProgram
	layout  storeLayout
	finder  libraryFinder

	functions *functions // of any library
	exits     *exitWatcher
	events    *events
	losses    losses
	callers   *Callers

	mu         sync.Mutex
	byPID      map[int]*probedProcess // the probed processes
	replaced   []uint32               // see takeReplaced
	background backgroundCloser

	threadEnds   link.Link // nil if the tracepoint cannot be used
	noThreadEnds error     // why it cannot
	execs        link.Link // nil if the tracepoint cannot be used
	noExecs      error     // why it cannot
}

// Open returns a Prober that is loaded.
func Open(o Options) (*Prober, error) {
	p, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := p.Load(); err != nil {
		return nil, err
	}
	return p, nil
}

// New returns a Prober, of which only Examine may be called before Load.
func New(o Options) (*Prober, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	table, err := newRecipeTable(&o)
	if err != nil {
		return nil, err
	}
	p := &Prober{
		options: o, table: table, functions: newFunctions(&o), layout: newStoreLayout(o.BufferBytes, o.maxThreads),
		byPID: map[int]*probedProcess{},
	}
	p.finder.probes = table.probes
	return p, nil
}

// Load loads the eBPF program. The error is a *PermissionError if rights are missing, and a *unsupportedError if the
// kernel lacks a feature.
func (p *Prober) Load() error {
	if err := p.load(); err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

// load makes the buffers and loads the program.
func (p *Prober) load() error {
	store, err := openEventStore(p.layout)
	if err != nil {
		if isPermission(err) {
			return loadError(modeAuto, err)
		}
		return err
	}
	if p.program, err = load(p.options, p.layout, store); err != nil {
		return errors.Join(err, store.close())
	}
	p.events, err = newEvents(store, p.program.maps.names, symbolBytes(p.options.BufferBytes), newDecoder(p.table))
	if err != nil {
		return errors.Join(err, store.close(), p.program.maps.names.Close(), p.program.close())
	}
	p.callers = &store.callers
	p.events.onClient = p.options.OnCUPTIClient
	p.functions.most = maxFunctions
	if p.program.mode == modeSingle {
		p.functions.most = maxSingle
	}
	p.losses.counters = p.program.maps.losses
	p.exits = newExitWatcher(p.program.mode, p.options.OnlyOfFiles, p.program.maps.ends, p.program.maps.watches)
	return nil
}

// prepare fills the maps and hooks the end of threads and the beginning of programs.
func (p *Prober) prepare() error {
	for function, r := range p.table.recipes {
		if err := p.program.maps.recipes.Put(function, r); err != nil {
			return fmt.Errorf("storing the arguments of function %d: %w", function, err)
		}
	}
	if p.options.Paused {
		if err := p.Pause(); err != nil {
			return err
		}
	}
	p.threadEnds, p.noThreadEnds = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "sched_process_exit", Program: p.program.threadExit,
	})
	p.execs, p.noExecs = link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "sched_process_exec", Program: p.program.exec,
	})
	p.callers.hearOfExecs(p.noExecs == nil)
	if p.options.WatchExits {
		p.exits.prepare()
	}
	return nil
}

// Mode is the way in which functions are probed: multi or single.
func (p *Prober) Mode() string { return p.program.mode.String() }

// Degraded says what does not work in full, in words for a person; nil normally.
func (p *Prober) Degraded() error {
	if p.noThreadEnds == nil {
		if p.noExecs == nil {
			return nil
		}
		return fmt.Errorf("programs that run by exec are not seen, because the tracepoint sched_process_exec cannot be "+
			"used: calls are missing of those that another thread than the first ran: %w", p.noExecs)
	}
	return fmt.Errorf("the end of threads is not seen, because the tracepoint sched_process_exit cannot be used: open "+
		"calls of a thread that ends are delivered at the end, and of more than %d threads the later ones are not "+
		"recorded: %w",
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

// OpenCalls gives the calls that were entered before a time, in ns of CLOCK_MONOTONIC, and have not returned to take. A
// call is given once, at the second look that sees it, and delivered when it returns or at Finish, as any other, later.
func (p *Prober) OpenCalls(before uint64, take func(*tracelog.Call)) {
	p.events.lookAtOpenCalls(p.program.maps.threads, before, take)
}

// Finish ends the recording: it detaches from every process, delivers the events in the
// buffers, and then the calls that have not returned.
func (p *Prober) Finish(sink Sink) error {
	err := errors.Join(p.detachAll(), p.unhook())
	detached := func(t callingThread) bool { return !p.has(int(t.PID)) }
	return errors.Join(err, p.events.drain(sink), p.events.deliverOpenCalls(detached, p.program.maps.threads, sink))
}

// unhook leaves the tracepoints.
func (p *Prober) unhook() error {
	var hooks []io.Closer
	for _, hook := range []*link.Link{&p.threadEnds, &p.execs} {
		if *hook != nil {
			hooks = append(hooks, *hook)
			*hook = nil
		}
	}
	return closeTogether(hooks)
}

// Close removes all probes and frees everything. It does not wait for the kernel to free the
// probes of ended processes, which takes tens of milliseconds.
func (p *Prober) Close() error {
	return errors.Join(p.detachAll(), p.background.takeErrors(), p.unhook(),
		p.exits.close(), p.events.close(), p.program.close())
}
