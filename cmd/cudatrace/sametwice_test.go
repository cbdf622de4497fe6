package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/convert/timeline/timelinetest"
)

// recordingsVar is the number of recordings of tests that record one program several times.
const recordingsVar = "CUDATRACE_RECORDINGS"

// recordings returns how often a test records a program: as the environment wants, or a few times. long
// reports whether the environment says it.
func recordings(t *testing.T, few int) (n int, long bool) {
	text := os.Getenv(recordingsVar)
	if text == "" {
		return few, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < few {
		t.Fatalf("%s=%q: how many recordings, %d or more?", recordingsVar, text, few)
	}
	return n, true
}

// A repeated is a program of the simulated stack that is recorded several times.
type repeated struct {
	program []string
	idle    bool                          // no work of it is recorded
	other   bool                          // from a moment of its own on another client has CUPTI's records: recordings differ
	loose   func(description string) bool // a call that may be recorded or not
	// brief reports whether it uses CUDA for a moment in a cleaned environment. A look may miss that here, where CUDA
	// starts in 1 ms.
	brief bool
}

// The runtime's own calls when it starts: they are made in the thread that comes first.
var setUp = []string{"cuInit", "cuDevicePrimaryCtxRetain", "cuLibraryLoadData"}

// repeatedPrograms lists the programs of the simulated stack, but for those that need input.
func repeatedPrograms(t *testing.T) []repeated {
	programs, err := os.ReadDir(filepath.Join(simStack, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	with := func(args ...string) repeated { return repeated{program: args} }
	late := with("-m", "400") // libraries that a program opens are found by a look, now and then
	late.loose = func(d string) bool {
		return strings.Contains(d, "Synchronize of libplugin-bundled.so") || strings.Contains(d, "StreamCreate of libplugin-bundled.so")
	}
	replaced := with() // a program that ends this soon may lose the name of its first call
	replaced.loose = func(d string) bool { return strings.Contains(d, "Memset") || strings.HasPrefix(d, "work 2 ") }
	special := map[string][]repeated{
		"exits": {with("return")}, "hostile": nil, "inside": nil, "lives": nil, "longrun": nil, "nocuda": nil, "savings": nil,
		"launchloop":        {with("-n", "3000", "-t", "2", "-s", "3", "-k", "5")},
		"launchloop-static": {with("-n", "1000")},
		"threads":           {with(), with("-t", "8", "-n", "300")},
		"refused":           {{idle: true}, with("-l", "9", "--threads")},
		"late":              {late},
		"replaced":          {replaced},
		"functions":         {{brief: true}},
		"kineto":            {{other: true}}, "kineto-lazy": {{other: true}}, "kineto-now": {{other: true}}, "kineto-clock": {{other: true}},
	}
	var list []repeated
	for _, p := range programs {
		runs, known := special[p.Name()]
		if !known {
			runs = []repeated{{}}
		}
		for _, r := range runs {
			r.program = append([]string{p.Name()}, r.program...)
			list = append(list, r)
		}
	}
	return list
}

// TestSameEachTime records each program several times, one by one and also beside programs that use all processors: each thread
// makes the same calls in the same places with the same results, and each call causes the same work, which begins later.
func TestSameEachTime(t *testing.T) {
	t.Parallel()
	n, long := recordings(t, 2)
	if !long {
		t.Skip(recordingsVar + " does not say how often: make test-long does")
	}
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy=%t", busy), func(t *testing.T) {
			if busy {
				keepBusy(t)
			}
			for _, p := range repeatedPrograms(t) {
				t.Run(strings.Join(p.program, " "), func(t *testing.T) {
					t.Parallel()
					p.record(t, n)
				})
			}
		})
	}
}

// record records the program n times, and compares the recordings.
func (p *repeated) record(t *testing.T, n int) {
	folder := t.TempDir()
	var first string
	var want []string
	for i := range n {
		base := filepath.Join(folder, fmt.Sprint(i))
		log := base + ".cudatrace"
		args := append([]string{"record", "-q", "--no-convert", "-o", base, sim(p.program[0])}, p.program[1:]...)
		if out, err := exec.Command("cudatrace", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		s, got := described(t, log, p)
		if s.Early != 0 || !p.other && (s.Unmatched != 0 || (s.Matched == 0) != p.idle) {
			t.Errorf("%d pieces of work begin before their call, %d have none, %d have one", s.Early, s.Unmatched, s.Matched)
		}
		if p.other {
			continue
		}
		if !s.Complete && !p.brief {
			t.Errorf("recording %d is not complete: %q", i, s.Reasons)
		}
		if i == 0 {
			first, want = log, got
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("recording %d (-first +this):\n%s", i, diff)
		}
		if p.loose == nil {
			sameCounts(t, first, log)
		}
		if err := os.Remove(log); err != nil {
			t.Error(err)
		}
	}
}

// described returns for each thread of a log how often it has each call and each piece of work that its calls
// caused. Work without a call counts as that of one more thread, and so do the calls of setUp. The threads are in order, since their
// numbers differ from run to run.
func described(t *testing.T, path string, p *repeated) (convert.Summary, []string) {
	t.Helper()
	c := timelinetest.NewCollector(t)
	all, err := convert.Timeline([]convert.Log{convert.Path(path)}, convert.Options{}, c)
	if err != nil {
		t.Fatal(err)
	}
	threads, work := map[*timeline.Thread]map[string]int{}, map[string]bool{}
	count := func(thread *timeline.Thread, description string) {
		if p.loose != nil && p.loose(description) {
			return
		}
		if threads[thread] == nil {
			threads[thread] = map[string]int{}
		}
		threads[thread][description]++
	}
	for _, p := range c.Timeline().Processes {
		for _, thread := range p.Threads {
			for i := range thread.Slices {
				sl := &thread.Slices[i]
				ending, text := sl.Ending()
				of := thread.Thread
				if slices.Contains(setUp, sl.Name) {
					of = nil
				}
				count(of, fmt.Sprintf("%s of %s %s %s, %d pieces of work", sl.Name, place(sl.Caller), ending, text, len(sl.Work())))
			}
		}
		for _, s := range p.Streams {
			for i := range s.Work {
				w := &s.Work[i]
				name := w.Shape.Kernel.Name
				if w.Kind != timeline.KernelWork {
					name = fmt.Sprintf("work %d of %d and %d bytes", w.Kind, w.Shape.Memcpy.Bytes, w.Shape.Memset.Bytes)
				}
				call := "no call"
				if w.Call.Function != nil {
					work[filepath.Base(p.Args[0])] = true
					call = w.Call.Name + " of " + place(w.Call.Caller)
				}
				count(w.Call.Thread, name+" of "+call)
			}
		}
	}
	if name := p.program[0]; work[name] == p.idle && !p.other {
		t.Errorf("%s: calls have work: %t", name, work[name])
	}
	var texts []string
	for thread, counts := range threads {
		var b strings.Builder
		if thread == nil {
			b.WriteString("without a thread\n")
		}
		for _, description := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "%d %s\n", counts[description], description)
		}
		texts = append(texts, b.String())
	}
	slices.Sort(texts)
	return all[0], texts
}

// place is where a call was made.
func place(c *timeline.Caller) string {
	if c == nil {
		return "an unknown place"
	}
	return fmt.Sprintf("%s: %s+%#x", c.File(), c.Symbol, c.SymbolOffset)
}

// sameCounts checks that diff finds no count that differs between two logs.
func sameCounts(t *testing.T, base, other string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cudatrace", "diff", base, other, "--allow-incomplete", "--format", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var d map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for table, rows := range d {
		rows, _ := rows.([]any)
		for _, row := range rows {
			row, _ := row.(map[string]any)
			name, _ := row["name"].(string)
			if strings.HasPrefix(name, "step_") {
				continue // a share of a period that is found by times
			}
			for _, column := range []string{"", "_count", "_bytes"} {
				was, is := row["base"+column], row["new"+column]
				if column == "" && !strings.HasSuffix(name, "_count") && name != "failed_calls" && name != "copy_bytes" {
					continue
				}
				compared++
				if was != is {
					t.Errorf("diff, %s: %s%s was %v and is %v", table, name, column, was, is)
				}
			}
		}
	}
	if compared == 0 {
		t.Errorf("diff has no counts:\n%s", &stdout)
	}
}

// keepBusy runs more programs than there are processors until the test ends.
func keepBusy(t *testing.T) {
	for range 2 * runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}
