package cupti

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCompiledLines reads lines of generated files, and of files that only look like one.
func TestCompiledLines(t *testing.T) {
	t.Parallel()
	const run = "\n  kernel_0.run(buf0, 64, stream=stream0)"
	for _, c := range []struct {
		name, text string
		want       map[uint32]string
	}{
		{"new", "# Topologically Sorted Source Nodes: [x], Original ATen: [aten.add, aten.mul]" + run, map[uint32]string{2: "aten.add, aten.mul"}},
		{"old", "x = 1\n        # Source Nodes: [x], Original ATen: [aten._softmax]\n" + run, map[uint32]string{4: "aten._softmax"}},
		{"no operators", "# Source Nodes: [x], Original ATen: [aten.mm]\n# Source Nodes: [], Original ATen: []" + run, nil},
		{"a second launch", "# Source Nodes: [x], Original ATen: [aten.mm]" + run + run, map[uint32]string{2: "aten.mm"}},
		{"no comment", "secret = 'Original ATen: [aten.mm]'" + run, nil},
		{"no names", "# Original ATen: [aten.mm; \x1b[2J]" + run, nil},
		{"too long", "# Original ATen: [" + strings.Repeat("aten.mm, ", 200) + "aten.mm]" + run, nil},
		{"no launch", "# Original ATen: [aten.mm]\nextern_kernels.mm(buf0, buf1)", nil},
		{"empty", "", nil},
	} {
		got := compiledLines([]byte(c.text))
		if len(got) == 0 {
			got = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
