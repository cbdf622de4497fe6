package stats_test

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// BenchmarkStats reads the log of many launches and makes all reports.
func BenchmarkStats(b *testing.B) {
	var log bytes.Buffer
	logtest.WriteCalledLaunches(b, &log, 300_000)
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		s := stats.New()
		if _, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(log.Bytes())}}, convert.Options{}, s); err != nil {
			b.Fatal(err)
		}
		s.Tables(stats.Facts{})
	}
}
