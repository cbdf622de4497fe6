package stats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
)

// What lines hold of PyTorch's cache at the end is the same from whatever time on a log is read; blocks that were
// handed out before do not count as handed out.
func TestTorchMemoryFrom(t *testing.T) {
	t.Parallel()
	path := logs(t)["torchmemory"]
	held := func(from time.Duration) (lines map[string]uint64, count uint64) {
		s := sinkOf(t, convert.Options{Filter: convert.Filter{From: from}}, path)
		lines = make(map[string]uint64)
		for _, r := range s.Tables(stats.Facts{}) {
			if r.Name != "torch_memory" {
				continue
			}
			for _, row := range r.Rows {
				if n := cell(r, row, "current_bytes").(uint64); n > 0 {
					lines[fmt.Sprint(row.Cells[0], " ", cell(r, row, "gpu"))] = n
				}
				count += cell(r, row, "count").(uint64)
			}
		}
		return lines, count
	}
	want, all := held(0)
	if len(want) != 5 || all != 6 {
		t.Fatalf("%v, %d blocks", want, all)
	}
	last := all
	for from := time.Duration(50); from < 2000; from += 50 {
		got, count := held(from)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %v (-whole +part):\n%s", from, diff)
		}
		if count > last {
			t.Errorf("from %v: %d blocks handed out, %d before", from, count, last)
		}
		last = count
	}
	if last != 0 {
		t.Errorf("%d blocks handed out in no time", last)
	}
}
