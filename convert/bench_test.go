package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// benchLaunches is the number of launches in a benchmark's log.
const benchLaunches = 200_000

// perLaunch reports the numbers of runs conversions of a log with n launches, each of some
// slices.
func perLaunch(b *testing.B, runs, n, slices int, elapsed time.Duration, trace, log int64) {
	launches := float64(runs) * float64(n)
	b.ReportMetric(launches/elapsed.Seconds(), "launches/s")
	b.ReportMetric(float64(slices)*launches/elapsed.Seconds(), "slices/s")
	b.ReportMetric(float64(trace)/float64(n), "trace-B/launch")
	b.ReportMetric(float64(log)/float64(n), "log-B/launch")
}

// BenchmarkConvert makes a trace of a log in memory: three slices and an arrow a launch.
func BenchmarkConvert(b *testing.B) {
	var data bytes.Buffer
	benchConvert(b, &data, logtest.WriteLaunches(b, &data, benchLaunches), 3)
}

// BenchmarkConvertCalled is BenchmarkConvert for launches with a caller: two slices and an arrow
// each.
func BenchmarkConvertCalled(b *testing.B) {
	var data bytes.Buffer
	benchConvert(b, &data, logtest.WriteCalledLaunches(b, &data, benchLaunches), 2)
}

func benchConvert(b *testing.B, data *bytes.Buffer, records uint64, slices int) {
	for name, convert := range map[string]func(io.Writer){
		"none": func(w io.Writer) { traceTo(b, logtest.InMemory(data.Bytes()), TraceOptions{Compress: output.None}, w) },
		"gzip": func(w io.Writer) { traceTo(b, logtest.InMemory(data.Bytes()), TraceOptions{Compress: output.Gzip}, w) },
		"json": func(w io.Writer) { chromeTo(b, logtest.InMemory(data.Bytes()), w) },
		"jsongzip": func(w io.Writer) {
			z := output.Gzip.NewWriter(w)
			chromeTo(b, logtest.InMemory(data.Bytes()), z)
			must.Do(b, z.Close())
		},
		"info": func(io.Writer) { build(b, logtest.InMemory(data.Bytes()), nil) },
	} {
		b.Run(name, func(b *testing.B) {
			var out logtest.Counter
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				out.Bytes = 0
				convert(&out)
			}
			runtime.ReadMemStats(&after)
			b.SetBytes(max(out.Bytes, 1))
			perLaunch(b, b.N, benchLaunches, slices, b.Elapsed(), out.Bytes, int64(data.Len()))
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N)/float64(records), "allocs/record")
		})
	}
}

// BenchmarkLarge converts logs in a process of its own and says how much memory that took
// at most, and how time grows with size: the time of a launch over that in the first log.
// CUDATRACE_BENCH_LAUNCHES has the numbers of launches: 1000000,5000000,20000000.
func BenchmarkLarge(b *testing.B) {
	sizes := cmp.Or(os.Getenv("CUDATRACE_BENCH_LAUNCHES"), "200000")
	first := make(map[output.Compression]float64)
	for _, size := range strings.Split(sizes, ",") {
		n := must.Get(strconv.Atoi(size))(b)
		path := filepath.Join(b.TempDir(), "large.cudatrace")
		f := must.Get(os.Create(path))(b)
		logtest.WriteLaunches(b, f, n)
		must.Do(b, f.Close())
		for _, c := range []output.Compression{output.None, output.Gzip} {
			b.Run(size+"/"+string(c), func(b *testing.B) {
				each := large(b, path, n, c)
				first[c] = cmp.Or(first[c], each)
				b.ReportMetric(each/first[c], "slope")
			})
		}
	}
}

// large returns the time of a launch, in ns.
func large(b *testing.B, path string, n int, c output.Compression) float64 {
	peak := 0
	var elapsed time.Duration
	for b.Loop() {
		// To replace a trace of a moment ago takes longer than to write it: the kernel waits
		// for the disk.
		if err := os.Remove(path + ".pftrace"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestConvertForBenchmark$")
		cmd.Env = append(os.Environ(), programMemory, "CUDATRACE_BENCH_LOG="+path, "CUDATRACE_BENCH_COMPRESS="+string(c))
		start := time.Now()
		out := must.Run(b, cmd)
		elapsed += time.Since(start)
		peak = max(peak, logtest.Peak(b, out))
	}
	trace := must.Get(os.Stat(path + ".pftrace"))(b)
	log := must.Get(os.Stat(path))(b)
	perLaunch(b, b.N, n, 3, elapsed, trace.Size(), log.Size())
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
	must.Do(b, os.Remove(path+".pftrace"))
	return float64(elapsed.Nanoseconds()) / float64(b.N) / float64(n)
}

// TestConvertForBenchmark is what BenchmarkLarge runs.
func TestConvertForBenchmark(t *testing.T) {
	path := os.Getenv("CUDATRACE_BENCH_LOG")
	if path == "" {
		t.Skip("BenchmarkLarge runs it")
	}
	o := TraceOptions{Format: FormatNamed(os.Getenv("CUDATRACE_BENCH_FORMAT")), Compress: output.Compression(os.Getenv("CUDATRACE_BENCH_COMPRESS"))}
	must.Get(Files([]Log{Path(path)}, path+".pftrace", o))(t)
	logtest.PrintStatus(t)
}

// BenchmarkCrowd reads logs with many streams and with many threads. The time of a launch should not grow with their
// number.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for name, crowd := range map[string][2]int{"streams": {1, n}, "threads": {n, 1}} {
			var data bytes.Buffer
			logtest.WriteCrowd(b, &data, crowd[0], crowd[1])
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					build(b, logtest.InMemory(data.Bytes()), nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/launch")
			})
		}
	}
}

// BenchmarkLog writes and reads the log that BenchmarkConvert converts, so that all numbers
// of one launch stand together.
func BenchmarkLog(b *testing.B) {
	var data bytes.Buffer
	records := logtest.WriteLaunches(b, &data, benchLaunches)
	report := func(b *testing.B) {
		b.SetBytes(int64(data.Len()))
		b.ReportMetric(float64(b.N)*benchLaunches/b.Elapsed().Seconds(), "launches/s")
		b.ReportMetric(float64(b.N)*float64(records)/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(float64(data.Len())/benchLaunches, "log-B/launch")
	}
	b.Run("write", func(b *testing.B) { // with the making of the launches
		for b.Loop() {
			logtest.WriteLaunches(b, new(logtest.Counter), benchLaunches)
		}
		report(b)
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			readStarts(b, data.Bytes())
		}
		report(b)
	})
}

// readStarts decodes a log and looks at the time of each event, as the first reading of a
// conversion does.
func readStarts(b *testing.B, log []byte) {
	r := must.Get(logtest.InMemory(log)())(b)
	defer r.Close()
	last := uint64(0)
	for r.Next() {
		if p := read.PlacementOf(r.Block().Kind); p != nil {
			last = max(last, lastStart(r.Block(), p.Start))
		}
	}
	if err := r.Err(); err != nil || last == 0 {
		b.Fatalf("last start %d, %v", last, err)
	}
}

func lastStart(b *tracelog.Block, field string) (last uint64) {
	starts := b.Column(field)
	for i := range b.N {
		last = max(last, starts.At(i))
	}
	return last
}

// tableLaunches is the number of launches in the log of BenchmarkTables: several row groups of each table, as row groups are
// encoded while later rows come.
const tableLaunches = 1_000_000

// BenchmarkTables makes the tables of a log in memory: four rows a launch. rows/s counts the rows of all tables by the clock;
// rows/cpu-s by the time of all processors, which other programs on the machine change little.
func BenchmarkTables(b *testing.B) {
	var data bytes.Buffer
	logtest.WriteLaunches(b, &data, tableLaunches)
	var all Summary
	var work int64
	before := processorTime(b)
	for b.Loop() {
		var files []*logtest.Counter
		var names []string
		c := newConversion([]Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}, Options{})
		must.Do(b, c.read())
		list := must.Get(c.write(TraceOptions{Format: FormatNamed("parquet")}, func(name string) (io.Writer, error) {
			files, names = append(files, new(logtest.Counter)), append(names, name)
			return files[len(files)-1], nil
		}))(b)
		all = list[0]
		for i, f := range files {
			if strings.HasPrefix(names[i], "work/") {
				work = f.Bytes
			}
		}
	}
	b.ReportMetric(float64(b.N)*float64(all.Slices)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.N)*float64(all.Slices)/(processorTime(b)-before).Seconds(), "rows/cpu-s")
	b.ReportMetric(float64(work)/float64(all.Kernels), "B/row-of-work")
}
