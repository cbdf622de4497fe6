package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// root is the repository's root.
var root = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// gpuLog is a log recorded on a real GPU.
var gpuLog = filepath.Join("..", "..", "testdata", "gpu", "logs", "streams.cudatrace")

// simStack is the folder of the simulated CUDA stack, a copy of build/sim: some programs run as another user, who may not
// be able to enter the repository.
var simStack string

func sim(name string) string { return filepath.Join(simStack, "bin", name) }

// TestMain puts a command "cudatrace", which is this test binary, into PATH.
func TestMain(m *testing.M) {
	commands := map[string]func(){
		"cudatrace": func() {
			collectLate()
			os.Exit(run(os.Args, os.Stdout, os.Stderr))
		},
		"measured": measured,
		"nosocket": without(unix.SYS_SOCKET, unix.EACCES),
		"nobpf":    without(unix.SYS_BPF, unix.EPERM),
		"bloated":  func() { attacktest.Bloats() },
	}
	if commands[filepath.Base(os.Args[0])] == nil {
		pipetest.DefaultSignals()
		debug.SetGCPercent(400) // of the tests' own time a sixth went to the collector
		if out, err := exec.Command("make", "-s", "-C", root, "sim").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "the simulated CUDA stack does not build: %v\n%s", err, out)
			os.Exit(1)
		}
		simStack = copySimStack()
		// Recordings wait for the kernel, which takes its time to remove probes: two processors have time for more than two tests.
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
		if err := os.Setenv("CUDATRACE_TEST_DEVICE", filepath.Join(simStack, "lib/dev/nvidia-uvm")); err != nil { // what the simulated driver opens
			panic(err)
		}
	}
	testscript.Main(removing{m}, commands)
}

// copySimStack copies what is used of build/sim to where every user can enter.
func copySimStack() string {
	dir, err := os.MkdirTemp("", "cudatrace-sim-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = exec.Command("sh", "-c", "cd ../../build/sim && cp -a bin lib* nvml "+dir).Run()
	}
	if err != nil {
		panic(err)
	}
	return dir
}

// removing are tests that remove their copy of the simulated stack at the end.
type removing struct{ *testing.M }

func (r removing) Run() int {
	defer os.RemoveAll(simStack)
	return r.M.Run()
}

// TestScript runs what a person types and compares what they see.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CUDATRACE_TEST_DEVICE", os.Getenv("CUDATRACE_TEST_DEVICE"))
			e.Setenv("SIM", filepath.Join(simStack, "bin"))
			e.Setenv("GPU", filepath.Join(root, "testdata/gpu"))
			e.Setenv("SAVINGS", filepath.Join(root, "testdata/savings"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "cut": cut, "first": first},
	})
}

// first looks for a line among the first three below the title that the last command printed: first PATTERN.
func first(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: first PATTERN")
	}
	lines := strings.SplitN(ts.ReadFile("stdout"), "\n", 5)
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	if top := lines[:min(len(lines), 4)]; !slices.ContainsFunc(top, pattern.MatchString) {
		ts.Fatalf("no %s in\n%s", args[0], strings.Join(top, "\n"))
	}
}

// cut copies the beginning of a file: cut BYTES FROM TO.
func cut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cut BYTES FROM TO")
	}
	data := ts.ReadFile(args[1])
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(data[:n]), 0o644))
}

// exits runs a command and compares its exit code: exits CODE COMMAND [ARG...].
// What it prints goes to the files out and err.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	out, err1 := os.Create(ts.MkAbs("out"))
	errs, err2 := os.Create(ts.MkAbs("err"))
	ts.Check(err1)
	ts.Check(err2)
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	out.Close()
	errs.Close()
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		said, err := os.ReadFile(ts.MkAbs("err"))
		ts.Check(err)
		ts.Fatalf("exit code %s, want %s\n%s", got, args[0], said)
	}
}
