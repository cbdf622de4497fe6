package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// TestPythonMarks has a program mark steps and ranges by the Python module. They are NVTX ranges: of the log, of
// --steps, and of a recording that is limited to some. A program that is not recorded goes on as it is.
func TestPythonMarks(t *testing.T) {
	t.Parallel()
	const program, said = "testdata/python/marks.py", "done forward Fills. True 0\n"
	module := filepath.Join("..", "..", "packaging", "python")
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		alone := pythonCommand(p.Path, program, module)
		if out, err := alone.CombinedOutput(); err != nil || string(out) != said {
			t.Fatalf("unrecorded: %v\n%s", err, out)
		}
		for _, c := range []struct {
			options, ranges []string
			sets            int
		}{
			{nil, []string{"12 1", "forward größe 13", "outer 24", "raises 12",
				"step 0 1", "step 10 1", "step 11 1", "step 12 1", "step 13 1", "step 14 1",
				"step 15 1", "step 16 1", "step 17 1", "step 18 1", "step 19 1", "step 20 1"}, 25},
			{[]string{"--steps", "12-14"},
				[]string{"forward größe 3", "outer 6", "raises 3", "step 12 1", "step 13 1", "step 14 1"}, 6},
		} {
			log := filepath.Join(t.TempDir(), "run")
			args := append([]string{"record", "-q", "--no-convert", "-o", log}, c.options...)
			out, err := pythonCommand("cudatrace", append(args, p.Path, program, module)...).CombinedOutput()
			if err != nil || string(out) != said {
				t.Fatalf("%q: %v\n%s", c.options, err, out)
			}
			ranges, sets := marked(t, log+".cudatrace")
			if !slices.Equal(ranges, c.ranges) || sets != c.sets {
				t.Errorf("%q: ranges %q, want %q; %d sets, want %d", c.options, ranges, c.ranges, sets, c.sets)
			}
			if c.options != nil {
				continue
			}
			if _, sets := marked(t, log+".cudatrace", "--step", "step", "--steps", "0-12"); sets != 8 {
				t.Errorf("steps 0 to 12 have %d sets", sets)
			}
		}
	})
}

// TestPythonMarksElsewhere has a program mark ranges beside a library of the name that has not the functions for it.
func TestPythonMarksElsewhere(t *testing.T) {
	t.Parallel()
	const program = "import ctypes, os, sys\nctypes.CDLL(os.environ['NVTX_INJECTION64_PATH'])\n" +
		"sys.path.insert(0, sys.argv[1])\nimport cudatrace\nwith cudatrace.range('a'):\n    cudatrace.step()\n"
	library := filepath.Join(t.TempDir(), "libcudatrace.so")
	must.Run(t, exec.Command("gcc", "-shared", "-o", library, "-x", "c", "/dev/null"))
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		cmd := pythonCommand(p.Path, "-c", program, filepath.Join("..", "..", "packaging", "python"))
		cmd.Env = append(cmd.Env, "NVTX_INJECTION64_PATH="+library)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// marked returns the NVTX ranges of a log with their counts, sorted, and the number of its memsets.
func marked(t *testing.T, log string, args ...string) (ranges []string, sets int) {
	t.Helper()
	var report struct {
		NVTX, Sets []struct {
			Name  string
			Count int
		}
	}
	args = append([]string{"--with-startup", "--report", "nvtx,sets", "--format", "json"}, args...)
	must.Do(t, json.Unmarshal([]byte(printedStats(t, log, args...)), &report))
	for _, r := range report.NVTX {
		ranges = append(ranges, fmt.Sprint(r.Name, " ", r.Count))
	}
	for _, s := range report.Sets {
		sets += s.Count
	}
	slices.Sort(ranges)
	return ranges, sets
}
