package convert

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// Bounds for each mutant.
const (
	mutantMemory = 512 << 20 // bytes
	mutantTime   = 10 * time.Second
)

// programMemory is the memory limit that cudatrace sets itself.
const programMemory = "GOMEMLIMIT=200MiB"

// mutantsVariable has the first mutant and the one behind the last, for a process that looks at them.
const mutantsVariable = "CUDATRACE_MUTANTS_FROM_TO"

// Whatever is changed in a log, a conversion, a summary and a dump of it end in bounded time and
// memory, and agree whether it is damaged. CUDATRACE_MUTANTS is the number of mutants.
func TestMutants(t *testing.T) {
	t.Parallel()
	const batch = 100
	n := 300
	if s := os.Getenv("CUDATRACE_MUTANTS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for from := 0; from < n; from += batch {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMutantsOfBatch$", "-test.count=1")
		cmd.Env = append(os.Environ(), programMemory, fmt.Sprintf("%s=%d %d", mutantsVariable, from, min(from+batch, n)))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("mutants from %d: %v\n%s", from, err, out)
		}
	}
}

// checkPeak holds the most memory that this process has taken against a number of bytes.
func checkPeak(t *testing.T, allowed int64) {
	t.Helper()
	status := must.Get(os.ReadFile("/proc/self/status"))(t)
	if most := int64(logtest.Peak(t, status)) << 10; most > allowed {
		t.Errorf("it took %d bytes of memory", most)
	}
}

// TestMutantsOfBatch looks at some mutants in a process of its own.
func TestMutantsOfBatch(t *testing.T) {
	var from, to uint64
	if _, err := fmt.Sscan(os.Getenv(mutantsVariable), &from, &to); err != nil {
		t.Skip("TestMutants runs it")
	}
	logs := mutantParents(t)
	for seed := from; seed < to; seed++ {
		m := logtest.Mutate(rand.New(rand.NewPCG(13, seed)), logs)
		name := fmt.Sprintf("mutant %d: %s", seed, m.How)
		dumped, summed, converted := verdicts(t, name, m.Log)
		if dumped != summed || dumped != converted || m.Damaged && !dumped {
			t.Errorf("%s: is damaged for dump %t, for info %t, for convert %t", name, dumped, summed, converted)
		}
	}
	checkPeak(t, mutantMemory)
}

// mutantParents are intact logs.
func mutantParents(t *testing.T) (logs [][]byte) {
	t.Helper()
	var launches bytes.Buffer
	logtest.WriteLaunches(t, &launches, 700)
	logs = append(logs, launches.Bytes())
	for _, text := range logtest.Texts(t, "testdata") {
		log := must.Get(logtest.Assembled(text.Text))(t)
		logs = append(logs, log)
	}
	gpu := must.Get(os.ReadFile("../testdata/gpu/logs/streams.cudatrace"))(t)
	return append(logs, gpu)
}

// verdicts says for which readers of a log it is damaged, or no log.
func verdicts(t *testing.T, name string, log []byte) (dumped, summed, converted bool) {
	t.Helper()
	open := func() (*tracelog.Reader, error) {
		return tracelog.NewReader(bytes.NewReader(log), int64(len(log)), "mutant")
	}
	within := func(what string, f func() bool) bool {
		start := processorTime(t)
		verdict := f()
		if took := processorTime(t) - start; took > mutantTime {
			t.Errorf("%s: %s took %v", name, what, took)
		}
		return verdict
	}
	dumped = within("dump", func() bool {
		r, err := open()
		return err != nil || logtext.Dump(io.Discard, r, logtext.Options{}) != nil || r.Damage().Count > 0
	})
	summed = within("info", func() bool {
		all, err := Timeline([]Log{{Name: "mutant", Open: open}}, Options{}, nil)
		return err != nil || all[0].Damaged
	})
	converted = within("convert", func() bool {
		all, _, err := toTrace([]Log{{Name: "mutant", Open: open}}, io.Discard, TraceOptions{Compress: output.None})
		if err != nil && strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v", name, err)
		}
		return err != nil || all[0].Damaged
	})
	return dumped, summed, converted
}

// processorTime is the time that this process has taken, on however slow a machine.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var use syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
