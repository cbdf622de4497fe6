package stats_test

import (
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// Windows side by side have, clipped, the GPU time of the whole together. Not clipped they have more: what crosses a border is in both.
func TestClip(t *testing.T) {
	t.Parallel()
	gpuTime := func(f convert.Filter, clip bool) (ns uint64) {
		s := stats.New()
		if _, err := convert.Timeline([]convert.Log{convert.Path("../../testdata/gpu/logs/streams.cudatrace")}, convert.Options{Filter: f, Clip: clip}, s); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Tables(stats.Facts{}) {
			if r.Name == "devices" {
				for _, row := range r.Rows {
					ns += row[r.Column("work_ns")].(uint64)
				}
			}
		}
		return ns
	}
	whole, clipped, unclipped := gpuTime(convert.Filter{}, false), uint64(0), uint64(0)
	const first, last, every = 386 * time.Millisecond, 388 * time.Millisecond, 100 * time.Microsecond
	for from := first - every; from <= last; from += every {
		f := convert.Filter{From: from, To: from + every}
		if from < first {
			f.From = 0
		}
		if from == last {
			f.To = 0
		}
		clipped, unclipped = clipped+gpuTime(f, true), unclipped+gpuTime(f, false)
	}
	if clipped != whole || unclipped <= whole {
		t.Errorf("GPU time %d ns, of all windows %d ns, and %d ns if not clipped", whole, clipped, unclipped)
	}
}
