package callers

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A library calls the driver, or the runtime, at a place that depends on its name.
const library = `
int cuLaunchKernel(void);
__attribute__((noinline)) int NAME(int n)
{
	return n ? cuLaunchKernel() + n : 0;
}`

// library builds a library of one function that calls the driver.
func (b *bench) library(name string) string {
	b.Helper()
	return b.once(name+".so", func(path string) {
		source := b.path(name + ".c")
		must.Do(b, os.WriteFile(source, []byte(library), 0o644))
		b.gcc("-shared", "-fPIC", "-DNAME="+name, "-o", path, source, b.path("libcuda.so.1"))
	})
}

// A mapped file is code in this process that is never run.
type mappedFile struct {
	testing.TB
	base unsafe.Pointer
	size uintptr
}

// reserve takes addresses for files.
func reserve(t testing.TB) *mappedFile {
	t.Helper()
	const size = 1 << 20
	p := must.Get(unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	t.Cleanup(func() { unix.MunmapPtr(p, size) })
	return &mappedFile{t, p, size}
}

// show maps the code of a file at the beginning of the addresses, in the place of what was there.
func (m *mappedFile) show(path string) {
	m.Helper()
	f := must.Get(os.Open(path))(m)
	defer f.Close()
	info := must.Get(f.Stat())(m)
	m.replace(int(f.Fd()), uintptr(info.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
}

// hide maps nothing there, or memory that holds generated code.
func (m *mappedFile) hide(protection int) {
	m.Helper()
	m.replace(-1, m.size, protection, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func (m *mappedFile) replace(fd int, size uintptr, protection, flags int) {
	m.Helper()
	must.Get(unix.MmapPtr(fd, 0, m.base, size, protection, flags|unix.MAP_FIXED))(m)
}

// returnAddress finds the place behind the call of a function of a library, as this process maps it.
func (m *mappedFile) returnAddress(path, function string) uint64 {
	m.Helper()
	f := must.Get(elf.Open(path))(m)
	defer f.Close()
	symbols := must.Get(f.DynamicSymbols())(m)
	for _, s := range symbols {
		if s.Name != function {
			continue
		}
		text := f.Section(".text")
		code := make([]byte, s.Size)
		must.Get(text.ReadAt(code, int64(s.Value-text.Addr)))(m)
		for i := 4; i < len(code); i++ {
			if at := s.Value + uint64(i); callBefore(code[:i], at).direct {
				return uint64(uintptr(m.base)) + at - text.Addr + text.Offset
			}
		}
	}
	m.Fatalf("%s does not call from %s", path, function)
	return 0
}

// A library is unloaded and another one loaded at its place: each call counts for the library that was
// there in its epoch, and for none if that is not certain.
func TestReplacedLibrary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := b.library("first"), b.library("second")
	l, m, pid := newLog(t), reserve(t), os.Getpid()
	m.show(first)
	chain := []uint64{m.returnAddress(first, "first")}
	if other := m.returnAddress(second, "second"); other != chain[0] {
		t.Fatalf("the libraries call at %#x and %#x", chain[0], other)
	}
	symbol := func(epoch uint64) string {
		id, _ := l.Resolve(pid, epoch, "cuLaunchKernel", chain)
		return l.callers[id].Symbol
	}
	l.look(pid)
	l.epoch++ // within it, the first library goes
	m.hide(unix.PROT_NONE)
	m.show(second)
	l.epoch++
	for _, c := range []struct {
		name  string
		epoch uint64
		want  string
	}{
		{"before", 1, "first"}, {"between", 2, ""}, {"after", 3, "second"}, {"before, again", 1, "first"}, {"between, again", 2, ""},
	} {
		if got := symbol(c.epoch); got != c.want {
			t.Errorf("%s: called by %q, want %q", c.name, got, c.want)
		}
	}
	l.epoch += 2
	if got := symbol(4); got != "second" { // the same before and after
		t.Errorf("while another library went: called by %q", got)
	}
}

// A process runs another program under its PID: the calls of either count for what was mapped then. Where a library
// lay before and after, it lay in different programs.
func TestReplacedProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.library("first")
	l, m, pid := newLog(t), reserve(t), os.Getpid()
	m.show(first)
	chain := []uint64{m.returnAddress(first, "first")}
	symbol := func(epoch uint64) string {
		id, _ := l.Resolve(pid, epoch, "cuLaunchKernel", chain)
		return l.callers[id].Symbol
	}
	l.epoch = 10
	l.look(pid)
	l.epoch = 20
	l.look(pid)
	if got := symbol(15); got != "first" {
		t.Errorf("in one program: called by %q", got)
	}
	l.replace(pid, 20)
	if before, between, after := symbol(10), symbol(15), symbol(20); before != "first" || between != "" || after != "first" {
		t.Errorf("called by %q, %q and %q", before, between, after)
	}
	l.replace(pid, 30)
	l.epoch = 30
	l.look(pid)
	l.look(pid)
	if last, between, next := symbol(20), symbol(25), symbol(30); last != "first" || between != "" || next != "first" {
		t.Errorf("called by %q, %q and %q", last, between, next)
	}
	l.epoch = 0
	if got := symbol(35); got != "" {
		t.Errorf("called by %q when nothing is recorded under the PID", got)
	}
}

// A mapping that comes within an epoch is found.
func TestAddedLibrary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.library("late")
	l, m := newLog(t), reserve(t)
	l.look(os.Getpid())
	m.show(path)
	id, depth := l.Resolve(os.Getpid(), l.epoch, "cuLaunchKernel", []uint64{m.returnAddress(path, "late"), 1})
	if got := l.callers[id]; got.Symbol != "late" || got.Module != path || got.BuildID == "" || depth != 1 {
		t.Errorf("depth %d, %+v", depth, got)
	}
}

// While the epoch runs on, nothing is certain.
func TestRestlessEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.library("restless")
	m, epoch := reserve(t), uint64(0)
	m.show(path)
	r := newResolver(Options{Epoch: func(int) uint64 { epoch++; return epoch }})
	defer r.close()
	for want := range 5 {
		if c, _ := r.find(os.Getpid(), epoch, "cuLaunchKernel", []uint64{m.returnAddress(path, "restless")}); c != (tracelog.Caller{}) {
			t.Errorf("after %d: %+v", want, c)
		}
	}
}

// Generated code has no caller, whether it called the driver or the runtime.
func TestGeneratedCode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.shared()
	r, l, m := start(t, path), newLog(t), reserve(t)
	m.hide(unix.PROT_READ | unix.PROT_EXEC)
	if got, _ := l.resolve(os.Getpid(), observed{"", "cuLaunchKernel", []uint64{uint64(uintptr(m.base)) + 64}}); got.ID != 0 {
		t.Errorf("a driver's caller: %+v", got)
	}
	for _, c := range r.calls {
		_, depth := l.resolve(r.pid, c)
		if c.within == "nothing" {
			continue
		}
		c.chain = append([]uint64(nil), c.chain...)
		c.chain[depth-1] = 64 // never mapped
		if got, _ := l.resolve(r.pid, c); got.Function != c.within || got.Module != "" || got.Symbol != "" {
			t.Errorf("%s in %s: %+v", c.function, c.within, got)
		}
	}
}

// A process that has ended serves the calls of its epochs.
func TestEndedProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.shared()
	l := newLog(t)
	var r *running
	t.Run("run", func(t *testing.T) {
		r = start(t, path)
		l.look(r.pid)
	})
	l.expect(t, r, path, "calls")
	if id, _ := l.Resolve(r.pid, l.epoch+1, "cuLaunchKernel", r.calls[0].chain); id != 0 {
		t.Errorf("in a later epoch: %+v", l.callers[id])
	}
}

// The same call in another process has the same record.
func TestSameRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.shared()
	l := newLog(t)
	l.expect(t, start(t, path), path, "calls")
	n := len(l.callers)
	again := start(t, path)
	l.expect(t, again, path, "calls")
	if len(l.callers) != n {
		t.Errorf("%d records, then %d", n, len(l.callers))
	}
}

// Snapshots are few, however long the process runs.
func TestManyEpochs(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	for range 5 * maxSnapshots {
		l.look(os.Getpid())
		l.epoch++
	}
	if n := len(l.processes[os.Getpid()].snapshots); n != maxSnapshots {
		t.Errorf("%d snapshots", n)
	}
}

// TestEndedUnwaited looks again at a process that has ended, and for which nobody has waited: the kernel shows no mappings then. What
// is known of it stays.
func TestEndedUnwaited(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	must.Do(t, errors.Join(err, cmd.Start()))
	defer func() { _ = cmd.Wait() }()
	pid, r := cmd.Process.Pid, newResolver(Options{Epoch: func(int) uint64 { return 1 }})
	defer r.close()
	look := func() bool {
		m, ok := readMappings(pid, r.Epoch)
		if ok {
			r.keepSnapshot(m)
		}
		return ok
	}
	began := func() bool { return look() && len(r.process(pid).at(1).code) > 0 } // its program
	must.Wait(t, began, func() string { return "it has no code" })
	known := len(r.process(pid).at(1).code)
	stdin.Close()
	must.Wait(t, func() bool { s, ok := procfs.StatOf(pid); return !ok || s.Ended }, func() string {
		return "it does not end"
	})
	if look() || len(r.process(pid).at(1).code) != known {
		t.Errorf("%d mappings were known, %d are", known, len(r.process(pid).at(1).code))
	}
}
