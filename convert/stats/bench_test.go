package stats_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
)

// BenchmarkRanks reads the logs of 8, 64 and 256 ranks in a process of its own: it says how much time that takes, and how much memory at most.
// CUDATRACE_BENCH_RANK_LAUNCHES is the number of launches of a rank.
func BenchmarkRanks(b *testing.B) {
	launches := must.Get(strconv.Atoi(cmp.Or(os.Getenv("CUDATRACE_BENCH_RANK_LAUNCHES"), "4000")))(b)
	for _, ranks := range []int{8, 64, 256} {
		folder := b.TempDir()
		const kernels = 9 // before each of two collectives of a step
		for _, l := range logtest.WriteRanks(b, logtest.Ranks{Hosts: ranks / 8, PerHost: 8, Steps: launches / (2*kernels + 2), Kernels: kernels, Drift: 30, WallOff: 3e6, WallError: 4e6, Straggler: 3, Late: 1e6}) {
			must.Do(b, os.WriteFile(filepath.Join(folder, fmt.Sprintf("rank%03d.cudatrace", l.Rank)), l.Data, 0o644))
		}
		for _, what := range []string{"stats", "convert"} {
			b.Run(fmt.Sprintf("%d/%s", ranks, what), func(b *testing.B) {
				peak := 0
				for b.Loop() {
					cmd := exec.Command(os.Args[0], "-test.run=^TestRanksForBenchmark$")
					cmd.Env = append(os.Environ(), "GOMEMLIMIT=200MiB", "CUDATRACE_BENCH_FOLDER="+folder, "CUDATRACE_BENCH_WHAT="+what) // GOMEMLIMIT: as cudatrace sets it
					out := must.Run(b, cmd)
					peak = max(peak, logtest.Peak(b, out))
				}
				b.ReportMetric(float64(peak)/1024, "peak-MiB")
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(ranks)*1e3, "ms/rank")
			})
		}
	}
}

// TestRanksForBenchmark is what BenchmarkRanks runs.
func TestRanksForBenchmark(t *testing.T) {
	folder := os.Getenv("CUDATRACE_BENCH_FOLDER")
	if folder == "" {
		t.Skip("BenchmarkRanks runs it")
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.cudatrace"))
	if err != nil {
		t.Fatal(err)
	}
	var logs []convert.Log
	for _, path := range paths {
		logs = append(logs, convert.Path(path))
	}
	if os.Getenv("CUDATRACE_BENCH_WHAT") == "convert" {
		f := must.Get(os.Create(filepath.Join(folder, "all.pftrace")))(t)
		defer f.Close()
		_, err = convert.FilesTo(logs, f, convert.TraceOptions{Compress: output.Gzip})
	} else {
		s := stats.New()
		_, err = convert.Timeline(logs, convert.Options{Collectives: true}, s)
		s.Tables(stats.Facts{})
	}
	if err != nil {
		t.Fatal(err)
	}
	logtest.PrintStatus(t)
}
