package convert

import (
	"bytes"
	"testing"
)

// BenchmarkGzip compresses a trace that is there already, as its conversion does: what
// of that is gzip alone.
func BenchmarkGzip(b *testing.B) {
	var log, trace bytes.Buffer
	writeLaunches(b, &log, benchLaunches)
	traceTo(b, inMemory(log.Bytes()), Options{Compress: None}, &trace)
	var out countingWriter
	for b.Loop() {
		out.n = 0
		w := newGzipWriter(&out)
		if _, err := w.Write(trace.Bytes()); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(trace.Len()))
	b.ReportMetric(float64(b.N)*benchLaunches/b.Elapsed().Seconds(), "launches/s")
	b.ReportMetric(float64(out.n)/benchLaunches, "trace-B/launch")
}
