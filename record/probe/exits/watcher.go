// Package exits tells how processes end, whether they are children or not. It also makes the
// kernel send a process a signal just before the process ends. Input: PIDs. Output: an [Exit] for
// each process that has ended or is about to end.
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

// A Watcher watches processes with eBPF programs: a hook on the delivery of signals, and probes
// on each process's libc. The programs are loaded by Prepare, or when the first process is
// watched.
type Watcher struct {
	mode          uprobe.Mode
	ends, watches *ebpf.Map

	preparing sync.WaitGroup
	mu        sync.Mutex
	programs  *ebpf.Collection // nil until loaded
	broken    error            // why the programs cannot be loaded
	signals   link.Link
	libc      map[int]*libcProbes // by PID
	early     bool                // PrepareLibc is enabled
}

// New returns a watcher that attaches in a mode. The eBPF program that sees threads end writes
// to the map ends. Both maps stay the caller's.
func New(m uprobe.Mode, ends, watches *ebpf.Map) *Watcher {
	return &Watcher{mode: m, ends: ends, watches: watches, libc: map[int]*libcProbes{}}
}

// Watch makes the kernel tell a process before it ends, so that a library inside can hand over
// its records: the thread that is about to end the process gets a signal. It gets the signal
// only while the signal's handler is at the given address and the thread does not block it. The
// signal is sent
//
//   - at libc's _exit, execve, execveat and fexecve,
//   - before the program's own handler of SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM or
//     SIGXCPU runs, at most once in 20 ms,
//   - before the program's own handler of SIGILL, SIGTRAP, SIGBUS, SIGFPE or SIGSEGV runs,
//     at most once in 20 ms and ten times in all.
//
// A handler in the same file as the given one is the library's own and sends no signal.
//
// The process is not told of SIGKILL, nor of an exit by a system call that bypasses libc. It is
// not told either if its stack for signals is too small for two of them, or if the program's
// handler keeps the signal blocked.
//
// A later call for the same process, for instance after an exec, replaces the earlier one. The
// error says which ends are not seen; all others are.
func (w *Watcher) Watch(pid, signal int, handler uint64) error {
	if signal < 1 || signal > 64 || handler <= 1 {
		return fmt.Errorf("signal %d with a handler at %#x makes no sense", signal, handler)
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
		return fmt.Errorf("there is no library's code at %#x in process %d", handler, pid)
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

// Prepare loads the eBPF programs in the background and enables PrepareLibc. With both, Watch
// takes less than a millisecond. Watch returns their errors.
func (w *Watcher) Prepare() {
	w.early = true
	w.mu.Lock()
	w.preparing.Go(func() {
		defer w.mu.Unlock()
		_ = w.load()
	})
}

// PrepareLibc probes the libc of a process that will be watched; mappings are its mapped files.
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

// Unwatch stops watching a process: it gets no more signals. The caller closes the returned
// probes, which are nil if there are none.
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

// Close removes the hook on signals. The probes on libc must be closed before.
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
