package convert

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record/must"
)

// BenchmarkGzip compresses a trace that is there already, as its conversion does: what
// of that is gzip alone.
func BenchmarkGzip(b *testing.B) {
	var log, trace bytes.Buffer
	logtest.WriteLaunches(b, &log, benchLaunches)
	traceTo(b, logtest.InMemory(log.Bytes()), TraceOptions{Compress: output.None}, &trace)
	var out logtest.Counter
	for b.Loop() {
		out.Bytes = 0
		w := output.Gzip.NewWriter(&out)
		must.Get(w.Write(trace.Bytes()))(b)
		must.Do(b, w.Close())
	}
	b.SetBytes(int64(trace.Len()))
	b.ReportMetric(float64(b.N)*benchLaunches/b.Elapsed().Seconds(), "launches/s")
	b.ReportMetric(float64(out.Bytes)/benchLaunches, "trace-B/launch")
}
