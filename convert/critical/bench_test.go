package critical_test

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/critical"
	"github.com/cudatrace/cudatrace/convert/logtest"
)

// BenchmarkPath collects the calls and the work of 1,000,000 launches and finds the path of all of it. What reading the log takes is not in it.
func BenchmarkPath(b *testing.B) {
	var data bytes.Buffer
	const launches = 1_000_000
	logtest.WriteCalledLaunches(b, &data, launches)
	log := []convert.Log{{Name: "log", Open: logtest.InMemory(data.Bytes())}}
	for b.Loop() {
		s := newSink()
		if _, err := convert.Timeline(log, convert.Options{}, s); err != nil {
			b.Fatal(err)
		}
		for _, t := range s.threads {
			from, to, end := s.Last(t.Process)
			segments := 0
			s.Path(from, to, end, func(*critical.Segment) { segments++ })
			b.ReportMetric(float64(segments), "segments")
			break
		}
	}
}
