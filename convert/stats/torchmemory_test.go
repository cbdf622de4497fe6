package stats_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
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

// A failure says in which step the largest holder got its memory.
func TestTorchMemorySteps(t *testing.T) {
	t.Parallel()
	p, held := newProgram(), uint64(0)
	p.python(7)
	p.stepping(func() {
		held += 1 << 30
		p.torch(1<<30, held, 32<<30, 0)
	})
	p.torch(16<<30, held, 32<<30, 1)
	s := stats.New()
	log := convert.Log{Name: "log", Open: logtest.InMemory(p.bytes(t))}
	if _, err := convert.Timeline([]convert.Log{log}, convert.Options{}, s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Tables(stats.Facts{}) {
		if r.Name == "torch_memory" || r.Name == "findings" {
			var text strings.Builder
			if err := table.WriteText(&text, []*table.Table{r}, 1000); err != nil {
				t.Fatal(err)
			}
			if want := "20.0 GiB (20 blocks) held since step 0 ("; !strings.Contains(text.String(), want) {
				t.Errorf("%s does not say %q:\n%s", r.Name, want, &text)
			}
		}
	}
}
