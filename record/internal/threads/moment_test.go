package threads

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"encoding/json"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// marked runs functions one after the other, and writes down when: each ran between its two marks, in ns of CLOCK_MONOTONIC.
// "made" makes a new function each time, of code that differs by its name alone and takes the place of the one before it.
const marked = `import json, sys, time
clock, spent = time.monotonic_ns, time.thread_time
def one():
    end = clock() + 1000000
    while clock() < end: pass
def two():
    end = clock() + 1000000
    while clock() < end: pass
def three():
    end = clock() + 1000000
    while clock() < end: pass
def make(n):
    space = {"clock": clock}
    exec(f"def made{n:06}():\n    end = clock() + 5000000\n    while clock() < end: pass", space)
    return space[f"made{n:06}"]
marks, n = [], 0
print("ready", flush=True)
sys.stdin.readline()
end = spent() + float(sys.argv[3])
while spent() < end:
    for f in (one, two, three) if sys.argv[2] == "fixed" else (make(n),):
        name, begun = f.__name__, clock()
        f()
        marks.append((name, begun, clock()))
        f, n = None, n + 1
with open(sys.argv[1], "w") as f:
    json.dump(marks, f)
print("done", flush=True)
sys.stdin.readline()
`

// seconds is how long a program computes: about 250 samples and as many calls of functions, or 100 of new ones. A line
// that is read late is as often wrong as in 750 samples of functions of three times the length.
var seconds = map[string]string{"fixed": "0.25", "made": "0.5"}

// A mark is when a function ran.
type mark struct{ from, to uint64 }

// runMarked records a program, and returns how many of its samples have a line of a marked function, how many have one that did
// not run within an age after the sample, and how many there are.
func runMarked(t *testing.T, p pythontest.Interpreter, kind string, age time.Duration, change func(*Recorder)) (seen, wrong, all int, notes []string) {
	t.Helper()
	r := &recording{t: t}
	var err error
	if r.w, err = tracelog.NewWriter(&r.log, tracelog.Options{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var functions []string
	r.Recorder = Start(Options{Log: r.w, Rate: rateMost, Python: true, Note: r.note, Remark: r.note,
		Stack: func(_ uint32, f tracelog.PythonFrame) (uint32, bool) {
			mu.Lock()
			defer mu.Unlock()
			functions = append(functions, f.Function)
			return uint32(len(functions)), true
		}})
	t.Cleanup(r.End)
	if change != nil {
		r.do(func() { change(r.Recorder) })
	}
	path := filepath.Join(t.TempDir(), "marks")
	pid, in, out := program(t, 0, p.Path, "-c", marked, path, kind, seconds[kind])
	must.Get(out.ReadString('\n'))(t)
	r.Begin(uint32(pid), nil)
	r.await(pid, pid, "recorded", func(*thread) bool { return true })
	must.Get(in.Write([]byte("\n")))(t)
	must.Get(out.ReadString('\n'))(t)
	w := r.end()
	b := must.Get(os.ReadFile(path))(t)
	var list [][3]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	must.Do(t, d.Decode(&list))
	number := func(x any) uint64 { n, _ := x.(json.Number).Int64(); return uint64(n) }
	marks := map[string][]mark{}
	first, last := number(list[0][1]), number(list[len(list)-1][2])
	for _, m := range list {
		name := m[0].(string)
		marks[name] = append(marks[name], mark{number(m[1]), number(m[2])})
	}
	for _, s := range w.samples {
		if s.Time < first || s.Time > last {
			continue
		}
		all++
		if s.Python == 0 {
			continue
		}
		ran, known := marks[functions[s.Python-1]]
		if !known { // the program's own loop
			continue
		}
		seen++
		right := false
		for _, m := range ran {
			right = right || m.from <= s.Time+uint64(age) && s.Time <= m.to
		}
		if !right {
			wrong++
		}
	}
	return seen, wrong, all, r.notes
}

// The Python line of a sample is that of its moment.
func TestPythonOfTheMoment(t *testing.T) {
	must.BeRoot(t)
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		seen, wrong, all, notes := runMarked(t, p, "fixed", 0, nil)
		t.Logf("%d samples, %d with a line, %d of them wrong", all, seen, wrong)
		if wrong > 0 || all < 100 || 10*seen < 9*all {
			t.Errorf("%d samples, %d with a line, %d of them wrong; %q", all, seen, wrong, notes)
		}
	})
}

// Code that took the place of other code has its own name, or none.
func TestPythonOfReplacedCode(t *testing.T) {
	must.BeRoot(t)
	pythontest.OldestAndNewest(t, func(t *testing.T, p pythontest.Interpreter) {
		seen, wrong, all, notes := runMarked(t, p, "made", 0, nil)
		t.Logf("%d samples, %d with a line, %d of them wrong", all, seen, wrong)
		if wrong > 0 || seen == 0 {
			t.Errorf("%d samples, %d with a line, %d of them wrong; %q", all, seen, wrong, notes)
		}
	})
}

// Without the kernel's reading, lines are those of at most 200 µs later, or there are none and that is said. On a busy
// machine the recorder may come too late for all samples of a run.
func TestPythonReadFromOutside(t *testing.T) {
	pythontest.OldestAndNewest(t, func(t *testing.T, p pythontest.Interpreter) {
		for range 20 {
			seen, wrong, all, notes := runMarked(t, p, "fixed", maxAge, func(r *Recorder) { r.mayUseKernel = false })
			t.Logf("%d samples, %d with a line, %d of them wrong; %q", all, seen, wrong, notes)
			if wrong > 0 {
				t.Errorf("%d samples, %d with a line, %d of them wrong; %q", all, seen, wrong, notes)
			}
			if 10*seen < 8*all && !strings.Contains(strings.Join(notes, "\n"), "line not seen: ") {
				t.Errorf("%d of %d samples have no line, and no note says so: %q", all-seen, all, notes)
			}
			if seen > 0 {
				return
			}
		}
		t.Error("no sample has a line")
	})
}
