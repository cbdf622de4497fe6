package probe

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// builds is the folder with the compiled libraries and programs of testdata. What an earlier run has built there is built
// again only if a source has changed.
var builds = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../../build/probe-test")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	changed, err := lastChange("testdata/*", "target_test.go")
	if err != nil {
		return "", err
	}
	for _, args := range []string{
		"-shared -fPIC -O1 -fno-omit-frame-pointer -fcf-protection=none -Wl,-soname,libcuda.so.1 -o %s/libcuda.so.1 testdata/libcuda.c",
		"-shared -fPIC -O1 -fno-omit-frame-pointer -fcf-protection=none -Wl,-soname,libcudart.so.13 -o %s/libcudart.so.13 testdata/libcudart.c",
		"-shared -fPIC -O1 -fno-omit-frame-pointer -fcf-protection=none -Wl,-soname,libcupti.so.13 -o %s/libcupti.so.13 testdata/libcupti.c",
		"-rdynamic -pthread -o %s/driver testdata/target.c -l:libcuda.so.1 -ldl",
		"-rdynamic -pthread -DWITH_RUNTIME -o %s/shared testdata/target.c -l:libcuda.so.1 -l:libcudart.so.13 -ldl",
		"-shared -fPIC -O1 -o %s/libhandover.so testdata/handover.c",
		"-pthread -o %s/ends testdata/ends.c -lhandover",
		"-shared -fPIC -O1 -Wl,-soname,libfunctions.so.1.2 -o %s/libfunctions.so.1.2 testdata/functions.cc -lstdc++",
		"-O1 -rdynamic -pthread -o %s/anyfunctions testdata/anyfunctions.cc -l:libfunctions.so.1.2 -l:libcuda.so.1 -lstdc++",
		"-O1 -rdynamic -pthread -o %s/unwind testdata/unwind.cc -l:libcuda.so.1 -lstdc++",
		"-pthread -DWITH_RUNTIME -o %s/static testdata/target.c testdata/libcudart.c -l:libcuda.so.1 -ldl",
	} {
		words := strings.Fields(fmt.Sprintf(args, dir))
		built := words[slices.Index(words, "-o")+1]
		if info, err := os.Stat(built); err == nil && info.ModTime().After(changed) {
			continue
		}
		words = append([]string{"-Wall", "-Wextra", "-Werror", "-L" + dir, "-Wl,-rpath," + dir}, words...)
		if out, err := exec.Command("gcc", words...).CombinedOutput(); err != nil {
			return dir, fmt.Errorf("gcc %s: %v\n%s", words, err, out)
		}
	}
	return dir, nil
})

// lastChange is when one of some files was changed last.
func lastChange(patterns ...string) (last time.Time, err error) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return last, err
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return last, err
			}
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
	}
	return last, nil
}

func TestMain(m *testing.M) {
	if os.Getenv(namespaceChild) != "" {
		enterNamespace()
	}
	if pid := os.Getenv(recorderChild); pid != "" {
		recordUntilKilled(pid)
	}
	os.Exit(m.Run())
}

// A target is a running program of testdata.
type target struct {
	tb     testing.TB
	pid    int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
}

// pauseCall is the number of the system call that pause(3) makes.
var pauseCall = map[string]int{"amd64": 34, "arm64": 73}[runtime.GOARCH]

// starting is locked while a program starts, and read-locked while probes are removed that must be gone at once: a child
// has the probes open, too, until it has run its program, a moment longer than syscall.ForkLock is locked.
var starting sync.RWMutex

// startTarget starts a program with additional environment variables, and waits until
// it is ready.
func startTarget(tb testing.TB, program string, env ...string) *target {
	tb.Helper()
	return startTargetIn(tb, program, 0, env...)
}

// startTargetIn starts the program in new namespaces, given as clone flags.
func startTargetIn(tb testing.TB, program string, namespaces uintptr, env ...string) *target {
	tb.Helper()
	dir := must.Get(builds())(tb)
	t := &target{tb: tb, cmd: exec.Command(filepath.Join(dir, program))}
	// A real driver's folder may come first in the environment.
	t.cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir), env...)
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	starting.Lock()
	defer starting.Unlock()
	stdin, stdout := pipetest.Start(tb, t.cmd)
	t.stdin, t.stdout = stdin, bufio.NewScanner(stdout)
	tb.Cleanup(func() { t.cmd.Process.Kill(); t.cmd.Wait() })
	t.pid = t.cmd.Process.Pid
	if line := t.line(); line != "ready" {
		tb.Fatal(line)
	}
	return t
}

func (t *target) line() string {
	t.tb.Helper()
	if !t.stdout.Scan() {
		t.tb.Fatalf("the target program ended: %v", t.stdout.Err())
	}
	return t.stdout.Text()
}

// begin starts a scenario without waiting for its end.
func (t *target) begin(scenario string, n int) {
	t.tb.Helper()
	must.Get(fmt.Fprintln(t.stdin, scenario, n))(t.tb)
}

// run runs a scenario and returns what it printed.
func (t *target) run(scenario string, n int) string {
	t.tb.Helper()
	t.begin(scenario, n)
	var printed string
	for {
		line := t.line()
		if line == "done" {
			return printed
		}
		printed = line
	}
}

// kill ends the target as SIGKILL does and waits until it is gone.
func (t *target) kill() {
	t.cmd.Process.Kill()
	t.cmd.Wait()
}

// A recorder is a Sink that keeps everything.
type recorder struct {
	calls   []tracelog.Call
	threads []tracelog.Thread
	symbols []tracelog.Symbol
	chains  []Chain

	functions []tracelog.FunctionEvent
}

func (r *recorder) Function(e *tracelog.FunctionEvent) { r.functions = append(r.functions, *e) }

func (r *recorder) Call(c *tracelog.Call)     { r.calls = append(r.calls, *c) }
func (r *recorder) Thread(t *tracelog.Thread) { r.threads = append(r.threads, *t) }
func (r *recorder) Symbol(s *tracelog.Symbol) { r.symbols = append(r.symbols, *s) }

func (r *recorder) Chain(c *Chain) {
	kept := *c
	kept.Addresses = slices.Clone(c.Addresses)
	r.chains = append(r.chains, kept)
}

// byEntry returns the calls in the order in which they were made: they may arrive in
// any, as a thread's inner calls end first and threads come one after the other.
func (r *recorder) byEntry() []tracelog.Call {
	calls := slices.Clone(r.calls)
	slices.SortFunc(calls, func(a, b tracelog.Call) int { return cmp.Compare(a.Enter, b.Enter) })
	return calls
}

// named returns the calls of a function.
func (r *recorder) named(name string) []tracelog.Call {
	var found []tracelog.Call
	for _, c := range r.calls {
		if functionOf(c).Name == name {
			found = append(found, c)
		}
	}
	return found
}

func (r *recorder) count(name string, flags uint32) int {
	n := 0
	for _, c := range r.named(name) {
		if c.Flags == flags {
			n++
		}
	}
	return n
}

// minimum is the first kernel version with a mode.
var minimum = map[attachMode][2]int{modeMulti: {6, 10}, modeSingle: {5, 15}}

// claimed reports whether this kernel should have a mode.
func (m attachMode) claimed() bool {
	var major, minor int
	fmt.Sscanf(host.KernelRelease(), "%d.%d", &major, &minor)
	need := minimum[m]
	return major > need[0] || major == need[0] && minor >= need[1]
}

// open opens a Prober in the given mode. The test is skipped where the kernel is
// older than the mode, and fails where it is not and the mode does not work.
func open(tb testing.TB, o Options) *Prober {
	tb.Helper()
	must.BeRoot(tb)
	if o.Functions == nil {
		o.Functions = cudaapi.Functions(cudaapi.All)
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = 4 << 20
	}
	p, err := Open(o)
	if err != nil {
		if need := minimum[o.mode]; !o.mode.claimed() {
			tb.Skipf("Linux %d.%d is needed: %v", need[0], need[1], err)
		}
		tb.Fatalf("%v: %v", err, unwrapAll(err))
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err
		}
		err = inner.Unwrap()
	}
}

// attach probes the target.
func attach(tb testing.TB, p *Prober, t *target) Attachment {
	tb.Helper()
	starting.RLock()
	defer starting.RUnlock()
	a := must.Get(p.Attach(t.pid))(tb)
	return a
}

// finish ends the recording.
func finish(tb testing.TB, p *Prober) *recorder {
	tb.Helper()
	r := &recorder{}
	must.Do(tb, p.Finish(r))
	return r
}

// record records a scenario from attaching to the end.
func record(tb testing.TB, mode attachMode, program, scenario string, n int) *recorder {
	tb.Helper()
	p, t := open(tb, Options{mode: mode, BufferBytes: 16 << 20}), startTarget(tb, program)
	attach(tb, p, t)
	t.run(scenario, n)
	r := finish(tb, p)
	if lost, err := p.Lost(); err != nil || len(lost) > 0 {
		tb.Errorf("lost %+v (%v)", lost, err)
	}
	return r
}

// eachMode runs a test in every mode, beside other tests.
func eachMode(t *testing.T, test func(t *testing.T, m attachMode)) {
	t.Parallel()
	for _, m := range []attachMode{modeMulti, modeSingle} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			test(t, m)
		})
	}
}

func lostCalls(tb testing.TB, p *Prober, cause string) uint64 {
	tb.Helper()
	lost := must.Get(p.Lost())(tb)
	var n uint64
	for _, l := range lost {
		if l.Cause == cause {
			n += l.Count
		}
		if l.From == 0 || l.To < l.From {
			tb.Errorf("loss by %s lies between %d and %d", l.Cause, l.From, l.To)
		}
	}
	return n
}
