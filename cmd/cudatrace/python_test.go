package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
	"github.com/cudatrace/cudatrace/record/recordtest"
)

// pythonLaunches reads the launches of a log with the frames above them, in order of time.
func pythonLaunches(t *testing.T, path string) (all []pythontest.Launch, lost uint64) {
	t.Helper()
	var launches pythontest.Launches
	recordtest.Each(t, recordtest.Open(t, path), launches.Add)
	return launches.All(), launches.Lost
}

// TestPythonLines compares the Python frames of each launch with those that the interpreter itself sees.
func TestPythonLines(t *testing.T) {
	t.Parallel()
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	shown := all[len(all)-1] // what is made of a log is the same for all
	one := func(t *testing.T, f func(*testing.T, pythontest.Interpreter)) { f(t, shown) }
	for _, c := range []struct {
		scenarios string // of one program, in this order
		options   []string
		all       bool                                                       // each launch has frames
		with      func(*testing.T, func(*testing.T, pythontest.Interpreter)) // those whose frames differ
	}{
		{"forms,successors", nil, true, pythontest.Each},
		{"forks,evaluators,stacks,wander,hot", nil, true, pythontest.OldestAndNewest},
		{"threads", []string{"--calls", "cupti"}, false, one}, // threads meet in the tables
		{"discards", nil, false, one},                         // the table of code objects is full at last
	} {
		t.Run(c.scenarios, func(t *testing.T) {
			helper := hostileHelper(t)
			c.with(t, func(t *testing.T, p pythontest.Interpreter) {
				dir := t.TempDir()
				base, truth := filepath.Join(dir, "run"), filepath.Join(dir, "truth.json")
				args := append([]string{"record", "--python", "auto", "--no-convert", "-o", base}, c.options...)
				said, err := pythonCommand("cudatrace", append(args, p.Path, "testdata/python/lines.py", c.scenarios, truth, helper)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				got, lost := pythonLaunches(t, base+".cudatrace")
				want := pythontest.Truth(t, truth)
				framed := pythontest.Compare(t, got, want)
				if framed+int(lost) != len(want) || c.all && lost != 0 || framed < min(len(want)/3, 2500) ||
					c.scenarios == "discards" && lost == 0 {
					t.Errorf("%d of %d launches have frames, %d are said to have none\n%s", framed, len(want), lost, said)
				}
				if c.scenarios == "forms,successors" && p == shown {
					checkPythonShown(t, base, want)
				}
			})
		})
	}
}

// pythonCommand runs a program that finds the simulated CUDA stack.
func pythonCommand(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(simStack, "lib"), "PYTHONDONTWRITEBYTECODE=1",
		"PYTHON_JIT=1")
	return cmd
}

// checkPythonShown converts a recording: calls and GPU work have the line that launched them.
func checkPythonShown(t *testing.T, base string, launches []pythontest.Launch) {
	t.Helper()
	var want, functions []any
	for _, l := range launches {
		line, first, _ := strings.Cut(l.Frames[0], " (from ")
		want = append(want, line)
		_, name, _ := strings.Cut(line, " ")
		around := min(len(l.Frames)-1, pythontest.MostFrames)
		functions = append(functions, fmt.Sprintf("lines.py(%s: %s, %d around it", first, name, around))
	}
	tr := (&recording{base: base}).trace(t)
	for _, query := range []string{
		`select extract_arg(arg_set_id, 'debug.python') from slice
			where name glob '*Memset*' and category in ('driver', 'runtime') and depth = 0 order by ts`,
		`select extract_arg(arg_set_id, 'python') from gpu_slice order by ts`,
	} {
		var got []any
		for _, row := range tr.Values(query) {
			got = append(got, row[0])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", query, got, want)
		}
	}
	// The innermost function around each call, on the thread's track.
	var around []any
	for _, row := range tr.Values(`with calls as (select s.ts, s.dur, utid from slice s join thread_track k
			on s.track_id = k.id where s.name glob '*Memset*' and category in ('driver', 'runtime') and depth = 0),
		functions as (select s.ts, s.dur, s.depth, s.name, utid from slice s join thread_track k
			on s.track_id = k.id where category = 'python')
		select f.name || ', ' || max(f.depth) || ' around it' from calls c join functions f using (utid)
		where f.ts <= c.ts and f.ts + f.dur >= c.ts + c.dur group by c.ts order by c.ts`) {
		around = append(around, row[0])
	}
	if !slices.Equal(around, functions) {
		t.Errorf("functions around calls:\n got %v\nwant %v", around, functions)
	}
	checkPythonStats(t, base+".cudatrace", launches)
}

// checkPythonStats compares the report of Python lines, and its folded stacks, with what a program of 1 us a launch says of its launches.
func checkPythonStats(t *testing.T, log string, launches []pythontest.Launch) {
	t.Helper()
	type use struct{ own, inclusive float64 }
	want, folds := map[string]use{}, map[string]int{}
	for _, l := range launches {
		frames := l.Frames
		if len(frames) > pythontest.MostFrames {
			frames = append(frames[:pythontest.MostFrames:pythontest.MostFrames], pythontest.LeftOut)
		}
		seen, stack := map[string]bool{}, []string{}
		for i, frame := range frames {
			line, _, _ := strings.Cut(strings.TrimPrefix(strings.Replace(frame, ":0 ", "", 1), ":"), " (from ")
			stack = append(stack, line)
			if i > 0 && (seen[line] || strings.Contains(line, "/lib/python3.") || strings.HasPrefix(line, "(")) {
				continue
			}
			seen[line] = true
			u := want[line]
			if u.inclusive++; i == 0 {
				u.own++
			}
			want[line] = u
		}
		slices.Reverse(stack)
		folds[strings.Join(stack, ";")] += 1000
	}
	var report struct {
		Python []struct {
			Name      string
			Own       float64 `json:"count"`
			NS        float64 `json:"total_ns"`
			Inclusive float64 `json:"inclusive_count"`
		}
		Notes map[string][]string
	}
	must.Do(t, json.Unmarshal([]byte(printedStats(t, log, "--format", "json")), &report))
	got := map[string]use{}
	for _, row := range report.Python {
		if row.Inclusive == 0 { // of waits alone
			continue
		}
		if got[row.Name] = (use{row.Own, row.Inclusive}); row.NS != 1000*row.Own {
			t.Errorf("%s: %v ns of %v launches", row.Name, row.NS, row.Own)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(use{})); diff != "" {
		t.Errorf("lines (-program +report):\n%s", diff)
	}
	if notes := strings.Join(report.Notes["python"], "; "); !strings.Contains(notes, fmt.Sprintf("100.0 %% of %d launches have a Python frame", len(launches))) || !strings.Contains(notes, "most GPU time") {
		t.Errorf("notes %q", notes)
	}
	lines := map[string]int{}
	for line := range strings.Lines(printedStats(t, log, "--report", "python", "--format", "folded")) {
		space := strings.LastIndexByte(line, ' ')
		ns := must.Get(strconv.Atoi(strings.TrimSpace(line[space+1:])))(t)
		lines[line[:space]] = ns
	}
	if diff := cmp.Diff(folds, lines); diff != "" {
		t.Errorf("folded stacks (-program +report):\n%s", diff)
	}
}

// unknownPython builds a library that looks like a Python whose frames are not known.
func unknownPython(t *testing.T) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libpython3.99.so.1.0")
	gcc := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	gcc.Stdin = strings.NewReader("unsigned long Py_Version = 0x036300f0; char _PyRuntime[64], PyCode_Type[64]; void PyGILState_GetThisThreadState(void) {}")
	must.Run(t, gcc)
	return library
}

// TestPythonDefault records Python lines without being asked. Who has not asked for them hears only of a Python that is not known, once;
// who has asked hears why there are none.
func TestPythonDefault(t *testing.T) {
	t.Parallel()
	interpreters := pythontest.All(t)
	if len(interpreters) == 0 {
		t.Skip("no Python here")
	}
	known := []string{interpreters[0].Path, "testdata/python/holds.py"}
	unknown := "LD_PRELOAD=" + unknownPython(t) + " " + sim("vectoradd")
	twice := []string{"sh", "-c", unknown + "; " + unknown}
	compiled := []string{sim("vectoradd")}
	broken := []string{"env", "LD_LIBRARY_PATH=" + filepath.Join(simStack, "lib-broken"), sim("vectoradd")}
	const whole = "cudatrace: Python lines of calls are not recorded: "
	const version = "is CPython 3.99.0; frames of 3.9 to 3.15 are known"
	for name, c := range map[string]struct {
		options string
		program []string
		lines   bool
		said    []string // of each line about Python lines
	}{
		"default":           {"", known, true, nil},
		"off":               {"--python off", known, false, nil},
		"no GPU":            {"--gpu none", known, false, nil},
		"no GPU, asked":     {"--gpu none --python auto", known, false, []string{whole + "they come with CUPTI's records"}},
		"no CUPTI":          {"", broken, false, nil},
		"no CUPTI, asked":   {"--python auto", broken, false, []string{": CUPTI cannot record the GPU work and Python lines of", "not complete: CUPTI cannot record"}},
		"compiled, asked":   {"--python auto", compiled, false, nil},
		"unknown":           {"", twice, false, []string{version}},
		"unknown, asked":    {"--python auto", twice, false, []string{version, version}},
		"attached, asked":   {"--python auto -p", nil, false, []string{whole + "of programs that run already only armed ones have them, with --detach"}},
		"attached, unasked": {"-p", nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "run")
			args := append([]string{"record", "-q", "--no-convert", "-o", log}, strings.Fields(c.options)...)
			if c.program == nil {
				args = append(args, fmt.Sprint(startLongrun(t, "100000").Pid), "-d", "10ms")
			}
			var stderr strings.Builder
			cmd := pythonCommand("cudatrace", append(args, c.program...)...)
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			var said []string
			for line := range strings.Lines(stderr.String()) {
				if strings.Contains(line, "Python lines") {
					said = append(said, strings.TrimSpace(line))
				}
			}
			if !slices.EqualFunc(said, c.said, strings.Contains) {
				t.Errorf("it said %q", said)
			}
			launches, _ := pythonLaunches(t, log+".cudatrace")
			if lines := slices.ContainsFunc(launches, func(l pythontest.Launch) bool { return len(l.Frames) > 0 }); lines != c.lines {
				t.Errorf("launches have Python lines: %t", lines)
			}
		})
	}
}

// printedStats returns what stats prints of a log.
func printedStats(t *testing.T, log string, args ...string) string {
	t.Helper()
	stdout, _ := succeed(t, append([]string{"stats", "--with-startup", log}, args...)...)
	return stdout
}

// The folded form is of one report that has stacks, and says beside them how many launches have a frame.
func TestStatsFolded(t *testing.T) {
	t.Parallel()
	log := textLog(t, "python")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cudatrace", "stats", log, "--format", "folded", "--with-startup"}, &stdout, &stderr); code != 0 ||
		!strings.Contains(stdout.String(), "/home/ann/train.py:40 main;/home/ann/train.py:7 step;/venv/lib/python3.12/site-packages/torch/nn/functional.py:2317 linear 300\n") ||
		!strings.Contains(stderr.String(), "python: 75.0 % of 4 launches have a Python frame: too few to say") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	for args, want := range map[string]string{
		"--report kernels":        "needs --report with one of callers, python, operators",
		"--report callers,python": "needs --report with one of callers, python, operators",
		"--top 3":                 "--top does not apply",
		"--report callers":        "callers: callers were not recorded",
	} {
		stdout.Reset()
		stderr.Reset()
		if code := run(append([]string{"cudatrace", "stats", log, "--format", "folded"}, strings.Fields(args)...), &stdout, &stderr); code == 0 || stdout.Len() > 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", args, code, &stdout, &stderr)
		}
	}
	want := strings.Join([]string{
		"Net.forward;aten::linear;aten::addmm;aten::copy_;copy 1500", "Net.forward;aten::linear;aten::addmm;gemm 3000",
		"Optimizer.step#AdamW.step;aten::add_;add 1500", "Optimizer.step#AdamW.step;aten::mul_;mul 3000",
		"Optimizer.step#AdamW.step;fused 1500", "backward;Net.forward;AddmmBackward0;aten::mm;gemm 4500",
		"backward;Net.forward;AddmmBackward0;aten::sum;reduce 1500", ""}, "\n")
	operators := textLog(t, "python/operators")
	if got := printedStats(t, operators, "--report", "operators", "--format", "folded", "--with-startup"); got != want {
		t.Errorf("stacks of operators: %s", got)
	}
	if said := printedStats(t, gpuLog, "--report", "python"); said != "python: the log has no Python frames: docs/calls.md says when there are none\n" {
		t.Errorf("of a log without frames it says %s", said)
	}
	if said := printedStats(t, gpuLog); strings.Contains(said, "python:") {
		t.Errorf("unasked it says of a log without frames\n%s", said)
	}
}

// TestPythonDamaged has the interpreter's memory damaged in hundreds of ways during a launch each: the program does not notice, and later
// launches have their frames.
func TestPythonDamaged(t *testing.T) {
	t.Parallel()
	library := filepath.Join(t.TempDir(), "poke.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, "testdata/python/poke.c", "-L"+filepath.Join(simStack, "lib"), "-l:libcudart.so.13").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		base := filepath.Join(t.TempDir(), "run")
		said, err := pythonCommand("cudatrace", "record", "-q", "--python", "auto", "--no-convert", "-o", base, p.Path, "testdata/python/poke.py", library).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		got, _ := pythonLaunches(t, base+".cudatrace")
		if want := strings.TrimSpace(string(said)); fmt.Sprint(len(got)) != want {
			t.Fatalf("%d launches; the program said %s", len(got), want)
		}
		for _, l := range got[len(got)-10:] {
			if len(l.Frames) != 1 || !strings.Contains(l.Frames[0], "poke.py") {
				t.Errorf("a launch behind the damage has the frames %q", l.Frames)
			}
		}
	})
}

// TestPythonHolders records what allocates, frees and waits: it has its line whatever tells of it, and is one call.
func TestPythonHolders(t *testing.T) {
	t.Parallel()
	interpreters := pythontest.All(t)
	if len(interpreters) == 0 {
		t.Skip("no Python here")
	}
	oldest, newest := interpreters[0].Path, interpreters[len(interpreters)-1].Path
	for i, c := range []struct{ interpreter, options string }{
		{oldest, ""}, {newest, ""}, {newest, "--calls uprobe"}, {newest, "--last 1h"}, {newest, "--calls cupti"},
	} {
		t.Run(fmt.Sprint(i, " ", c.options), func(t *testing.T) {
			t.Parallel()
			var report struct {
				Holders []struct {
					Python string
					Bytes  float64 `json:"peak_bytes"`
				} `json:"memory_holders"`
				Calls []struct {
					Name  string
					Count int
				}
			}
			recorded := func(program ...string) string {
				log := filepath.Join(t.TempDir(), "run")
				args := append([]string{"record", "-q", "--no-convert", "-o", log}, strings.Fields(c.options)...)
				must.Run(t, pythonCommand("cudatrace", append(append(args, c.interpreter), program...)...))
				return log + ".cudatrace"
			}
			said := printedStats(t, recorded("testdata/python/holds.py"), "--report", "memory_holders,python,calls",
				"--format", "json")
			must.Do(t, json.Unmarshal([]byte(said), &report))
			if h := report.Holders; len(h) != 2 || !strings.HasSuffix(h[0].Python, "holds.py:9 hold") || h[0].Bytes != 2*4096 ||
				!strings.HasSuffix(h[1].Python, "holds.py:15 hold_on_host") {
				t.Errorf("holders %+v", h)
			}
			calls := map[string]int{}
			for _, c := range report.Calls {
				calls[c.Name] = c.Count
			}
			delete(calls, "cuDevicePrimaryCtxRetain")
			if want := map[string]int{"cudaMalloc": 2, "cudaMallocHost": 1, "cudaMemset": 3, "cudaDeviceSynchronize": 3,
				"cudaFree": 2, "cudaFreeHost": 1}; !maps.Equal(calls, want) {
				t.Errorf("calls %v", calls)
			}
			for _, text := range []string{"holds.py:20 wait", "100.0 % of 3 waits have a Python frame",
				"100.0 % of 3 allocations have a Python frame"} {
				if !strings.Contains(said, text) {
					t.Errorf("it does not say %q:\n%s", text, said)
				}
			}
			// A program that does nothing else.
			script := "from ctypes import *\nCDLL('libcudart.so.13').cudaMalloc(byref(c_void_p()), c_size_t(9))"
			holders := printedStats(t, recorded("-c", script), "--report", "memory_holders", "--format", "csv")
			if !strings.Contains(holders, ",<string>:2 <module>,") {
				t.Errorf("of an allocation alone:\n%s", holders)
			}
		})
	}
}
