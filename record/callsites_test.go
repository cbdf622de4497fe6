package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// simulated returns the folder of the simulated CUDA stack: the built one, or one that it builds.
var simulated = sync.OnceValues(func() (string, error) {
	built, err := filepath.Abs("../build/sim")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(built, "bin/stacks")); err == nil {
		return built, nil
	}
	out, err := exec.Command("make", "-s", "-C", "../testdata/sim", "BUILD="+built).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return built, err
})

// A namedCalls counts the calls of a log that may create GPU work, by what the program called.
type namedCalls struct {
	counts  map[string]int
	unknown int // calls of the driver's without a caller record
}

// recordNames records a program with CUPTI's records alone, with runtime those of the runtime's functions that create GPU work.
func recordNames(t *testing.T, runtime bool, program string, args ...string) namedCalls {
	t.Helper()
	dir := must.Get(simulated())(t)
	functions := must.Get(cudaapi.Select("default", nil, nil))(t)
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if runtime && f.GPUWork && f.Library == cudaapi.Runtime {
			functions = append(functions, f)
		}
	}
	var said []string
	result, err := Run(Options{
		Program: filepath.Join(dir, "bin", program), Args: args, Output: filepath.Join(t.TempDir(), "run"),
		Functions: functions, Calls: CallsCUPTI,
		Say: func(line string) { said = append(said, line) },
	})
	if err != nil || result.ExitCode != 0 || result.Log == "" {
		t.Fatalf("%+v, %v, said %q", result, err, said)
	}
	return countNames(t, result.Log)
}

func countNames(t *testing.T, log string) namedCalls {
	t.Helper()
	n := namedCalls{counts: map[string]int{}}
	functions := map[uint32]string{}
	var calls []tracelog.API
	recordtest.Each(t, recordtest.Open(t, log), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.Caller:
			functions[r.ID] = r.Function
		case *tracelog.API:
			calls = append(calls, *r)
		}
	})
	for _, c := range calls {
		function, known := functions[c.Caller]
		if c.Domain == tracelog.DomainDriver && !known {
			n.unknown++
		}
		if !cudaapi.TraitsOf(c.Name).MayWork {
			continue
		}
		if function == "" {
			function = c.Name
		}
		n.counts[function]++
	}
	return n
}

// TestNamesFromCallers holds the names that the return addresses give to the driver's calls against
// the runtime's own records, on programs that call the runtime in every way. (A program that loads a
// library late may end before the recorder has seen where the library lies: its calls have no caller then.)
func TestNamesFromCallers(t *testing.T) {
	for _, program := range []string{
		"many --no-errors", "many-static --no-errors", "bundled --no-errors", "driveronly", "tworuntimes", "graphs",
		"threads -t 4 -n 100", "functions", "stacks -n 5",
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(program)
			want, got := recordNames(t, true, words[0], words[1:]...), recordNames(t, false, words[0], words[1:]...)
			if got.unknown != 0 {
				t.Errorf("%d calls have no caller", got.unknown)
			}
			for name := range got.counts {
				if want.counts[name] == 0 {
					t.Errorf("%s was called %d times, by no record of the runtime's", name, got.counts[name])
				}
			}
			for name, n := range want.counts {
				several := name == "cudaMemcpyToArray" || name == "cudaMemset3D" // one call of it may be several of the driver's
				if got := got.counts[name]; got < n || got != n && !several {
					t.Errorf("%s was called %d times, the runtime's records say %d", name, got, n)
				}
			}
		})
	}
}

// TestNamelessRuntime records a program in which nothing names the runtime's functions: calls have the names of the
// driver's, which is said.
func TestNamelessRuntime(t *testing.T) {
	for _, source := range []CallSource{CallsCUPTI, CallsUprobe} {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			recordNameless(t, source)
		})
	}
}

func recordNameless(t *testing.T, source CallSource) {
	t.Helper()
	dir := must.Get(simulated())(t)
	stripped := filepath.Join(t.TempDir(), "stripped")
	must.Run(t, exec.Command("strip", "-o", stripped, filepath.Join(dir, "bin/launchloop-static")))
	const n = 100000
	env := must.Get(exec.LookPath("env"))(t)
	functions := must.Get(cudaapi.Select("default", nil, nil))(t)
	said := make(chan string, 10)
	result, err := Run(Options{
		Program: env, Args: []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib"), stripped, "-n", fmt.Sprint(n)},
		Output: filepath.Join(t.TempDir(), "run"), Functions: functions, Calls: source,
		Say: func(line string) { said <- line },
	})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if line := <-said; !strings.Contains(line, "nothing names the runtime's functions in "+stripped) || len(said) != 0 {
		t.Errorf("said %q, and %d lines more", line, len(said))
	}
	got := countNames(t, result.Log)
	if calls := got.counts["cuLaunchKernel"]; calls != n {
		t.Errorf("%d calls of %d launches: %v", calls, n, got.counts)
	}
}
