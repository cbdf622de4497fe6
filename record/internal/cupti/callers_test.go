package cupti

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sites is a sink that counts the callers of calls, by the name of the call.
type sites struct {
	*tally
	mu      sync.Mutex
	callers map[string]map[uint32]int
	without int                 // calls of the driver without a caller
	open    []tracelog.API      // calls that have not returned
	noted   []tracelog.OpenCall // calls that did not return for a while
}

func (s *sites) Add(r tracelog.Record) {
	s.tally.Add(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := r.(*tracelog.OpenCall); ok {
		s.noted = append(s.noted, *o)
	}
	a, ok := r.(*tracelog.API)
	if !ok {
		return
	}
	if a.Flags&tracelog.CallUnfinished != 0 {
		s.open = append(s.open, *a)
		return
	}
	if s.callers[a.Name] == nil {
		s.callers[a.Name] = map[uint32]int{}
	}
	s.callers[a.Name][a.Caller]++
	if a.Domain == tracelog.DomainDriver && a.Caller == 0 {
		s.without++
	}
}

func newSites(t *testing.T, o Options, c GoConfig) (*stage, *sites) {
	t.Helper()
	c.Callers = true
	seen := &sites{tally: newTally(), callers: map[string]map[uint32]int{}}
	o.Sink = seen
	s := newStage(t, o, c)
	s.tally = seen.tally
	return s, seen
}

// TestChains has every call of the driver's recorded with the chain above the call, and none of the
// runtime's: on threads that come and go, after a fork, on stacks that are unmapped, whatever is in the
// frame pointer. No thread makes more calls than fit in its ring, so a slow machine loses none.
func TestChains(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program string
		args    []string
	}{
		{"vectoradd", nil},
		{"many", nil},
		{"many-static", nil},
		{"static-stripped", nil},
		{"bundled", nil},
		{"driveronly", nil},
		{"late", nil},
		{"tworuntimes", nil},
		{"graphs", nil},
		{"nvtx", nil},
		{"stacks", nil},
		{"launchloop", []string{"-n", "20000", "-t", "4", "-s", "8", "-k", "16"}},
		{"threads", []string{"-t", "40", "-n", "200"}},
		{"forkafter", nil},
		{"forkafter", []string{"_exit"}},
		{"forkexec", []string{"-d", "1"}},
		{"exits", []string{"thread-exit", "-n", "1000"}},
		{"exits", []string{"fork-child", "-n", "1000"}},
	} {
		t.Run(test.program+strings.Join(test.args, ""), func(t *testing.T) {
			t.Parallel()
			s, seen := newSites(t, Options{}, GoConfig{})
			if _, stderr, code := s.run(t, play{simProgram(t, test.program), test.args, nil}); code != 0 || stderr != "" {
				t.Fatalf("the program printed %q and ended with %d", stderr, code)
			}
			// Where the control thread gets no processor for a while, rings of calls overflow: those calls have no caller.
			if s.counts["api"] == 0 || uint64(seen.without) > uint64(s.counts["api"])/100 || len(seen.open) != 0 || len(s.notes) != 0 || len(s.lost) != 0 {
				t.Errorf("%d calls, %d without a caller, open %v, notes %q, lost %v", s.counts["api"], seen.without, seen.open, s.notes, s.lost)
			}
			for name := range seen.callers {
				if strings.HasPrefix(name, "cuda") {
					t.Errorf("the runtime's function %s has a record", name)
				}
			}
		})
	}
}

// TestChainDepth tells the process that three addresses suffice: chains get no longer than that.
func TestChainDepth(t *testing.T) {
	t.Parallel()
	s, seen := newSites(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
	s.depth = 3
	s.runSim(t, "longrun:", "longrun", nil, "2", "-i", "100")
	long := map[uint64]int{}
	for _, c := range s.chains {
		if len(c.Addresses) > s.depth {
			long[c.Addresses[0]]++
		}
	}
	if len(s.chains) == 0 || seen.without != 0 || s.counts["kernel"] < 100 {
		t.Errorf("%d chains, %d calls without one, %v", len(s.chains), seen.without, s.counts)
	}
	for address, n := range long {
		if n > 2 {
			t.Errorf("%d long chains from %#x after it was told that %d addresses suffice", n, address, s.depth)
		}
	}
}

// TestWithoutChains has CUPTI refuse what chains need: the runtime's functions are recorded. Or CUPTI loses it: the
// driver's functions are. A note says so.
func TestWithoutChains(t *testing.T) {
	t.Parallel()
	dir := must.Get(sim())(t)
	const n = 40000
	for _, test := range []struct {
		name, set string
		config    GoConfig
		late      bool // it shows in records only
		notes     int
	}{
		{"old-cupti", "LD_LIBRARY_PATH=" + filepath.Join(dir, "lib-lacking"), GoConfig{}, false, 1},
		{"own-clock", "", GoConfig{OwnClock: true}, false, 1},
		{"callback-refused", "CUDASIM_CUPTI_CALLBACK_ERROR=1", GoConfig{}, false, 2},
		{"callback-never-called", "CUDASIM_CUPTI_IGNORE_CALLBACK=1", GoConfig{}, true, 1},
		{"callback-replaced", "CUDASIM_CUPTI_CALLBACK_CALLS=5000", GoConfig{}, true, 1},
		{"no-frame-pointers", "LD_LIBRARY_PATH=" + filepath.Join(dir, "lib-frameless"), GoConfig{}, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.config.FlushInterval = 10 * time.Millisecond
			s, seen := newSites(t, Options{}, test.config)
			s.runSim(t, "launchloop:", "launchloop", []string{test.set}, "-n", fmt.Sprint(n))
			if len(s.notes) != test.notes || !strings.Contains(strings.Join(s.notes, "\n"), "calls have no callers") {
				t.Errorf("notes %q", s.notes)
			}
			launch := "cudaLaunchKernel"
			if test.late {
				launch = "cuLaunchKernel"
			}
			if calls := sum(seen.callers[launch]); calls != n || s.counts["kernel"] != n {
				t.Errorf("%d calls of %d launches, callers %v, %v", calls, n, seen.callers, s.counts)
			}
		})
	}
}

func sum(counts map[uint32]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestFewChains runs more threads, and faster, than there is memory for: calls may lack their
// chains, and nothing else changes.
func TestFewChains(t *testing.T) {
	t.Parallel()
	s, seen := newSites(t, Options{}, GoConfig{MemoryLimit: 3 << 20})
	line := s.runSim(t, "counts", "threads", nil, "-t", "100", "-n", "500")
	var kernels uint64
	must.Get(fmt.Sscanf(line, "counts kernels=%d", &kernels))(t)
	if lost := s.lost[tracelog.LostCUPTIQueue] + s.lost[tracelog.LostCUPTIBuffer] + s.lost[tracelog.LostCUPTIDropped]; s.counts["kernel"]+lost < kernels {
		t.Errorf("%v of %s, lost %v, %d without a caller", s.counts, line, s.lost, seen.without)
	}
}

// TestChainsOfTheKilled ends programs without a goodbye.
func TestChainsOfTheKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"kill", "_exit", "segv", "abort", "exec", "quick-exit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for range 5 { // on a busy machine a program may be over before its first flush
				s, seen := newSites(t, Options{}, GoConfig{FlushInterval: 10 * time.Millisecond})
				s.run(t, play{simProgram(t, "exits"), []string{mode, "-n", "10000"}, nil})
				if len(seen.open) != 0 { // all of them end after a call
					t.Errorf("calls that have returned are open: %+v", seen.open)
				}
				if seen.without != 0 || len(s.ends) == 0 {
					t.Errorf("%d without a caller, %v, ends %+v", seen.without, s.counts, s.ends)
				}
				if s.counts["kernel"] > 0 {
					return
				}
			}
			t.Error("no run has a kernel")
		})
	}
}

// TestSanitizedChains runs the library built for a sanitizer.
func TestSanitizedChains(t *testing.T) {
	t.Parallel()
	dir := must.Get(sim())(t)
	built, env := sanitizedLibrary(t, "address")
	env = append(env, "ASAN_OPTIONS=exitcode=55:detect_leaks=0", "LD_LIBRARY_PATH="+filepath.Join(dir, "lib"))
	for _, program := range [][]string{{"many"}, {"launchloop", "-n", "5000", "-t", "4"}, {"threads", "-t", "20", "-n", "50"}} {
		s, seen := newSites(t, Options{library: built}, GoConfig{FlushInterval: 10 * time.Millisecond})
		_, stderr, code := s.run(t, play{simProgram(t, program[0]), program[1:], env})
		if code != 0 || stderr != "" || seen.without != 0 {
			t.Errorf("%q printed %q and ended with %d, %d calls have no caller", program, stderr, code, seen.without)
		}
	}
}
