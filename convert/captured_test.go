package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// TestCapturedOfRecordings checks the captured calls of the graphs of real recordings. In graphs.cu each line launches a kernel
// of its own, k<LINE>, whose host stub makes the call; a PyTorch program's line N launches a grid of 4*(N-3) blocks.
func TestCapturedOfRecordings(t *testing.T) {
	stub := func(w *timeline.Work) bool {
		return w.Kind != timeline.KernelWork || w.Captured.Caller != nil && strings.Contains(w.Captured.Caller.Symbol, w.Shape.Kernel.Name)
	}
	line := func(w *timeline.Work) bool {
		return w.Call.Python != nil && strings.HasSuffix(w.Call.Python.File, "/lines.py") && w.Shape.Kernel.Grid[0] == 4*(w.Call.Python.Line-3)
	}
	for _, test := range []struct {
		name  string
		nodes int
		right func(*timeline.Work) bool
	}{
		{"child", 24, stub},
		{"cond", 24, stub},
		{"copies", 28, stub},
		{"update", 84, stub},
		{"python", 40_000, line},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tl, _ := timelineOf(t, Path(fmt.Sprintf("../testdata/gpu/logs/graphs/%s.cudatrace", test.name)).Open)
			nodes := 0
			for _, p := range tl.Processes {
				for _, q := range p.Streams {
					for i := range q.Work {
						w := &q.Work[i]
						if w.Graph == 0 {
							continue
						}
						nodes++
						if w.Captured == nil || !test.right(w) {
							t.Fatalf("node %#x, %s: captured by %q", w.GraphNode, w.Shape.Kernel.Name, w.CapturedBy())
						}
					}
				}
			}
			if nodes != test.nodes {
				t.Errorf("%d nodes, want %d", nodes, test.nodes)
			}
		})
	}
}
