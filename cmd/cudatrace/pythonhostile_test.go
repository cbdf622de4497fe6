package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// pythonRunsVar is the variable that says how many hostile runs each interpreter makes. Without it each scenario runs once,
// with one of them, those that return in one program.
const pythonRunsVar = "CUDATRACE_PYTHON_RUNS"

// returning are the scenarios of testdata/python/hostile.py after which the program can go on, and hostileScenarios all,
// and embedded.c.
var (
	returning = []string{"forks", "thread_ends", "generators", "coroutines", "discards", "recursion", "signals", "traced",
		"stacks", "greenlets"}
	hostileScenarios = slices.Concat(returning, []string{"daemons", "early_exit", "killed", "aborts", "faults",
		"interpreters", "destructors", "embedded"})
)

// hostileWays are what else differs between runs: the allocator, which fills freed memory, and what is recorded.
var hostileWays = []hostileWay{{"", "auto"}, {"debug", "cupti"}, {"malloc_debug", "auto"}, {"malloc", "none"}}

type hostileWay struct{ malloc, calls string }

// A pythonEnd is what a program leaves behind.
type pythonEnd struct {
	code           int // 128 and the signal's number where it was killed
	stdout, stderr string
}

// pythonEndOf runs a program. Lines of cudatrace's own are left out.
func pythonEndOf(cmd *exec.Cmd) (o pythonEnd) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the code tells
	o.code = cmd.ProcessState.ExitCode()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		o.code = 128 + int(s.Signal())
	}
	o.stdout = stdout.String()
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "cudatrace") {
			o.stderr += line
		}
	}
	return o
}

// embedPython builds the program with the interpreter in it. It returns "" where that is not installed to be built with.
func embedPython(t *testing.T, p pythontest.Interpreter) string {
	include := filepath.Join(p.Prefix, "include", fmt.Sprintf("python3.%d", p.Minor))
	lib := filepath.Join(p.Prefix, "lib")
	if _, err := os.Stat(filepath.Join(include, "Python.h")); err != nil {
		return ""
	}
	if shared, _ := filepath.Glob(filepath.Join(lib, fmt.Sprintf("libpython3.%d.so", p.Minor))); len(shared) == 0 {
		return ""
	}
	program := filepath.Join(t.TempDir(), "embedded")
	sim := filepath.Join(simStack, "lib")
	if out, err := exec.Command("gcc", "-o", program, "testdata/python/embedded.c", "-I"+include, "-L"+lib, fmt.Sprintf("-lpython3.%d", p.Minor), "-Wl,-rpath,"+lib,
		"-L"+sim, "-l:libcudart.so.13", "-pthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// hostileHelper builds the library of testdata/python/hostile.py.
func hostileHelper(t *testing.T) string {
	t.Helper()
	helper := filepath.Join(t.TempDir(), "hostile.so")
	must.Run(t, exec.Command("gcc", "-shared", "-fPIC", "-o", helper, "testdata/python/hostile.c"))
	return helper
}

// TestPythonHostile runs programs that do what is hard on a reader of frames: each prints what it prints unrecorded, and ends as it
// ends then.
func TestPythonHostile(t *testing.T) {
	t.Parallel()
	helper := hostileHelper(t)
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	runs, long := 0, os.Getenv(pythonRunsVar)
	if long != "" {
		n := must.Get(strconv.Atoi(long))(t)
		runs = n
	}
	for k, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			if runs == 0 {
				var one, some []string
				for i, scenario := range hostileScenarios {
					switch {
					case i%len(all) != k:
					case slices.Contains(returning, scenario):
						one = append(one, scenario)
					default:
						program := scenarioProgram(t, p, helper, scenario)
						some = append(some, fmt.Sprintf("echo %s; %s; echo returned $?", scenario, program))
					}
				}
				some = append(some, scenarioProgram(t, p, helper, one...))
				comparePythonEnds(t, hostileWays[k%len(hostileWays)], strings.Join(some, "; "))
				return
			}
			programs := map[string]string{}
			for _, scenario := range hostileScenarios {
				programs[scenario] = scenarioProgram(t, p, helper, scenario)
			}
			for i := range runs {
				if program := programs[hostileScenarios[i%len(hostileScenarios)]]; program != "true" {
					comparePythonEnds(t, hostileWays[(i/len(hostileScenarios)+k)%len(hostileWays)], program)
				}
			}
		})
	}
}

// scenarioProgram is the command of scenarios, as a shell takes it; "true" where it cannot be run.
func scenarioProgram(t *testing.T, p pythontest.Interpreter, helper string, scenarios ...string) string {
	if slices.Equal(scenarios, []string{"embedded"}) {
		return cmp.Or(embedPython(t, p), "true")
	}
	return strings.Join([]string{p.Path, "testdata/python/hostile.py", strings.Join(scenarios, ","), helper}, " ")
}

// comparePythonEnds runs a command of the shell with the recorder and without.
func comparePythonEnds(t *testing.T, way hostileWay, command string) {
	t.Helper()
	program := []string{"sh", "-c", command}
	plain := pythonEndOf(hostileCommand(way.malloc, program...))
	base := filepath.Join(t.TempDir(), "run")
	record := []string{"cudatrace", "record", "-q", "--calls", way.calls, "--no-convert", "-o", base, "--"}
	if got := pythonEndOf(hostileCommand(way.malloc, append(record, program...)...)); got != plain {
		t.Errorf("%s, PYTHONMALLOC=%s, --calls %s: %+v, unrecorded %+v", command, way.malloc, way.calls, got, plain)
	}
	if err := os.Remove(base + ".cudatrace"); err != nil {
		t.Errorf("%s: %v", command, err)
	}
}

// TestPythonEmbedded records a program that ends its interpreter and starts it anew: each launch has the functions of its own life.
func TestPythonEmbedded(t *testing.T) {
	t.Parallel()
	pythontest.OldestAndNewest(t, func(t *testing.T, p pythontest.Interpreter) {
		program := embedPython(t, p)
		if program == "" {
			t.Skip("this Python cannot be embedded")
		}
		base := filepath.Join(t.TempDir(), "run")
		out, err := pythonCommand("cudatrace", "record", "-q", "--no-convert", "-o", base, program).CombinedOutput()
		if cause := new(exec.ExitError); !errors.As(err, &cause) || cause.ExitCode() != 6 {
			t.Fatalf("%v\n%s", err, out)
		}
		launches, lost := pythonLaunches(t, base+".cudatrace")
		var lives []string
		for _, l := range launches {
			if len(l.Frames) > 0 {
				lives = append(lives, strings.Fields(l.Frames[0])[1])
			}
		}
		var want []string
		for life := range 8 { // in 3.13 the sixth has the places and the versions of the fourth
			want = append(want, slices.Repeat([]string{fmt.Sprintf("work_%d", life)}, 40)...)
		}
		if lost != 0 || !slices.Equal(lives, want) {
			t.Errorf("%d lost, functions %v\n%s", lost, lives, out)
		}
	})
}

// hostileCommand is a pythonCommand with an allocator.
func hostileCommand(malloc string, args ...string) *exec.Cmd {
	cmd := pythonCommand(args[0], args[1:]...)
	cmd.Env = append(cmd.Env, "PYTHONWARNINGS=ignore")
	if malloc != "" {
		cmd.Env = append(cmd.Env, "PYTHONMALLOC="+malloc)
	}
	return cmd
}

// TestPythonEnds records a program whose frames cannot be read from some time on: one line says so, and the log is complete, since it
// has all calls and all GPU work.
func TestPythonEnds(t *testing.T) {
	t.Parallel()
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	log, helper := filepath.Join(t.TempDir(), "run"), hostileHelper(t)
	said := must.Run(t, pythonCommand("cudatrace", "record", "-q", "--no-convert", "-o", log, all[0].Path, "testdata/python/hostile.py", "interpreters", helper))
	const why = "Python lines are no longer recorded: the process has more than one Python interpreter"
	s := must.Get(summarize(log + ".cudatrace"))(t)
	if !s.Complete || !slices.Contains(s.Notes, why) || strings.Count(string(said), why) != 1 {
		t.Errorf("complete %t, reasons %q, notes %q\n%s", s.Complete, s.Reasons, s.Notes, said)
	}
}
