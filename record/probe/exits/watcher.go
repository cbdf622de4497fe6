// Package exits says how processes end, whether they are children or not, and has the kernel
// send a process a signal just before it ends.
package exits

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/probe/loader"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A Watcher watches processes. Its eBPF programs are a hook on the delivery of signals, and
// probes on each process's libc. They are loaded when the first process is watched, or by
// Prepare.
type Watcher struct {
	mode          uprobe.Mode
	ends, watches *ebpf.Map

	preparing sync.WaitGroup
	mu        sync.Mutex
	programs  *ebpf.Collection // nil until loaded
	broken    error            // why programs can't be loaded
	signals   link.Link
	libc      map[int]*libcProbes // by PID
	early     bool                // PrepareLibc is enabled
}

// New makes a watcher that attaches in a mode. The eBPF program that sees the ends of
// threads writes to the map ends. The maps stay the caller's.
func New(m uprobe.Mode, ends, watches *ebpf.Map) *Watcher {
	return &Watcher{mode: m, ends: ends, watches: watches, libc: map[int]*libcProbes{}}
}

// Watch has a process told before it ends, so that a library inside can hand over what it
// holds: the thread that is about to end the process gets the given signal, as long as its
// handler is at the given address and the thread does not block it. That is
//
//   - at libc's _exit, execve, execveat and fexecve,
//   - before the program's own handler of SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM or
//     SIGXCPU runs, at most once in 20 ms,
//   - before that of SIGILL, SIGTRAP, SIGBUS, SIGFPE or SIGSEGV, as rarely, and ten times in
//     all.
//
// Handlers in the same file as the given one are the library's own and need no telling.
//
// The process is not told of SIGKILL, of a system call that bypasses libc, on a stack for
// signals that is too small for two of them, and when the program's handler keeps the
// signal blocked.
//
// A later call for the same process, as after an exec, replaces the earlier one. The error
// says what is not seen; the rest works all the same.
func (w *Watcher) Watch(pid, signal int, handler uint64) error {
	if signal < 1 || signal > 64 || handler <= 1 {
		return fmt.Errorf("the end of process %d is not watched: signal %d with a handler at %#x makes no sense", pid, signal, handler)
	}
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.load(); err != nil {
		return err
	}
	from, to, ok, err := procfs.CodeAt(pid, handler)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("the end of process %d is not watched: there is no library's code at %#x", pid, handler)
	}
	if err := w.begin(pid); err != nil {
		return err
	}
	watch := bpf.ProbesWatch{Signal: uint32(signal), Handler: handler, OwnFrom: from, OwnTo: to}
	if err := w.watches.Put(uint32(pid), &watch); err != nil {
		return fmt.Errorf("too many processes are being recorded to watch the end of process %d: %w", pid, err)
	}
	return w.watchLibc(pid, mappings)
}

// Prepare loads the eBPF programs in the background, and enables PrepareLibc: both together
// make Watch take less than a millisecond. Watch returns the errors.
func (w *Watcher) Prepare() {
	w.early = true
	w.mu.Lock()
	w.preparing.Go(func() {
		defer w.mu.Unlock()
		_ = w.load()
	})
}

// PrepareLibc probes the libc of a process that will be watched, which has these files mapped.
// After an error Watch tries again.
func (w *Watcher) PrepareLibc(pid int, mappings []procfs.Mapping) {
	if !w.early {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.load() == nil {
		_ = w.watchLibc(pid, mappings)
	}
}

// Watched lists the processes whose libc is probed.
func (w *Watcher) Watched() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.libc))
}

// Unwatch ends the watch over a process: it is sent no signal any more. The caller closes
// the returned probes; nil if there are none.
func (w *Watcher) Unwatch(pid int) (io.Closer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.watches.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	l := w.libc[pid]
	if l == nil {
		return nil, err
	}
	delete(w.libc, pid)
	return l.probes, err
}

// Close removes the hook on signals. The probes on libc must be gone.
func (w *Watcher) Close() error {
	w.preparing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.programs == nil {
		return nil
	}
	err := w.signals.Close()
	w.programs.Close()
	w.programs, w.signals = nil, nil
	return err
}

// load loads the programs once, and hooks the delivery of signals.
func (w *Watcher) load() error {
	if w.programs == nil && w.broken == nil {
		w.broken = w.open()
	}
	return w.broken
}

func (w *Watcher) open() error {
	const needs = "GPU records that a process holds when it ends can't be asked for: "
	c, err := loader.Load(loader.Part{
		Programs: []string{bpf.ProbesProgSignalDeliver, w.libcProgram()},
		Maps:     []string{bpf.ProbesMapEnds, bpf.ProbesMapWatches},
		Shared:   map[string]*ebpf.Map{bpf.ProbesMapEnds: w.ends, bpf.ProbesMapWatches: w.watches},
		Configure: func(spec *ebpf.CollectionSpec) error {
			return spec.Variables[bpf.ProbesVarSignalFrame].Set(uint32(signalFrame()))
		},
	})
	if err != nil {
		return fmt.Errorf("%sthe kernel (%s) refuses the eBPF programs for it: %w", needs, host.KernelRelease(), err)
	}
	signals, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "signal_deliver", Program: c.Programs[bpf.ProbesProgSignalDeliver]})
	if err != nil {
		c.Close()
		return fmt.Errorf("%sthe tracepoint signal_deliver can't be used: %w", needs, err)
	}
	w.programs, w.signals = c, signals
	return nil
}
