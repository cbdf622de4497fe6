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
	"github.com/cudatrace/cudatrace/record/must"
)

// What lines hold of PyTorch's cache at the end is the same from whatever time on a log is read; blocks that were
// handed out before do not count as handed out.
func TestTorchMemoryFrom(t *testing.T) {
	t.Parallel()
	path := logs(t)["torchmemory"]
	held := func(from time.Duration) (lines map[string]uint64, count uint64) {
		s := sinkOf(t, convert.Options{Filter: convert.Filter{From: from}}, path)
		lines = make(map[string]uint64)
		r := byName(s, stats.Facts{})["torch_memory"]
		for _, row := range r.Rows {
			if n := cell(r, row, "current_bytes").(uint64); n > 0 {
				lines[fmt.Sprint(row.Cells[0], " ", cell(r, row, "operator"), " ", cell(r, row, "gpu"))] = n
			}
			count += cell(r, row, "count").(uint64)
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
	tables := p.reports(t, false)
	for _, name := range []string{"torch_memory", "findings"} {
		var text strings.Builder
		must.Do(t, table.WriteText(&text, []*table.Table{tables[name]}, 1000))
		if want := "20.0 GiB (20 blocks) held since step 0 ("; !strings.Contains(text.String(), want) {
			t.Errorf("%s does not say %q:\n%s", name, want, &text)
		}
	}
}

// A line has the module in which it asks for memory: the innermost function forward around it.
func TestTorchMemoryModules(t *testing.T) {
	t.Parallel()
	log := convert.Log{Name: "log", Open: logtest.Assemble(t, `process pid=50 start=100
python_frame id=1 file=/home/ann/train.py function=main first_line=3 line=40
python_frame id=2 file=/home/ann/model.py function=Model.forward first_line=20 line=25
python_frame id=3 file=/home/ann/model.py function=MLP.forward first_line=30 line=31
python_frame id=4 file=/home/ann/model.py function=scratch first_line=50 line=51
python_stack id=1 frame=1
python_stack id=2 parent=1 frame=2
python_stack id=3 parent=2 frame=3
python_stack id=4 parent=2 frame=4
python_stack id=5 parent=3 frame=4
torch_memory pid=50 tid=50 time=1000 address=0x1000 bytes=400 allocated=400 reserved=4096 device=0 python=1
torch_memory pid=50 tid=50 time=1100 address=0x2000 bytes=300 allocated=700 reserved=4096 device=0 python=3
torch_memory pid=50 tid=50 time=1200 address=0x3000 bytes=100 allocated=800 reserved=4096 device=0 python=4
torch_memory pid=50 tid=50 time=1300 address=0x4000 bytes=100 allocated=900 reserved=4096 device=0 python=5
`)}
	var got []string
	r := byName(taking(t, stats.New(), convert.Options{}, log), stats.Facts{})["torch_memory"]
	for _, row := range r.Rows {
		got = append(got, fmt.Sprintf("%v: %v", row.Cells[0], cell(r, row, "module")))
	}
	want := []string{`/home/ann/train.py:40 main: <nil>`, `/home/ann/model.py:31 MLP.forward: MLP.forward`,
		`/home/ann/model.py:51 scratch: (several)`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}
