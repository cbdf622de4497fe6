package cupti

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestLibraryOfArm64 runs programs of the simulated stack that are built for arm64, in an emulator, with the injected
// library of that processor: each piece of GPU work arrives, with the call that made it.
func TestLibraryOfArm64(t *testing.T) {
	t.Parallel()
	built := os.Getenv("CUDATRACE_SIM_ARM64")
	if built == "" {
		t.Skip("run `make package-test` in the root of the repository")
	}
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Fatalf("%v: run `make tools` in the root of the repository", err)
	}
	library := must.Get(os.ReadFile("inject_arm64.so"))(t)
	for _, test := range []struct {
		program         string
		args            []string
		kernels, copies uint64
	}{
		{"vectoradd", nil, 1, 3},
		{"launchloop", []string{"-n", "2000", "-t", "2", "-s", "2", "-k", "2"}, 2000, 0},
	} {
		t.Run(test.program, func(t *testing.T) {
			t.Parallel()
			p := &pairing{tally: newTally(), work: map[uint32]int{}, calls: map[uint32]int{}}
			s := newStage(t, Options{Sink: p, library: library}, GoConfig{Candidates: []Candidate{{Path: filepath.Join(built, "lib/libcupti.so.13")}}})
			s.tally = p.tally
			args := append([]string{"-L", "/usr/aarch64-linux-gnu", filepath.Join(built, "bin", test.program)}, test.args...)
			if _, stderr, code := s.run(t, play{emulator, args, nil}); code != 0 || stderr != "" {
				t.Fatalf("the program printed %q and ended with %d", stderr, code)
			}
			s.checkSim(t, p, test.kernels, test.copies)
			if s.names["cudaLaunchKernel"] == 0 {
				t.Errorf("no launch among %v", s.names)
			}
		})
	}
}

// launches is a sink of several goroutines.
type launches struct {
	mu sync.Mutex
	pythontest.Launches
}

func (l *launches) Add(r tracelog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Launches.Add(r)
}

// TestPythonOfArm64 compares the Python frames of launches with those that the interpreter itself sees, and damages its
// memory, as tests of cmd/cudatrace do for amd64.
func TestPythonOfArm64(t *testing.T) {
	t.Parallel()
	root := os.Getenv("CUDATRACE_PYTHON_ARM64")
	if root == "" {
		t.Skip("run `make package-test` in the root of the repository")
	}
	interpreters, err := filepath.Glob(filepath.Join(root, "usr/bin/python3.[0-9]*"))
	if err != nil || len(interpreters) == 0 {
		t.Fatalf("no Python in %s (%v)", root, err)
	}
	programs := must.Get(filepath.Abs("../../../cmd/cudatrace/testdata/python"))(t)
	lib := filepath.Join(os.Getenv("CUDATRACE_SIM_ARM64"), "lib")
	helpers := map[string]string{}
	for _, name := range []string{"hostile", "poke"} {
		helpers[name] = filepath.Join(t.TempDir(), name+".so")
		gcc := exec.Command("aarch64-linux-gnu-gcc", "-shared", "-fPIC", "-o", helpers[name],
			filepath.Join(programs, name+".c"), "-L"+lib, "-l:libcudart.so.13")
		must.Run(t, gcc)
	}
	for _, interpreter := range interpreters {
		for _, scenarios := range []string{"forms,successors", "evaluators,stacks,wander", "threads"} {
			t.Run(filepath.Base(interpreter)+" "+scenarios, func(t *testing.T) {
				t.Parallel()
				truth := filepath.Join(t.TempDir(), "truth.json")
				got, lost, said := emulatedPython(t, interpreter, root, lib,
					filepath.Join(programs, "lines.py"), scenarios, truth, helpers["hostile"])
				want := pythontest.Truth(t, truth)
				framed := pythontest.Compare(t, got, want)
				if framed+int(lost) != len(want) || lost != 0 && scenarios != "threads" || framed < len(want)/3 {
					t.Errorf("%d of %d launches have frames, %d are said to have none\n%s",
						framed, len(want), lost, said)
				}
			})
		}
		t.Run(filepath.Base(interpreter)+" damaged", func(t *testing.T) {
			t.Parallel()
			got, _, said := emulatedPython(t, interpreter, root, lib,
				filepath.Join(programs, "poke.py"), helpers["poke"])
			if fmt.Sprintln(len(got)) != said {
				t.Fatalf("%d launches; the program said %s", len(got), said)
			}
			for _, l := range got[len(got)-10:] {
				if len(l.Frames) == 0 || !strings.Contains(l.Frames[0], "poke.py") {
					t.Errorf("a launch behind the damage has the frames %q", l.Frames)
				}
			}
		})
	}
}

// emulatedPython runs a program of Python for arm64, and returns its launches and what it said. The recorder cannot look
// for the interpreter in an emulator: the program says where it is.
func emulatedPython(t *testing.T, python, root, lib string, args ...string) (
	_ []pythontest.Launch, lost uint64, said string) {
	t.Helper()
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Fatalf("%v: run `make tools` in the root of the repository", err)
	}
	library := must.Get(os.ReadFile("inject_arm64.so"))(t)
	wrapper := must.Get(filepath.Abs("testdata/python.py"))(t)
	sink := &launches{}
	s := newStage(t, Options{Sink: sink, Python: &PythonLog{}, library: library},
		GoConfig{Python: true, Calls: []string{"cuMemsetD8"},
			Candidates: []Candidate{{Path: filepath.Join(lib, "libcupti.so.13")}}})
	cmd := play{emulator, append([]string{"-L", root, python, wrapper}, args...),
		[]string{"LD_LIBRARY_PATH=" + lib, "WANDER=200"}}.command(t, s.server.Environ(os.Environ()))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, out := started(t, cmd)
	var minor int
	i := &pyframes.Interpreter{}
	if _, err := fmt.Fscanln(out, &minor, &i.Runtime, &i.GILState, &i.CodeType); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	known := slices.IndexFunc(pyframes.Layouts, func(l pyframes.Layout) bool { return l.Minor == minor })
	i.Layout = &pyframes.Layouts[known]
	s.audience.mu.Lock()
	s.audience.config.Interpreter = i
	s.audience.mu.Unlock()
	in.Close()
	rest, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if left := s.server.Wait(patience); left != 0 {
		t.Fatalf("%d processes are still connected", left)
	}
	return sink.All(), sink.Lost, string(rest)
}
