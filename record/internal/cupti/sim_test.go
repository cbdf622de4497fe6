package cupti

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sim returns the folder of the simulated CUDA stack: the built one, or one that
// it builds.
var sim = sync.OnceValues(func() (string, error) {
	built, err := filepath.Abs("../../../build/sim")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(built, "bin/inside")); err == nil {
		return built, nil
	}
	out, err := exec.Command("make", "-s", "-C", "../../../testdata/sim", "BUILD="+built).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return built, err
})

func simProgram(t testing.TB, name string) string {
	t.Helper()
	dir := must.Get(sim())(t)
	return filepath.Join(dir, "bin", name)
}

// buildOnSim builds a program of one source file against the simulated stack.
func buildOnSim(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := must.Get(sim())(t)
	lib, program := filepath.Join(dir, "lib"), filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g"}, flags...)
	args = append(args, "-o", program, source, "-L"+lib, "-l:libcudart.so.13", "-l:libcuda.so.1", "-Wl,-rpath,"+lib, "-ldl")
	must.Run(t, exec.Command("gcc", args...))
	return program
}

// pairing is a sink that keeps correlation IDs: of GPU work, and of the calls.
type pairing struct {
	*tally
	mu    sync.Mutex
	work  map[uint32]int
	calls map[uint32]int
}

func (s *pairing) see(ids map[uint32]int, id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids[id]++
}

func (s *pairing) Add(r tracelog.Record) {
	s.tally.Add(r)
	switch r := r.(type) {
	case *tracelog.Kernel:
		s.see(s.work, r.Correlation)
	case *tracelog.Memcpy:
		s.see(s.work, r.Correlation)
	case *tracelog.Memset:
		s.see(s.work, r.Correlation)
	case *tracelog.API:
		s.see(s.calls, r.Correlation)
	}
}

func (s *stage) checkSim(t *testing.T, p *pairing, kernels, copies uint64) {
	t.Helper()
	if s.counts["kernel"] != kernels || s.counts["memcpy"] != copies || len(s.lost) != 0 {
		t.Errorf("%v arrived and %v was lost, want %d kernels and %d copies", s.counts, s.lost, kernels, copies)
	}
	if got := s.counts["memset"] + kernels + copies; s.counts["api"] != got {
		t.Errorf("%d calls for %d pieces of work", s.counts["api"], got)
	}
	for id, n := range p.work {
		if p.calls[id] != n {
			t.Fatalf("correlation %d: %d pieces of work of %d calls", id, n, p.calls[id])
		}
	}
	if len(s.ends) != 1 || s.ends[0].Complete != 1 || s.ends[0].Kernels != kernels || s.ends[0].Copies != copies {
		t.Errorf("the end is %+v", s.ends)
	}
	if s.counts["device"] == 0 || s.counts["context"] == 0 || len(s.notes) != 0 || s.status().Status != "on" {
		t.Errorf("%v arrived, notes %q, CUPTI %+v", s.counts, s.notes, s.status())
	}
}

// TestManyThreads has a thousand threads launch while each holds a buffer of CUPTI's: at the default limit nothing is
// lost.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	args := []string{"-t", "1000", "-n", "20", "--together"}
	_, stderr, code := s.run(t, play{simProgram(t, "threads"), args, nil})
	if code != 0 || stderr != "" || s.counts["kernel"] != 20000 || s.counts["api"] < 20000 || len(s.lost) != 0 {
		t.Errorf("it printed %q and ended with %d; %v arrived and %v was lost", stderr, code, s.counts, s.lost)
	}
}

// TestAddressSpace has a program launch with 60 MiB of address space left (RLIMIT_AS): a third of it is still the program's,
// and what was lost is counted.
func TestAddressSpace(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{Callers: true, Python: true})
	stdout, stderr, code := s.run(t, play{buildOnSim(t, "testdata/room.c"), []string{"60", "20"}, nil})
	expect(t, stdout, stderr, code, "")
	known := s.counts["memset"] + s.counts["api"] + s.lost["cupti_queue"] + s.lost["cupti_dropped"]
	if s.counts["memset"] == 0 || known < 40000 {
		t.Errorf("%v arrived and %v was lost", s.counts, s.lost)
	}
	want := "the program's address space is limited (RLIMIT_AS): of --memory-limit 64M, 8M are used at most"
	if !slices.Contains(s.notes, want) {
		t.Errorf("notes %q, want %q", s.notes, want)
	}
}

// TestPreloadedClock runs a program whose clock_gettime is not libc's: the library's times are the kernel's, and a note
// says so.
func TestPreloadedClock(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	begin := monotonic()
	args := []string{"-n", "1000", "-s", "1", "-k", "2"}
	stdout, stderr, code := s.run(t, play{simProgram(t, "launchloop"), args, preloaded(t, nil, "slow.so")})
	if code != 0 || stderr != "" || s.counts["kernel"] != 1000 {
		t.Fatalf("the program printed %q %q and ended with %d; %v arrived", stdout, stderr, code, s.counts)
	}
	s.onOneClock(t, begin)
	want := "the program's clock is 600 s slow: a preloaded library shifts it; times here are the kernel's"
	if len(s.notes) != 1 || s.notes[0] != want {
		t.Errorf("notes %q", s.notes)
	}
}
