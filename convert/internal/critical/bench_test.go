package critical_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// BenchmarkPath reads the log of 1,000,000 launches and finds the path of all of it, in a process of its own: it says how long that is, and how much
// memory it takes at most.
func BenchmarkPath(b *testing.B) {
	const launches = 1_000_000
	path := filepath.Join(b.TempDir(), "log.cudatrace")
	f := must.Get(os.Create(path))(b)
	logtest.WriteCalledLaunches(b, f, launches)
	must.Do(b, f.Close())
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPathForBenchmark$")
		cmd.Env = append(os.Environ(), "GOMEMLIMIT=200MiB", "CUDATRACE_BENCH_LOG="+path) // GOMEMLIMIT: as cudatrace sets it
		out := must.Run(b, cmd)
		_, rest, _ := strings.Cut(string(out), resultLine)
		segments := 0
		must.Get(fmt.Sscan(rest, &segments))(b)
		b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "cpu-s")
		b.ReportMetric(float64(segments), "segments")
		b.ReportMetric(float64(logtest.Peak(b, out))/1024, "peak-MiB")
	}
}

// resultLine is before the result of TestPathForBenchmark.
const resultLine = "path:"

// TestPathForBenchmark is what BenchmarkPath runs.
func TestPathForBenchmark(t *testing.T) {
	path := os.Getenv("CUDATRACE_BENCH_LOG")
	if path == "" {
		t.Skip("BenchmarkPath runs it")
	}
	s := newSink()
	must.Get(convert.Timeline([]convert.Log{convert.Path(path)}, convert.Options{}, s))(t)
	segments := 0
	for of := range s.threads {
		from, to, end := s.Last(of.Process)
		s.Path(from, to, end, func(*critical.Segment) { segments++ })
		break
	}
	fmt.Println(resultLine, segments)
	logtest.PrintStatus(t)
}
