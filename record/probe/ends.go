package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A watchEnds is what tells that processes are about to end: programs that are loaded
// with the first process watched, the hook on signals, and the probes on each
// process's libc.
type watchEnds struct {
	programs *ebpf.Collection
	signals  link.Link
	libc     map[int]*libcProbes // by PID
	early    bool                // Attach probes libc too
	broken   error               // why the programs can't be used
}

// A libcProbes is the probes on the functions of a libc that end a process.
type libcProbes struct {
	file procfs.FileID
	link io.Closer
}

// WatchExit has a process told before it ends, so that a library inside can hand over
// what it holds: the thread that is about to end the process gets the given signal, as
// long as its handler is at the given address and the thread does not block it. That
// is at libc's _exit, execve, execveat and fexecve, and, before the program's own
// handler runs, on SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM and SIGXCPU (at most
// once in 20 ms), and on SIGILL, SIGTRAP, SIGBUS, SIGFPE and SIGSEGV (also, and ten times
// in all). Handlers that lie in the same file as the given one are the library's own,
// and need no telling.
//
// It is not told: on a stack for signals that is too small for two of them, when the
// program's handler keeps the signal blocked, by a system call that bypasses libc, and
// of SIGKILL.
//
// A later call for the same process, as after an exec, replaces the earlier one. The
// error says what is not seen; the rest works all the same.
func (p *Prober) WatchExit(pid int, signal int, handler uint64) error {
	if signal < 1 || signal > 64 || handler <= 1 {
		return fmt.Errorf("the end of process %d is not watched: signal %d with a handler at %#x makes no sense", pid, signal, handler)
	}
	p.attached.Lock()
	defer p.attached.Unlock()
	mappings, err := procfs.CodeFiles(pid)
	if err != nil {
		return err
	}
	if err := errors.Join(p.releaseEnded(), p.loadEnds()); err != nil {
		return err
	}
	from, to, ok, err := procfs.CodeAt(pid, handler)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("the end of process %d is not watched: there is no library's code at %#x", pid, handler)
	}
	if err := p.noteEnd(pid); err != nil {
		return err
	}
	w := bpf.ProbesWatch{Signal: uint32(signal), Handler: handler, OwnFrom: from, OwnTo: to}
	if err := p.maps.Watches.Put(uint32(pid), &w); err != nil {
		return fmt.Errorf("too many processes are being recorded to watch the end of process %d: %w", pid, err)
	}
	return p.watchLibc(pid, mappings)
}

// prepareEnds loads the programs in the background. What goes wrong WatchExit says.
func (p *Prober) prepareEnds() {
	p.ends.early = true
	p.attached.Lock()
	p.preparing.Go(func() {
		defer p.attached.Unlock()
		_ = p.loadEnds()
	})
}

// prepareLibc probes the libc of a process that WatchExit will be called for. What goes
// wrong WatchExit says, which tries again.
func (p *Prober) prepareLibc(pid int, mappings []procfs.Mapping) {
	if p.ends.early && p.loadEnds() == nil {
		_ = p.watchLibc(pid, mappings)
	}
}

// loadEnds loads the programs once, and hooks the delivery of signals.
func (p *Prober) loadEnds() error {
	if p.ends.programs != nil || p.ends.broken != nil {
		return p.ends.broken
	}
	p.ends.broken = p.openEnds()
	return p.ends.broken
}

func (p *Prober) openEnds() error {
	const needs = "GPU records that a process holds when it ends can't be asked for: "
	c, err := p.loadEndPrograms()
	if err != nil {
		return fmt.Errorf("%sthe kernel (%s) refuses the eBPF programs for it: %w", needs, host.KernelRelease(), err)
	}
	signals, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "signal_deliver", Program: c.Programs[bpf.ProbesProgSignalDeliver]})
	if err != nil {
		c.Close()
		return fmt.Errorf("%sthe tracepoint signal_deliver can't be used: %w", needs, err)
	}
	p.ends.programs, p.ends.signals, p.ends.libc = c, signals, map[int]*libcProbes{}
	return nil
}

// endProgram is the mode's program for libc's functions.
func (p *Prober) endProgram() string {
	if p.mode == ModeSingle {
		return bpf.ProbesProgEndingSingle
	}
	return bpf.ProbesProgEndingMulti
}

func (p *Prober) loadEndPrograms() (*ebpf.Collection, error) {
	spec, err := bpf.LoadProbes()
	if err != nil {
		return nil, err
	}
	keepPrograms(spec, bpf.ProbesProgSignalDeliver, p.endProgram())
	for name := range spec.Maps {
		if own := name == bpf.ProbesMapEnds || name == bpf.ProbesMapWatches || strings.HasPrefix(name, "."); !own {
			delete(spec.Maps, name)
		}
	}
	frame := spec.Variables[bpf.ProbesVarSignalFrame].Set(uint32(signalFrame()))
	options, err := relocate(spec)
	if err = errors.Join(err, frame, setNamespace(spec)); err != nil {
		return nil, err
	}
	options.MapReplacements = map[string]*ebpf.Map{bpf.ProbesMapEnds: p.maps.Ends, bpf.ProbesMapWatches: p.maps.Watches}
	return ebpf.NewCollectionWithOptions(spec, options)
}

// watchLibc probes the functions of the process's libc that end it, if that is not
// done yet.
func (p *Prober) watchLibc(pid int, mappings []procfs.Mapping) error {
	m, found := findLibc(mappings)
	if !found {
		return fmt.Errorf("process %d has no libc.so.6: that it ends by itself is not seen beforehand", pid)
	}
	old := p.ends.libc[pid]
	if old != nil && old.file == m.File {
		return nil
	}
	link, err := p.attachEnds(pid, m)
	if err != nil {
		return err
	}
	p.ends.libc[pid] = &libcProbes{file: m.File, link: link}
	if old != nil {
		return old.link.Close()
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

func (p *Prober) attachEnds(pid int, m procfs.Mapping) (io.Closer, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	defer f.Close()
	sites, err := endSites(f)
	if err != nil {
		return nil, fmt.Errorf("no probes on %s: %w", m.Path, err)
	}
	program := p.ends.programs.Programs[p.endProgram()]
	var links io.Closer
	if p.mode == ModeSingle {
		links, err = attachEach(pathOf(f), program, sites, pid)
	} else {
		links, err = attachMulti(program, traceUprobeMulti, 0, pathOf(f), sites, pid)
	}
	if err != nil {
		return nil, p.attachError(m.Path, err)
	}
	return links, nil
}

// endFunctions are those of libc that end a process, with the sign that they are.
var endFunctions = map[string]uint64{
	"_exit": bpf.EndExit, "_Exit": bpf.EndExit,
	"execve": bpf.EndExec, "execveat": bpf.EndExec, "fexecve": bpf.EndExec,
}

// endSites finds the functions in libc, each place once.
func endSites(f *os.File) ([]site, error) {
	found, err := findExported(f, endFunctions)
	if err != nil {
		return nil, err
	}
	if found["_exit"] == 0 {
		return nil, errors.New("it does not export _exit")
	}
	signs := map[uint64]uint64{}
	for name, offset := range found {
		signs[offset] = endFunctions[name]
	}
	var sites []site
	for offset, sign := range signs {
		sites = append(sites, site{cookie: sign, offset: offset})
	}
	return sites, nil
}

// putEnd begins to note how a process ends. Processes that have ended make way when
// the table is full.
func (p *Prober) putEnd(pid int, end *bpf.ProbesProcessEnd) error {
	err := p.maps.Ends.Put(uint32(pid), end)
	if errors.Is(err, syscall.E2BIG) {
		err = errors.Join(p.forgetEnded(), p.maps.Ends.Put(uint32(pid), end))
	}
	if err != nil {
		return fmt.Errorf("how process %d ends is not noted: %w", pid, err)
	}
	return nil
}

func (p *Prober) forgetEnded() error {
	var pid uint32
	var end bpf.ProbesProcessEnd
	var ended []uint32
	all := p.maps.Ends.Iterate()
	for all.Next(&pid, &end) {
		if end.EndTime > 0 {
			ended = append(ended, pid)
		}
	}
	for _, pid := range ended {
		if err := p.maps.Ends.Delete(pid); err != nil {
			return err
		}
	}
	return all.Err()
}

// unwatch ends the watch over a process: it is sent no signal any more. It returns the
// probes that are to be closed.
func (p *Prober) unwatch(pid int) ([]io.Closer, error) {
	err := p.maps.Watches.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	l := p.ends.libc[pid]
	if l == nil {
		return nil, err
	}
	delete(p.ends.libc, pid)
	return []io.Closer{l.link}, err
}

// close removes the hook on signals. The probes on libc are gone by then.
func (w *watchEnds) close() error {
	if w.programs == nil {
		return nil
	}
	err := w.signals.Close()
	w.programs.Close()
	*w = watchEnds{}
	return err
}
