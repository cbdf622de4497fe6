package convert

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

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
