package cupti

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// runSim runs a program of the simulated stack, which must end well, and returns
// its line that starts with a word.
func (s *stage) runSim(t *testing.T, line, program string, env []string, arg ...string) string {
	t.Helper()
	stdout, stderr, code := s.run(t, play{simProgram(t, program), arg, env})
	if code != 0 || stderr != "" {
		t.Fatalf("the program printed %q and %q and ended with %d", stdout, stderr, code)
	}
	for l := range strings.Lines(stdout) {
		if strings.HasPrefix(l, line+" ") {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("the program printed %q, without %q", stdout, line)
	return ""
}

// marks is a sink that keeps markers and names.
type marks struct {
	*tally
	ends   map[uint32]int // by the ID of a range: 1 started, 0 ended
	counts [3]int         // ranges, marks, names
}

func (s *marks) Add(r tracelog.Record) {
	s.tally.Add(r)
	switch r := r.(type) {
	case *tracelog.Marker:
		s.mark(r)
	case *tracelog.Name:
		s.counts[2]++
	}
}

func (s *marks) mark(r *tracelog.Marker) {
	switch r.Flags &^ 8 {
	case tracelog.MarkerInstant:
		s.counts[1]++
	case tracelog.MarkerStart:
		s.counts[0]++
		s.ends[r.ID]++
	case tracelog.MarkerEnd:
		s.ends[r.ID]--
	}
}

// TestSimulatedNVTX holds what arrives against what the program says it marked.
func TestSimulatedNVTX(t *testing.T) {
	t.Parallel()
	m := &marks{tally: newTally(), ends: map[uint32]int{}}
	s := newStage(t, Options{Sink: m}, GoConfig{})
	s.tally = m.tally
	var ranges, instants, names, open int
	line := s.runSim(t, "nvtx", "nvtx", nil)
	must.Get(fmt.Sscanf(line, "nvtx ranges=%d marks=%d names=%d open=%d", &ranges, &instants, &names, &open))(t)
	if got := [3]int{ranges, instants, names}; got != m.counts || ranges == 0 {
		t.Errorf("%v arrived, want %v", m.counts, got)
	}
	for _, n := range m.ends {
		open -= n
	}
	if open != 0 || len(s.lost) != 0 || len(s.notes) != 0 {
		t.Errorf("%d ranges too few are open, %v was lost, notes %q", open, s.lost, s.notes)
	}
}

// TestSimulatedNVTXChild has a program use NVTX and fork; its child starts CUDA, and is recorded.
func TestSimulatedNVTXChild(t *testing.T) {
	t.Parallel()
	m := &marks{tally: newTally(), ends: map[uint32]int{}}
	s := newStage(t, Options{Sink: m}, GoConfig{})
	s.tally = m.tally
	line := s.runSim(t, "counts", "nvtx", nil, "-e", "1", "-f", "1")
	if len(s.peers) != 1 || s.counts["kernel"] == 0 || !strings.Contains(line, fmt.Sprintf(" kernels=%d ", s.counts["kernel"])) {
		t.Errorf("of %q %d kernels of %d processes arrived", line, s.counts["kernel"], len(s.peers))
	}
	if m.counts[0] == 0 || len(s.lost) != 0 || len(s.notes) != 0 {
		t.Errorf("%d ranges arrived, %v was lost, notes %q", m.counts[0], s.lost, s.notes)
	}
}

// TestSimulatedClient has a program that becomes a CUPTI client in between: each
// record of a kernel goes to the one or the other. In the hour before the next look for a client, the
// program ends.
func TestSimulatedClient(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{10 * time.Millisecond, time.Hour} {
		t.Run(interval.String(), func(t *testing.T) {
			t.Parallel()
			testSimulatedClient(t, GoConfig{FlushInterval: interval, WatchClients: true})
		})
	}
}

func testSimulatedClient(t *testing.T, c GoConfig) {
	const n = 20000
	s := newStage(t, Options{}, c)
	line := s.runSim(t, "kineto", "kineto", nil, "-n", fmt.Sprint(n))
	var own, earlier uint64
	must.Get(fmt.Sscanf(line, "kineto kernels=%d earlier=%d", &own, &earlier))(t)
	arrived := s.counts["kernel"] + s.lost[tracelog.LostCUPTIQueue]
	if arrived == 0 || own == 0 || arrived+own+earlier < 2*n || arrived+own+earlier > 3*n {
		t.Errorf("%q, and %d arrived", line, arrived)
	}
	if len(s.notes) != 1 || s.ends[0].Complete == 1 {
		t.Errorf("notes %q, the end is %+v", s.notes, s.ends)
	}
}

// TestSimulatedReleases runs on CUPTIs that are broken as releases are known to be:
// times are right within the error that is stated, or counted as lost.
func TestSimulatedReleases(t *testing.T) {
	t.Parallel()
	const n = 2000
	tests := []struct {
		set   string
		lost  map[string]uint64
		exact bool // no error of the clock
	}{
		{"CUDASIM_CUPTI_GPU_REALTIME=1", nil, false},
		{"CUDASIM_CUPTI_DROP_EVERY=100", map[string]uint64{tracelog.LostCUPTIDropped: n / 100}, true},
		{"CUDASIM_CUPTI_ZERO_EVERY=100", map[string]uint64{tracelog.LostCUPTITime: n / 100}, true},
		{"CUDASIM_CUPTI_SLOW_FLUSH_MS=50", nil, true},
		{"CUDASIM_CUPTI_NULL_ABORTS=1", nil, true},
		{"CUDASIM_CUPTI_VERSION=26", nil, true},
	}
	for _, test := range tests {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{})
			begin := monotonic()
			s.run(t, play{simProgram(t, "launchloop"), []string{"-n", fmt.Sprint(n), "-t", "2"}, []string{test.set}})
			if want := n - test.lost[tracelog.LostCUPTIDropped]; s.counts["kernel"] != want || s.counts["api"] != n {
				t.Errorf("%v arrived", s.counts)
			}
			if len(s.lost) != len(test.lost) {
				t.Errorf("%v was lost, want %v", s.lost, test.lost)
			}
			for cause, want := range test.lost {
				if s.lost[cause] != want {
					t.Errorf("%v was lost, want %v", s.lost, test.lost)
				}
			}
			s.located(t, begin)
			if test.lost[tracelog.LostCUPTITime] == 0 {
				s.onOneClock(t, begin)
			}
			if exact := s.status().ClockError == 0; exact != test.exact {
				t.Errorf("the clock's error is %d", s.status().ClockError)
			}
		})
	}
}

// TestSimulatedNVTXRanges records within NVTX ranges of a name, on all threads, without a subscription, whatever form
// the name has. What may have been missed is said: more domains of the name than are known, and no word of those that are
// just enough.
func TestSimulatedNVTXRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program string
		within  pattern.Ranges
		kernels uint64
		note    string
	}{
		{"nvtx -n 20", pattern.Ranges{Name: "step"}, 60, ""},
		{"nvtx -n 20", pattern.Ranges{Name: "forward", Domain: "*"}, 60, ""},
		{"nvtx -n 20", pattern.Ranges{Name: "inner", Domain: "model"}, 0, ""},
		{"nvtx -n 20", pattern.Ranges{Name: "across threads"}, 1, ""},
		{"steps -f 0", pattern.Ranges{Name: "step 7"}, 2, ""},
		{"steps -f 1", pattern.Ranges{Name: "step#7"}, 2, ""},
		{"steps -f 2", pattern.Ranges{Name: "step_7", Domain: "model"}, 2, ""},
		{"steps -f 3", pattern.Ranges{Name: "step:7"}, 2, ""},
		{"steps -f 4", pattern.Ranges{Name: "step"}, 40, ""},
		{"steps -f 5", pattern.Ranges{Name: "step, seq = 7", Domain: "*"}, 2, ""},
		{"steps -f 6", pattern.Ranges{Name: "step"}, 40, ""},
		{"steps -f 2", pattern.Ranges{Name: "s*p", Domain: "*"}, 40, ""},
		{"steps -f 2 -d 64", pattern.Ranges{Name: "step_7", Domain: "model"}, 2, ""},
		{"steps -f 2 -d 65", pattern.Ranges{Name: "step_7", Domain: "model"}, 0, "more than 64 domains match"},
	} {
		s := newStage(t, Options{Within: c.within}, GoConfig{})
		words := strings.Fields(c.program)
		s.runSim(t, map[string]string{"nvtx": "nvtx", "steps": "counts"}[words[0]], words[0], nil, words[1:]...)
		notes := strings.Join(s.notes, "; ")
		said := (notes == "") == (c.note == "") && strings.Contains(notes, c.note)
		if got := s.counts["kernel"]; got != c.kernels || len(s.lost) != 0 || !said {
			t.Errorf("%s, %+v: %d kernels, want %d; notes %q, want %q; %v was lost", c.program, c.within, got, c.kernels,
				notes, c.note, s.lost)
		}
	}
}

// TestSimulatedRangeMissed records a range on a CUPTI whose callback does not tell who calls: that the range has begun
// is noticed by its record.
func TestSimulatedRangeMissed(t *testing.T) {
	t.Parallel()
	dir := must.Get(sim())(t)
	s, _ := newSites(t, Options{}, GoConfig{CaptureRange: true, FlushInterval: 20 * time.Millisecond})
	frameless := []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib-frameless")}
	line := s.runSim(t, "counts", "profiler", frameless, "-u", "1")
	var all int
	must.Get(fmt.Sscanf(line, "counts kernels=%d", &all))(t)
	if got := int(s.counts["kernel"]); got == 0 || got >= all {
		t.Errorf("%d kernels of %d", got, all)
	}
	if !strings.Contains(strings.Join(s.notes, "\n"), "noticed late") {
		t.Errorf("notes %q", s.notes)
	}
}

// TestSimulatedMemory has memory of all kinds allocated and freed, and pools made: no record of memory arrives that was
// not asked for.
func TestSimulatedMemory(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	s.runSim(t, "counts", "functions", nil)
	if s.counts["memory"] != 0 || s.counts["memory_pool"] == 0 || len(s.lost) != 0 {
		t.Errorf("%v arrived, %v was lost", s.counts, s.lost)
	}
	if p := s.last["memory_pool"].(tracelog.MemoryPool); p.Address == 0 || p.Time == 0 || p.Operation == 0 {
		t.Errorf("a pool as %+v", p)
	}
}
