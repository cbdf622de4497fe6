package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An operatorLaunch is a launch of testdata/python/operators.py.
type operatorLaunch struct {
	operators []string // innermost first
	line      uint32   // of the innermost frame whose function has not the name "<lambda>"
	forward   string   // the forward operator's name, of the outermost backward operator
}

// operatorLaunches reads the launches of a log with their operators, in order of time.
func operatorLaunches(t *testing.T, path string) (all []operatorLaunch) {
	t.Helper()
	frames, stacks, operators := map[uint32]uint32{}, map[uint32]uint32{}, map[uint32]tracelog.OperatorStack{}
	var calls []tracelog.API
	recordtest.Each(t, recordtest.Open(t, path), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.PythonFrame:
			frames[r.ID] = r.Line
		case *tracelog.PythonStack:
			stacks[r.ID] = frames[r.Frame]
		case *tracelog.OperatorStack:
			operators[r.ID] = *r
		case *tracelog.API:
			if r.CBID == pythontest.MemsetD8 {
				calls = append(calls, *r)
			}
		case *tracelog.Lost:
			t.Errorf("lost: %+v", r)
		}
	})
	slices.SortStableFunc(calls, func(a, b tracelog.API) int { return int(int64(a.Start - b.Start)) })
	for _, a := range calls {
		l := operatorLaunch{line: stacks[a.Python]}
		for o := operators[a.Operators]; o.ID != 0; o = operators[o.Parent] {
			l.operators = append(l.operators, o.Name)
			l.forward = cmp.Or(l.forward, operators[o.Forward].Name)
		}
		all = append(all, l)
	}
	return all
}

// operatorTruth reads what testdata/python/operators.py says of its launches, without forward operators.
func operatorTruth(t *testing.T, path string) (observed int, all []operatorLaunch) {
	t.Helper()
	var said struct {
		Observed int
		Launches [][2]json.RawMessage
	}
	text := must.Get(os.ReadFile(path))(t)
	must.Do(t, json.Unmarshal(text, &said))
	for _, s := range said.Launches {
		var l operatorLaunch
		must.Do(t, json.Unmarshal(s[0], &l.operators))
		must.Do(t, json.Unmarshal(s[1], &l.line))
		all = append(all, l)
	}
	return said.Observed, all
}

// TestOperators compares the operators of each launch with those that the simulated PyTorch runs, and the lines of backward
// ones with those of their forward ones.
func TestOperators(t *testing.T) {
	t.Parallel()
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	python := pythons[len(pythons)-1].Path
	for _, c := range []struct {
		name, option     string
		sequence, thread string // where records have them
		observers        int
		linked           bool // backward operators have their forward ones, once the place of their number is known
	}{
		{"on", "on", "200", "104", 3, true},
		{"auto", "auto", "176", "104", 3, true},
		{"PyTorch 1.13", "on", "200", "48", 3, true},
		{"elsewhere", "on", "232", "104", 3, true},
		{"nowhere", "on", "0", "104", 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const steps, launches, learnt, nested = 60, 7, 40, 40 * 40
			dir := t.TempDir()
			base, truth := filepath.Join(dir, "run"), filepath.Join(dir, "truth.json")
			cmd := pythonCommand("cudatrace", "record", "--pytorch", c.option, "--calls", "cupti", "--no-convert", "-o", base,
				python, "testdata/python/operators.py", fmt.Sprint(steps), truth)
			cmd.Env = append(cmd.Env, "SIM_TORCH_SEQUENCE="+c.sequence, "SIM_TORCH_THREAD="+c.thread)
			must.Run(t, cmd)
			observed, want := operatorTruth(t, truth)
			got := operatorLaunches(t, base+".cudatrace")
			if observed != c.observers || len(want) != steps*launches+nested || len(got) != len(want) {
				t.Fatalf("%d observers; %d launches, %d recorded", observed, len(want), len(got))
			}
			for i := range want {
				w, g := want[i], got[i]
				if diff := gocmp.Diff(w.operators, g.operators); diff != "" {
					t.Fatalf("launch %d: operators (-want +got):\n%s", i, diff)
				}
				evaluation := w.operators[len(w.operators)-1]
				backward := strings.HasPrefix(evaluation, "autograd::")
				if backward && i >= learnt*launches && c.linked {
					if w.line != g.line || "autograd::engine::evaluate_function: "+g.forward+"Backward0" != evaluation {
						t.Fatalf("launch %d of %v has line %d and forward operator %q, not line %d", i, w.operators, g.line, g.forward, w.line)
					}
				}
				if backward && !c.linked && (g.line != 0 || g.forward != "") {
					t.Fatalf("launch %d has line %d and forward operator %q, which nobody can know", i, g.line, g.forward)
				}
			}
		})
	}
}

// TestOperatorSpans records the begin and the end of each operator: there are as many as the simulated PyTorch runs, and
// the call of each launch lies within its own.
func TestOperatorSpans(t *testing.T) {
	t.Parallel()
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	const steps, inStep, nested = 200, 14, 1600 // in a step two operators in two, two nodes with four, and one in a range
	base := filepath.Join(t.TempDir(), "run")
	cmd := pythonCommand("cudatrace", "record", "--pytorch", "spans", "-o", base, pythons[len(pythons)-1].Path,
		"testdata/python/operators.py", fmt.Sprint(steps), base+".truth")
	must.Run(t, cmd)
	type place struct{ tid, operators uint32 }
	spans, calls, n := map[place][]tracelog.OperatorSpan{}, []tracelog.API(nil), 0
	recordtest.Each(t, recordtest.Open(t, base+".cudatrace"), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.OperatorSpan:
			spans[place{r.TID, r.Operators}] = append(spans[place{r.TID, r.Operators}], *r)
			n++
		case *tracelog.API:
			if r.CBID == pythontest.MemsetD8 {
				calls = append(calls, *r)
			}
		case *tracelog.Lost:
			t.Error("records are lost")
		}
	})
	if n != steps*inStep+nested+40 || len(calls) != steps*7+nested {
		t.Errorf("%d operators and %d launches, want %d and %d", n, len(calls), steps*inStep+nested+40, steps*7+nested)
	}
	for _, a := range calls {
		within := func(s tracelog.OperatorSpan) bool { return s.Start <= a.Start && a.Start+a.Dur <= s.Start+s.Dur }
		if !slices.ContainsFunc(spans[place{a.TID, a.Operators}], within) {
			t.Fatalf("the launch at %d of thread %d lies in none of its operators %d", a.Start, a.TID, a.Operators)
		}
	}
	shown := (&recording{base: base}).trace(t).Values(`select count(*) from slice join thread_track t on track_id = t.id
		where category = 'pytorch' and t.name = 'PyTorch'`)
	if got := fmt.Sprint(shown[0][0]); got != fmt.Sprint(steps*inStep+nested+40) {
		t.Errorf("the trace shows %s operators", got)
	}
}

// TestOperatorSpansLost runs operators while the recorder is stopped: each is in the log or counted as lost, and no record
// of CUDA's is lost for them.
func TestOperatorSpansLost(t *testing.T) {
	t.Parallel()
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	base := filepath.Join(t.TempDir(), "run")
	cmd := pythonCommand("cudatrace", "record", "--pytorch", "spans", "--memory-limit", "40M", "--calls", "cupti",
		"--sample", "off", "--no-convert", "-o", base, pythons[len(pythons)-1].Path, "testdata/python/operatorburst.py")
	must.Run(t, cmd)
	spans, lost := uint64(0), map[string]uint64{}
	recordtest.Each(t, recordtest.Open(t, base+".cudatrace"), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.OperatorSpan:
			spans++
		case *tracelog.Lost:
			lost[r.Cause] += r.Count
		}
	})
	const ran = 1000000
	if of := lost[tracelog.LostOperatorSpans]; of == 0 || spans+of != ran || len(lost) != 1 {
		t.Errorf("%d of %d operators are there; lost: %v", spans, ran, lost)
	}
}

// TestOperatorsWithoutRoom has too little memory for operators: it says so of a program with PyTorch, and of no other.
func TestOperatorsWithoutRoom(t *testing.T) {
	t.Parallel()
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	const told = "PyTorch's operators are not recorded: CUPTI does not tell who calls, or --memory-limit is too low"
	torch := []string{
		pythons[len(pythons)-1].Path, "testdata/python/operators.py", "1", filepath.Join(t.TempDir(), "truth"), "4",
	}
	for _, program := range [][]string{{sim("vectoradd")}, torch} {
		args := []string{
			"record", "--memory-limit", "24M", "--calls", "cupti", "--no-convert", "-o", filepath.Join(t.TempDir(), "run"),
		}
		said, err := pythonCommand("cudatrace", append(args, program...)...).CombinedOutput()
		if strings.Contains(string(said), told) != (len(program) > 1) {
			t.Errorf("%q: %v\n%s", program, err, said)
		}
	}
}

// TestOperatorsAttached asks for operators where there are none: a line says so, and none where nobody has asked.
func TestOperatorsAttached(t *testing.T) {
	t.Parallel()
	const told = "cudatrace: PyTorch's operators are not recorded: "
	pid := fmt.Sprint(startLongrun(t, "100000").Pid)
	attached, run := []string{"-d", "10ms", "-p", pid}, []string{"--gpu", "none", sim("vectoradd")}
	for _, c := range []struct {
		pytorch string
		args    []string
		want    string
	}{
		{"on", attached, told + "only programs that record starts itself have them"}, {"spans,memory", attached, told},
		{"auto", attached, ""}, {"memory", attached, ""},
		{"on", run, told + "they come with CUPTI's records"}, {"auto", run, ""},
	} {
		args := []string{"record", "-q", "--no-convert", "-o", filepath.Join(t.TempDir(), "run"), "--pytorch", c.pytorch}
		said, err := exec.Command("cudatrace", append(args, c.args...)...).CombinedOutput()
		got := strings.Contains(string(said), "operators")
		if err != nil || got != (c.want != "") || !strings.Contains(string(said), c.want) {
			t.Errorf("--pytorch %s, %q: %v\n%s", c.pytorch, c.args, err, said)
		}
	}
}

// TestCompiledOperators records launches of a file of the shape of those that PyTorch's compiler generates: a compiled kernel
// has the operators of the comment in front of its launch, within the operator around; other launches have their own.
func TestCompiledOperators(t *testing.T) {
	t.Parallel()
	pythons := pythontest.All(t)
	if len(pythons) == 0 {
		t.Skip("no Python here")
	}
	generated, err := filepath.Glob("testdata/python/compiled/c*.py")
	if err != nil || len(generated) != 1 {
		t.Fatal(generated, err)
	}
	const softmax = "_softmax, prims.convert_element_type (compiled)"
	for option, want := range map[string]string{
		"on": "add, mul (compiled); aten::mm; ; " + softmax + "; add, mul (compiled) <- CompiledFunction; " +
			"aten::mm <- CompiledFunction; CompiledFunction; " + softmax + " <- CompiledFunction; ",
		"off": "; ; ; ; ; ; ; ; ",
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			const steps = 5
			base, seconds := filepath.Join(t.TempDir(), "run"), map[string]string{"on": "60", "off": "0"}[option]
			cmd := pythonCommand("cudatrace", "record", "--pytorch", option, "--calls", "cupti", "--no-convert", "-o", base,
				pythons[len(pythons)-1].Path, "testdata/python/compiled.py", generated[0], fmt.Sprint(steps), seconds)
			must.Run(t, cmd)
			rows, _ := succeed(t, "convert", base+".cudatrace", "--format", "ndjson", "-o", "-")
			got := ""
			for line := range strings.Lines(rows) {
				var r struct {
					Table, Kind string
					Stack       string `json:"operator_stack"`
				}
				must.Do(t, json.Unmarshal([]byte(line), &r))
				if r.Table == "work" && r.Kind == "memset" {
					got += r.Stack + "; "
				}
			}
			if diff := gocmp.Diff(strings.Repeat(want, steps), got); diff != "" {
				t.Errorf("operators of launches (-want +got):\n%s", diff)
			}
			if option == "off" {
				return
			}
			var sums struct{ Operators []struct{ Name, Kind string } }
			report := printedStats(t, base+".cudatrace", "--report", "operators", "--format", "json")
			must.Do(t, json.Unmarshal([]byte(report), &sums))
			kinds := make(map[string]string)
			for _, r := range sums.Operators {
				kinds[r.Name] = r.Kind
			}
			wantKinds := map[string]string{
				"add, mul (compiled)": "compiled", softmax: "compiled", "aten::mm": "operator", "CompiledFunction": "operator",
			}
			if diff := gocmp.Diff(wantKinds, kinds); diff != "" {
				t.Errorf("kinds of operators (-want +got):\n%s", diff)
			}
		})
	}
}
