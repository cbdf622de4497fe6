package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An exitWatcher sees how processes end, whether they are children or not, and makes the kernel send a process a signal
// just before it ends. It does so with eBPF programs: a hook on the delivery of signals and, unless no breakpoint may
// be put into the processes, probes on each process's libc. The programs are loaded by prepare, or when the first
// process is watched.
type exitWatcher struct {
	mode          attachMode
	probesLibc    bool
	ends, watches *ebpf.Map

	preparing sync.WaitGroup
	mu        sync.Mutex
	programs  *ebpf.Collection // nil until loaded
	broken    error            // why the programs cannot be loaded
	signals   link.Link
	libc      map[int]*libcProbes // by PID; of each process that is watched
	early     bool                // prepareLibc is enabled
}

// newExitWatcher returns a watcher that probes libc in a mode, unless onlySignals. The eBPF program that sees threads
// end writes to the map ends. Both maps stay the caller's.
func newExitWatcher(m attachMode, onlySignals bool, ends, watches *ebpf.Map) *exitWatcher {
	return &exitWatcher{mode: m, probesLibc: !onlySignals, ends: ends, watches: watches, libc: map[int]*libcProbes{}}
}

// watch makes the kernel tell a process before it ends, so that a library inside can hand over
// its records: the thread that is about to end the process gets a signal. It gets the signal
// only while the signal's handler is at the given address, the thread does not block it, and the word (32 bits) at
// address over is 0; an over of 0 is no address. The
// signal is sent
//
//   - at libc's _exit, execve, execveat and fexecve, if libc is probed,
//   - before the program's own handler of SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM or
//     SIGXCPU runs, at most once in 20 ms,
//   - before the program's own handler of SIGILL, SIGTRAP, SIGBUS, SIGFPE or SIGSEGV runs,
//     at most once in 20 ms and ten times in all.
//
// A handler in the same file as the given one is the library's own and sends no signal.
//
// The process is not told of SIGKILL, nor of an exit by a system call that bypasses libc. It is
// not told either if its stack for signals is too small for two of them, if the program's
// handler keeps the signal blocked, or if the thread is traced.
//
// A later call for the same process, for instance after an exec, replaces the earlier one. The
// error says which ends are not seen; all others are.
func (w *exitWatcher) watch(pid, signal int, handler, over uint64) error {
	if signal < 1 || signal > 64 || handler <= 1 {
		return fmt.Errorf("signal %d with a handler at %#x makes no sense", signal, handler)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.load(); err != nil {
		return err
	}
	code, err := procfs.Code(pid)
	if err != nil {
		return err
	}
	own := procfs.Around(code, handler)
	if own == nil || !strings.HasPrefix(own.Path, "/") {
		return fmt.Errorf("there is no library's code at %#x in process %d", handler, pid)
	}
	if err := w.awaitEndLocked(pid); err != nil {
		return err
	}
	watch := bpf.ProbesWatch{Signal: uint32(signal), Handler: handler, Over: over, OwnFrom: own.From, OwnTo: own.To}
	if err := w.watches.Put(uint32(pid), &watch); err != nil {
		return fmt.Errorf("too many processes are being recorded to watch the end of process %d: %w", pid, err)
	}
	if !w.probesLibc {
		w.libc[pid] = &libcProbes{}
		return nil
	}
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return err
	}
	return w.watchLibc(pid, mappings)
}

// prepare loads the eBPF programs in the background and enables prepareLibc. With both, watch
// takes less than a millisecond. watch returns their errors.
func (w *exitWatcher) prepare() {
	w.early = w.probesLibc
	w.mu.Lock()
	w.preparing.Go(func() {
		defer w.mu.Unlock()
		_ = w.load()
	})
}

// prepareLibc probes the libc of a process that will be watched; mappings are its mapped files.
// After an error watch tries again.
func (w *exitWatcher) prepareLibc(pid int, mappings []procfs.Mapping) {
	if !w.early {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.load() == nil {
		_ = w.watchLibc(pid, mappings)
	}
}

// watched lists the processes that are watched.
func (w *exitWatcher) watched() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.libc))
}

// unwatch stops watching a process: it gets no more signals. The caller closes the returned
// probes, which are nil if there are none.
func (w *exitWatcher) unwatch(pid int) (io.Closer, error) {
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

// close removes the hook on signals. The probes on libc must be closed before.
func (w *exitWatcher) close() error {
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
func (w *exitWatcher) load() error {
	if w.programs == nil && w.broken == nil {
		w.broken = w.open()
	}
	return w.broken
}

func (w *exitWatcher) open() error {
	const needs = "GPU records that a process holds when it ends can't be asked for: "
	programs := []string{bpf.ProbesProgSignalDeliver}
	if w.probesLibc {
		programs = append(programs, w.libcProgram())
	}
	c, err := loadPart(objectPart{
		programs: programs,
		maps:     []string{bpf.ProbesMapEnds, bpf.ProbesMapWatches},
		shared:   map[string]*ebpf.Map{bpf.ProbesMapEnds: w.ends, bpf.ProbesMapWatches: w.watches},
		configure: func(spec *ebpf.CollectionSpec) error {
			return spec.Variables[bpf.ProbesVarSignalFrame].Set(uint32(signalFrame()))
		},
	})
	if err != nil {
		return fmt.Errorf("%sthe kernel (%s) refuses the eBPF programs for it: %w", needs, host.KernelRelease(), err)
	}
	signals, err := link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "signal_deliver", Program: c.Programs[bpf.ProbesProgSignalDeliver],
	})
	if err != nil {
		c.Close()
		return fmt.Errorf("%sthe tracepoint signal_deliver can't be used: %w", needs, err)
	}
	w.programs, w.signals = c, signals
	return nil
}

// awaitEnd makes the eBPF program note how a process ends.
func (w *exitWatcher) awaitEnd(pid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaitEndLocked(pid)
}

func (w *exitWatcher) awaitEndLocked(pid int) error {
	var end bpf.ProbesProcessEnd
	err := w.ends.Lookup(uint32(pid), &end)
	if err == nil && end.EndTime == 0 {
		return nil
	}
	if err == nil || errors.Is(err, ebpf.ErrKeyNotExist) {
		err = w.putEnd(pid, &bpf.ProbesProcessEnd{})
	}
	if err != nil {
		return fmt.Errorf("how process %d ends is not noted: %w", pid, err)
	}
	return nil
}

// putEnd adds an entry. In a full table it replaces processes that have ended.
func (w *exitWatcher) putEnd(pid int, end *bpf.ProbesProcessEnd) error {
	err := w.ends.Put(uint32(pid), end)
	if errors.Is(err, syscall.E2BIG) {
		err = errors.Join(w.forgetEnded(), w.ends.Put(uint32(pid), end))
	}
	return err
}

func (w *exitWatcher) forgetEnded() error {
	var pid uint32
	var end bpf.ProbesProcessEnd
	var ended []uint32
	all := w.ends.Iterate()
	for all.Next(&pid, &end) {
		if end.EndTime > 0 {
			ended = append(ended, pid)
		}
	}
	for _, pid := range ended {
		if err := w.ends.Delete(pid); err != nil {
			return err
		}
	}
	return all.Err()
}

// ended reports whether the end of a process was seen. Its PID may belong to another process by
// now.
func (w *exitWatcher) ended(pid int) bool {
	var end bpf.ProbesProcessEnd
	return w.ends.Lookup(uint32(pid), &end) == nil && end.EndTime > 0
}

// exit returns how a process ended that awaitEnd was called for. ok is false while the process shows
// no sign of its end. The process need not be a child.
func (w *exitWatcher) exit(pid int) (e Exit, ok bool) {
	var end bpf.ProbesProcessEnd
	if err := w.ends.Lookup(uint32(pid), &end); err != nil {
		return Exit{}, false
	}
	if end.EndTime > 0 {
		return finalExit(&end), true
	}
	return expectedExit(&end)
}

// libcProbes are the probes on those functions of a libc that end a process.
type libcProbes struct {
	file   procfs.FileID
	probes io.Closer
}

// watchLibc probes the functions of the process's libc that end a process, unless they are
// probed already.
func (w *exitWatcher) watchLibc(pid int, mappings []procfs.Mapping) error {
	m, found := findLibc(mappings)
	if !found {
		return fmt.Errorf("process %d has no libc.so.6: its _exit and exec are not noticed in time", pid)
	}
	old := w.libc[pid]
	if old != nil && old.file == m.File {
		return nil
	}
	probes, err := w.attachLibc(pid, m)
	if err != nil {
		return err
	}
	w.libc[pid] = &libcProbes{file: m.File, probes: probes}
	if old != nil {
		return old.probes.Close()
	}
	return nil
}

// findLibc finds glibc by its file name: libc.so.6, or libc-2.31.so up to release 2.33.
func findLibc(mappings []procfs.Mapping) (procfs.Mapping, bool) {
	for _, m := range mappings {
		base := filepath.Base(m.Path)
		if older, _ := filepath.Match("libc-[0-9]*.so", base); older || base == "libc.so.6" {
			return m, true
		}
	}
	return procfs.Mapping{}, false
}

func (w *exitWatcher) attachLibc(pid int, m procfs.Mapping) (io.Closer, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	defer f.Close()
	sites, err := libcSites(f)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	program := siteProgram{w.programs.Programs[w.libcProgram()], w.mode}
	probes, err := attachHere(program, procfs.OpenFile(f), sites, pid)
	if err != nil {
		return nil, attachError(m.Path, err)
	}
	return probes, nil
}

// libcProgram is the name of the program for libc's functions in the watcher's mode.
func (w *exitWatcher) libcProgram() string {
	if w.mode == modeSingle {
		return bpf.ProbesProgEndingSingle
	}
	return bpf.ProbesProgEndingMulti
}

// libcFunctions are the functions of libc that end a process, each with its bpf.End constant.
var libcFunctions = map[string]uint64{
	"_exit": bpf.EndExit, "_Exit": bpf.EndExit,
	"execve": bpf.EndExec, "execveat": bpf.EndExec, "fexecve": bpf.EndExec,
}

// libcSites finds those functions in libc, each address once.
func libcSites(f *os.File) ([]probeSite, error) {
	found, err := elfsym.Exported(f, slices.Collect(maps.Keys(libcFunctions))...)
	if err != nil {
		return nil, err
	}
	if found["_exit"] == 0 {
		return nil, errors.New("it does not export _exit")
	}
	signs := map[uint64]uint64{}
	for name, offset := range found {
		signs[offset] = libcFunctions[name]
	}
	var sites []probeSite
	for offset, sign := range signs {
		sites = append(sites, probeSite{cookie: sign, offset: offset})
	}
	return sites, nil
}

// signalFrame is the most bytes that the kernel puts on a stack for a signal.
func signalFrame() uint64 {
	const (
		minSigStackSize = 51   // AT_MINSIGSTKSZ of linux/auxvec.h
		enough          = 8192 // if the kernel does not say
	)
	vector, err := procfs.Read("/proc/self/auxv", procfs.MaxFacts)
	if err != nil {
		return enough
	}
	return auxiliaryValue(vector, minSigStackSize, enough)
}

// auxiliaryValue finds a value in the auxiliary vector, which has pairs of a type and a value, 8
// bytes each.
func auxiliaryValue(vector []byte, kind, otherwise uint64) uint64 {
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == kind {
			return binary.NativeEndian.Uint64(vector[8:])
		}
	}
	return otherwise
}
