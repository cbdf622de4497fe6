package stats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// Windows side by side have, clipped, the GPU time of the whole together. Not clipped they have more: what crosses a border is in both.
func TestClip(t *testing.T) {
	t.Parallel()
	gpuTime := func(f convert.Filter, clip bool) (ns uint64) {
		s := sinkOf(t, convert.Options{Filter: f, Clip: clip}, "../../testdata/gpu/logs/streams.cudatrace")
		r := byName(s, stats.Facts{})["devices"]
		for _, row := range r.Rows {
			ns += row.Cells[r.Column("work_ns")].(uint64)
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

// What was allocated before the time of a filter is held in it: the peak is not less than that, and the reports say so.
func TestMemoryHeldBefore(t *testing.T) {
	t.Parallel()
	for _, clip := range []bool{false, true} {
		filter := convert.Filter{From: 5200 * time.Millisecond}
		s := sinkOf(t, convert.Options{Filter: filter, Clip: clip}, "../../testdata/gpu/logs/train.cudatrace")
		const held = 205_793_640
		from, allocated := uint64(filter.From), any(uint64(4981591))
		if clip { // moments count from the beginning of the window
			from, allocated = 0, nil
		}
		for _, r := range s.Tables(stats.Facts{Filtered: true}) {
			var got, want any
			switch r.Name {
			case "profile":
				got, want = cell(r, r.Rows[0], "peak_bytes"), uint64(held)
			case "memory":
				got = fmt.Sprint(cell(r, r.Rows[0], "peak_at_ns"), cell(r, r.Rows[0], "held_bytes"), cell(r, r.Rows[0], "allocations"), cell(r, r.Rows[0], "not_freed"), r.Notes)
				want = fmt.Sprint(from, held, 0, 636, []string{"196.3 MiB were live when the time of the filter began"})
			case "memory_holders":
				got, want = cell(r, r.Rows[0], "peak_bytes"), uint64(held)
			case "unfreed":
				if got, want = cell(r, r.Rows[0], "at_ns"), allocated; got != nil {
					got = got.(uint64) / 1000
				}
			}
			if got != want {
				t.Errorf("clip %t: %s: %v, want %v", clip, r.Name, got, want)
			}
		}
	}
}
