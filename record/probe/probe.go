// Package probe traces calls of CUDA functions in running processes with uprobes.
//
// A Prober loads the eBPF program once. Attach finds the CUDA libraries that a
// process has mapped and probes their functions in that process alone; Rescan adds
// those that it maps later; Run or Drain hands on what the probes saw; Finish ends the
// recording and recovers the calls that are still open. Nothing is pinned: when the
// Prober is closed, or its process is killed, the kernel removes every probe.
//
// Calls are delivered when they return, so an inner call comes before the one
// around it; those of one thread come in that order. Times are nanoseconds of
// CLOCK_MONOTONIC.
package probe

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Defaults of Options.
const (
	// DefaultRingBytes holds 600,000 kernel launches of 104 bytes, 3 s of 200,000 a
	// second, should the recorder be stopped that long.
	DefaultRingBytes = 64 << 20
	// DefaultMaxThreads is live threads that have called CUDA, over all processes.
	// Each takes 1.4 KiB of kernel memory.
	DefaultMaxThreads = 4096
)

// Options configures a Prober.
type Options struct {
	Functions  []*cudaapi.Function // what to probe where it is found
	RingBytes  int                 // of the buffers for calls; 0 means DefaultRingBytes
	Mode       Mode
	MaxThreads int // 0 means DefaultMaxThreads

	// Symbols asks for the names behind the handles that launches pass, from the
	// calls that make such handles. They come also while recording is paused.
	Symbols bool
	// Paused begins with nothing recorded: Resume begins.
	Paused bool
	// CaptureRange records a process only from the return of its cudaProfilerStart
	// to its cudaProfilerStop, of the runtime or the driver.
	CaptureRange bool
	// WatchExits says that WatchExit will be called for processes that are attached. What
	// it needs is then prepared by Open in the background, and by Attach, so that it takes
	// less than a millisecond.
	WatchExits bool
	// OnCUPTIClient, if not nil, is told of each call of cuptiActivityRegisterCallbacks,
	// with its first argument: CUPTI serves whoever called last. It is called by
	// Drain and Run.
	OnCUPTIClient func(pid, tid uint32, time, request uint64)
}

// A Sink takes what the probes saw. The pointers are valid during the call only.
type Sink interface {
	Call(*tracelog.Call)
	Thread(*tracelog.Thread)
	Symbol(*tracelog.Symbol)
}

// A Batcher is a Sink that is told where a run of events begins and ends, so that it need
// not take a lock for each of them.
type Batcher interface {
	Begin()
	End()
}

// A Prober probes processes. Its methods may be called from different goroutines.
type Prober struct {
	mode     Mode
	names    map[string]*cudaapi.Function // those to probe
	watch    func(pid, tid uint32, time, request uint64)
	programs programs
	maps     bpfMaps
	exit     link.Link // nil where the tracepoint can't be used
	noExit   error     // why
	symbols  symbolCache

	attached  sync.Mutex
	processes map[int]*process
	ends      watchEnds

	preparing sync.WaitGroup // what WatchExit needs
	closing   sync.WaitGroup // links of ended processes
	failed    sync.Mutex
	failures  error // of closing them

	draining sync.Mutex
	drained  atomic.Uint64 // ns: DrainedUntil

	calibrating atomic.Uint32 // the PID of Calibrate's child
	counted     lostCounts
	store       *store
	symbolRing  *ring
	plain       [bpf.MaxFunctions]*plain
	call        tracelog.Call
	watched     []tracelog.Call // of the function of Options.OnCUPTIClient, not told yet
	thread      tracelog.Thread
	symbol      tracelog.Symbol
}

// Open loads the eBPF program. The error is a *PermissionError when rights are
// missing, an *UnsupportedError when the kernel lacks what is needed.
func Open(o Options) (*Prober, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p := &Prober{names: map[string]*cudaapi.Function{}, processes: map[int]*process{}, watch: o.OnCUPTIClient}
	if err := p.allocate(o); err != nil {
		return nil, err
	}
	if err := p.prepare(o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if o.WatchExits {
		p.prepareEnds()
	}
	return p, nil
}

// allocate makes the buffers and loads the program.
func (p *Prober) allocate(o Options) (err error) {
	if p.store, err = openStore(o.RingBytes, o.MaxThreads); err != nil {
		return err
	}
	if err := p.load(o); err != nil {
		return errors.Join(err, p.store.close())
	}
	p.symbolRing, err = openRing(p.maps.Names, symbolRingSize(o.RingBytes))
	if err != nil {
		return errors.Join(err, p.maps.Names.Close(), p.store.close(), p.programs.close(), p.maps.close())
	}
	return nil
}

func (o *Options) complete() error {
	if o.RingBytes < 0 || o.MaxThreads < 0 {
		return fmt.Errorf("a size of %d bytes and %d threads makes no sense: both must be 0 (default) or more", o.RingBytes, o.MaxThreads)
	}
	if o.RingBytes == 0 {
		o.RingBytes = DefaultRingBytes
	}
	if o.MaxThreads == 0 {
		o.MaxThreads = DefaultMaxThreads
	}
	for _, f := range o.Functions {
		if int(f.ID) >= bpf.MaxFunctions || len(f.Args) > bpf.MaxArgs {
			return fmt.Errorf("function %s does not fit into the eBPF program's tables", f.Name)
		}
	}
	return nil
}

// prepare fills the maps and hooks the end of threads.
func (p *Prober) prepare(o Options) error {
	if err := p.fillRecipes(o); err != nil {
		return err
	}
	if o.Paused {
		if err := p.Pause(); err != nil {
			return err
		}
	}
	p.exit, p.noExit = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: p.programs.exit})
	return nil
}

// Degraded says what works less well than it should, for people; nil normally.
func (p *Prober) Degraded() error {
	if p.noExit == nil {
		return nil
	}
	return fmt.Errorf("the end of threads is not seen, as the tracepoint sched_process_exit can't be used: calls that a thread leaves open are delivered at the end, and after %d threads no further ones are recorded: %w",
		len(p.store.slots), p.noExit)
}

// Pause stops recording in every process. A call that is open by then is still
// delivered.
func (p *Prober) Pause() error { return p.setPaused(1) }

// Resume begins recording again, with calls that begin from now on.
func (p *Prober) Resume() error { return p.setPaused(0) }

func (p *Prober) setPaused(value uint32) error {
	if err := p.maps.Paused.Put(uint32(0), value); err != nil {
		return fmt.Errorf("recording can't be paused or resumed: %w", err)
	}
	return nil
}

// symbolRingSize is that of the ring buffer for kernels' names: a power of two.
func symbolRingSize(total int) int {
	const least, most = 64 << 10, 64 << 20
	return 1 << (bits.Len(uint(min(max(total/16, least), most))) - 1)
}

func (p *Prober) closeBuffers() error {
	if p.store == nil {
		return nil
	}
	err := errors.Join(p.store.close(), p.symbolRing.close())
	p.store, p.symbolRing = nil, nil
	return err
}

// Mode says which kind of probe is in use.
func (p *Prober) Mode() Mode { return p.mode }

// Finish ends the recording: it detaches from every process, delivers what is still
// in the buffers, and then the calls that have not returned. It returns the
// number of calls delivered.
func (p *Prober) Finish(sink Sink) (int, error) {
	err := p.detachAll()
	if p.exit != nil {
		err = errors.Join(err, p.exit.Close())
		p.exit = nil
	}
	drained, drainErr := p.Drain(sink)
	open, openErr := p.Unfinished(sink)
	return drained + open, errors.Join(err, drainErr, openErr)
}

// Close removes all probes and frees everything. It does not wait for the kernel to
// free the probes of processes that have ended, which takes it tens of milliseconds.
func (p *Prober) Close() error {
	p.preparing.Wait()
	err := errors.Join(p.detachAll(), p.takeFailures())
	if p.exit != nil {
		err = errors.Join(err, p.exit.Close())
		p.exit = nil
	}
	p.attached.Lock()
	err = errors.Join(err, p.ends.close())
	p.attached.Unlock()
	p.draining.Lock()
	defer p.draining.Unlock()
	return errors.Join(err, p.closeBuffers(), p.programs.close(), p.maps.close())
}
