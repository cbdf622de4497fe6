package stats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// What was allocated before the time of a filter is held in it: the peak is not less than that, and the reports say so.
func TestMemoryHeldBefore(t *testing.T) {
	t.Parallel()
	filter := convert.Filter{From: 5200 * time.Millisecond}
	s := sinkOf(t, convert.Options{Filter: filter}, "../../testdata/gpu/logs/train.cudatrace")
	const held = 205_793_640
	for _, r := range s.Tables(stats.Facts{Filtered: true}) {
		var got, want any
		switch r.Name {
		case "profile":
			got, want = cell(r, r.Rows[0], "peak_bytes"), uint64(held)
		case "memory":
			got = fmt.Sprint(cell(r, r.Rows[0], "peak_at_ns"), cell(r, r.Rows[0], "held_bytes"), cell(r, r.Rows[0], "allocations"), cell(r, r.Rows[0], "not_freed"), r.Notes)
			want = fmt.Sprint(uint64(filter.From), held, 0, 636, []string{"196.3 MiB were live when the time of the filter began"})
		case "memory_holders":
			got, want = cell(r, r.Rows[0], "peak_bytes"), uint64(held)
		case "unfreed":
			got, want = cell(r, r.Rows[0], "at_ns").(uint64)/1000, uint64(4981591)
		}
		if got != want {
			t.Errorf("%s: %v, want %v", r.Name, got, want)
		}
	}
}
