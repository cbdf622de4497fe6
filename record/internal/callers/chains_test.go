package callers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sim returns the folder of the simulated CUDA stack: the built one, or one that it builds.
var sim = sync.OnceValues(func() (string, error) {
	built, err := filepath.Abs("../../../build/sim")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(built, "bin/profiler")); err == nil {
		return built, nil
	}
	out, err := exec.Command("make", "-s", "-C", "../../../testdata/sim", "BUILD="+built).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return built, err
})

// A bench is a folder with the stand-in of the driver, the simulated runtime, and programs. All tests share the folder,
// in which each file is made once.
type bench struct {
	dir, sim string
	testing.TB
}

// folder is the folder of benches; TestMain removes it.
var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "callers-test-") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := folder(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newBench(t testing.TB) *bench {
	t.Helper()
	built, err1 := sim()
	dir, err2 := folder()
	must.Do(t, errors.Join(err1, err2))
	b := &bench{dir: dir, sim: built, TB: t}
	b.once("libcuda.so.1", func(path string) {
		b.gcc("-shared", "-fPIC", "-fno-omit-frame-pointer", "-Wl,-soname,libcuda.so.1", "-o", path, "testdata/driver.c", "-pthread")
	})
	b.once("libcudart.so.13", func(path string) { b.run("cp", filepath.Join(built, "lib/libcudart.so.13"), path) })
	return b
}

// made has a sync.Once for each file of the folder.
var made sync.Map

// once returns the path of a file, after some test has made it.
func (b *bench) once(name string, make func(path string)) string {
	b.Helper()
	once, _ := made.LoadOrStore(name, &sync.Once{})
	once.(*sync.Once).Do(func() { make(b.path(name)) })
	return b.path(name)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) gcc(args ...string) { b.run("gcc", append([]string{"-O2"}, args...)...) }

func (b *bench) run(name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}

// build builds a program, with flags, of a source and more.
func (b *bench) build(name string, args ...string) string {
	b.Helper()
	return b.once(name, func(path string) {
		b.gcc(append([]string{"-o", path, "-Wl,-rpath," + b.dir}, append(args, b.path("libcuda.so.1"), "-ldl", "-pthread")...)...)
	})
}

// shared builds the program with the shared runtime.
func (b *bench) shared() string {
	b.Helper()
	return b.build("shared", "testdata/program.c", b.path("libcudart.so.13"))
}

// coded builds the program whose code is like that of NVIDIA's runtime.
func (b *bench) coded() string {
	b.Helper()
	return b.build("coded", "testdata/coded.c", "-fno-omit-frame-pointer", "-fno-inline")
}

// static builds the program with the runtime linked into it.
func (b *bench) static() string {
	b.Helper()
	path := b.build("static-global", "testdata/program.c", filepath.Join(b.sim, "lib/libcudart_static.a"))
	return b.once("static", func(local string) { b.run("objcopy", "--localize-hidden", path, local) })
}

func (b *bench) stripped(path string) string {
	b.Helper()
	return b.once(filepath.Base(path)+"-stripped", func(stripped string) { b.run("strip", "-o", stripped, path) })
}

// An observed call is one that a program made, with what it said of it.
type observed struct {
	within   string // the function that it had called: "cudaMalloc"
	function string // of the driver
	chain    []uint64
}

// A running program waits, after its calls, for the end of the test.
type running struct {
	pid   int
	calls []observed
}

func start(t testing.TB, path string) *running {
	t.Helper()
	c := exec.Command(path)
	c.Stderr = os.Stderr
	in, out := pipetest.Start(t, c)
	t.Cleanup(func() {
		in.Close()
		c.Wait()
	})
	return &running{c.Process.Pid, readCalls(t, out)}
}

func readCalls(t testing.TB, out io.Reader) (calls []observed) {
	t.Helper()
	within := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "done":
			return calls
		case "in":
			within = words[1]
		default:
			calls = append(calls, observed{within, words[0], addresses(t, words[1:])})
		}
	}
	t.Fatal("the program ended early")
	return nil
}

func addresses(t testing.TB, words []string) (chain []uint64) {
	t.Helper()
	for _, w := range words {
		n := must.Get(strconv.ParseUint(w, 16, 64))(t)
		chain = append(chain, n)
	}
	return chain
}

// A log keeps records by ID.
type recordLog struct {
	*resolver
	epoch    uint64
	callers  map[uint32]tracelog.Caller
	ids      map[tracelog.Caller]uint32
	nameless []string
}

func newLog(t testing.TB) *recordLog {
	l := &recordLog{epoch: 1, callers: map[uint32]tracelog.Caller{}, ids: map[tracelog.Caller]uint32{}}
	l.resolver = newResolver(Options{
		Epoch:    func(int) uint64 { return l.epoch },
		Nameless: func(_ int, path string) { l.nameless = append(l.nameless, path) },
	})
	t.Cleanup(l.close)
	return l
}

// look reads what code a process has mapped.
func (l *recordLog) look(pid int) {
	if m, ok := readMappings(pid, l.Epoch); ok {
		l.addMappings(m)
	}
}

// Resolve numbers the distinct records from 1 on. Nothing certain is 0.
func (l *recordLog) Resolve(pid int, epoch uint64, function string, chain []uint64) (id uint32, depth int) {
	c, depth := l.find(pid, epoch, function, chain)
	if c == (tracelog.Caller{}) {
		return 0, depth
	}
	if l.ids[c] == 0 {
		id = uint32(len(l.ids) + 1)
		l.ids[c] = id
		c.ID = id
		l.callers[id] = c
		return id, depth
	}
	return l.ids[c], depth
}

func (l *recordLog) resolve(pid int, c observed) (tracelog.Caller, int) {
	id, depth := l.Resolve(pid, l.epoch, c.function, c.chain)
	return l.callers[id], depth
}

// expect resolves the calls of a running program and compares them with what it said.
func (l *recordLog) expect(t *testing.T, r *running, path, symbol string) {
	t.Helper()
	for _, c := range r.calls {
		got, depth := l.resolve(r.pid, c)
		function := c.within
		if function == "nothing" {
			function = ""
		}
		if c.within == "unknown" {
			if got.ID != 0 {
				t.Errorf("a call that nothing identifies: %+v", got)
			}
			continue
		}
		if got.ID == 0 || got.Function != function || got.Module != path || got.Symbol != symbol || depth < 1 || depth > len(c.chain) {
			t.Errorf("%s in %s: depth %d of %d, %+v", c.function, c.within, depth, len(c.chain), got)
		}
	}
	if len(r.calls) == 0 || len(l.nameless) > 0 {
		t.Errorf("%d calls; without names %q", len(r.calls), l.nameless)
	}
}

// With a shared runtime and with one whose symbols are there, each call has its name and caller.
func TestNamedRuntimes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, path := range []string{
		b.shared(),
		b.build("shared-frames", "testdata/program.c", b.path("libcudart.so.13"), "-fno-omit-frame-pointer"),
		b.static(),
	} {
		l := newLog(t)
		l.expect(t, start(t, path), path, "calls")
		t.Logf("%s: %d records", filepath.Base(path), len(l.callers))
	}
}

// Without symbols the program of a shared runtime is still known, by its file.
func TestStrippedProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.stripped(b.shared())
	newLog(t).expect(t, start(t, path), path, "")
}

// A program whose functions of these names only jump to a shared runtime has no runtime of its own: what it calls of
// the driver it has called itself.
func TestForwardingProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.build("forward", "testdata/program.c", "testdata/forward.c")
	newLog(t).expect(t, start(t, path), path, "calls")
}

// A stripped program with a runtime of an unknown form gets no records, and it is said once.
func TestHiddenRuntime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.stripped(b.static())
	r, l := start(t, path), newLog(t)
	for _, c := range r.calls {
		if got, _ := l.resolve(r.pid, c); got.ID != 0 {
			t.Errorf("%s in %s: %+v", c.function, c.within, got)
		}
	}
	if len(l.nameless) != 1 || l.nameless[0] != path {
		t.Errorf("without names: %q", l.nameless)
	}
}

// In a stripped program the code of NVIDIA's runtime tells the names.
func TestCodedRuntime(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the code of other processors is not known")
	}
	b := newBench(t)
	whole := b.coded()
	path := b.stripped(whole)
	r, l := start(t, path), newLog(t)
	var kept []observed
	for _, c := range r.calls {
		if c.within != "nothing" { // calls keeps a frame pointer here, as the runtime does
			kept = append(kept, c)
		}
	}
	r.calls = kept
	l.expect(t, r, path, "")
}
