package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// framed is a run whose kernels were launched by Python functions: "kernel signature file function count".
func framed(t *testing.T, launches ...string) []*Run {
	t.Helper()
	var kernels, functions []string
	for _, l := range launches {
		f := strings.Fields(l)
		row := fmt.Sprintf(`"name": %q, "signature": %q, "count": %s, "total_ns": 5, "median_ns": 5`, f[0], f[1], f[4])
		kernels = append(kernels, "{"+row+"}")
		if f[3] == "-" {
			functions = append(functions, "{"+row+`, "file": null, "function": null}`)
			continue
		}
		functions = append(functions, fmt.Sprintf(`{%s, "file": %q, "function": %q}`, row, f[2], f[3]))
	}
	return []*Run{readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}], "kernels": [%s], "kernel_python": [%s]}`,
		strings.Join(kernels, ","), strings.Join(functions, ",")))}
}

// Kernels are told apart by name, signature and Python function, in whatever folder its file is; a kernel that another function launches is the same one where no
// other can be meant.
func TestPython(t *testing.T) {
	t.Parallel()
	base := []string{"add add(int) /old/train.py step 10", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py step 7", "mul mul(int) /old/train.py eval 2", "mul mul(int) - - 1"}
	for _, c := range []struct {
		name      string
		new, want []string
	}{
		{"another folder", []string{"add add(int) /new/train.py step 10", "add add(int) /new/train.py eval 4", "add add(float) /new/train.py step 7", "mul mul(int) /new/train.py eval 2", "mul mul(int) - - 1"}, nil},
		{"one function launches more", []string{"add add(int) /old/train.py step 11", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py step 7", "mul mul(int) /old/train.py eval 2", "mul mul(int) - - 1"},
			[]string{"add (train.py step): more"}},
		{"a function has another name", []string{"add add(int) /old/train.py step 10", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py advance 7", "mul mul(int) /old/train.py eval 2", "mul mul(int) - - 1"},
			[]string{"add (train.py advance) was add (train.py step) by python"}},
		{"one of two has", []string{"add add(int) /old/train.py advance 10", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py step 7", "mul mul(int) /old/train.py eval 2", "mul mul(int) - - 1"},
			[]string{"add (train.py advance): new", "add (train.py step): gone"}},
		{"other parameters", []string{"add add(int) /old/train.py step 10", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py step 7", "mul mul(long) /old/train.py eval 2", "mul mul(int) - - 1"},
			[]string{"mul (train.py eval) by parameters"}},
		{"a launch has no frame", []string{"add add(int) /old/train.py step 10", "add add(int) /old/train.py eval 4", "add add(float) /old/train.py step 7", "mul mul(int) - - 3"},
			[]string{"mul (train.py eval): gone", "mul (no Python frame): more"}},
	} {
		var got []string
		for _, r := range Compare(framed(t, base...), framed(t, c.new...), rule).Sections[0].Rows {
			text := r.Name
			if len(r.Verdicts) > 0 {
				text += ": " + strings.Join(r.Verdicts, ", ")
			}
			if r.Was != "" {
				text += " was " + r.Was
			}
			if r.Match != "" {
				text += " by " + r.Match
			}
			if text != r.Name {
				got = append(got, text)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	without := kernelRuns(t, "add", 5, 5)
	if rows := Compare(framed(t, "add add(int) train.py step 5"), without, rule).Sections[0].Rows; rows[0].Name != "add" {
		t.Errorf("a run without frames: %q", rows[0].Name)
	}
}

// Rows of one Python function are one, whatever its lines and its folder: what it launched and waited is added up, what it shares with
// others below it is not.
func TestPythonLines(t *testing.T) {
	t.Parallel()
	run := func(folder string, lines ...int) *Run {
		var rows []string
		for _, line := range lines {
			rows = append(rows, fmt.Sprintf(`{"name": "%[1]s/train.py:%[2]d step", "count": 2, "total_ns": 10, "inclusive_ns": 30, "wait_ns": 4, "file": "%[1]s/train.py", "function": "step", "line": %[2]d}`, folder, line))
		}
		rows = append(rows, `{"name": "(no Python frame: autograd)", "count": 1, "total_ns": 5, "inclusive_ns": 5, "wait_ns": 0, "file": null, "function": "(no Python frame: autograd)", "line": null}`)
		return readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}], "python": [%s]}`, strings.Join(rows, ",")))
	}
	base, next := run("/old", 7, 9), run("/new", 8, 10, 12)
	var got []string
	for _, p := range pairsOf("python", []*Run{base}, []*Run{next}) {
		got = append(got, fmt.Sprint(p.name, " ", base.reports["python"].value(p.inBase, "total_ns"), next.reports["python"].value(p.inNew, "total_ns"),
			next.reports["python"].value(p.inNew, "wait_ns"), next.reports["python"].value(p.inNew, "inclusive_ns")))
	}
	if diff := cmp.Diff([]string{"(no Python frame: autograd) 5 5 0 5", "train.py step 20 30 12 NaN"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
