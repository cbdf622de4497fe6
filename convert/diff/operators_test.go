package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Operators are compared by name and kind where nearly all GPU time of each run is theirs.
func TestOperators(t *testing.T) {
	t.Parallel()
	run := func(gpu int, operators ...string) []*Run {
		var rows []string
		for _, o := range operators {
			f := strings.Fields(o)
			rows = append(rows, fmt.Sprintf(`{"name": %q, "kind": %q, "count": %s, "total_ns": %s}`, f[0], f[1], f[2], f[3]))
		}
		return []*Run{readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}],
			"kernels": [{"name": "k", "count": 1, "total_ns": %d}], "copies": [{"name": "HtoD", "count": 1, "total_ns": 100}], "sets": [], "operators": [%s]}`, gpu, strings.Join(rows, ",")))}
	}
	base := run(900, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 2 10", "step operator 1 0")
	for name, c := range map[string]struct {
		new  []*Run
		want string
	}{
		"the same":  {base, ""},
		"one more":  {run(900, "aten::mm operator 11 600", "aten::add operator 4 390", "step range 2 10", "step operator 1 0"), "aten::mm: more"},
		"another":   {run(900, "aten::mm operator 10 600", "aten::mul operator 4 390", "step range 2 10", "step operator 1 0"), "aten::mul: new, aten::add: gone"},
		"by kind":   {run(900, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 3 10", "step operator 1 0"), "step: more"},
		"in a part": {run(1400, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 2 10"), "they are known of 66.7 % of the GPU time (record --pytorch on)"},
		"none":      {run(900), "no section"},
	} {
		got := "no section"
		for _, s := range Compare(base, c.new, rule).Sections {
			if s.Report != "operators" {
				continue
			}
			texts := []string{}
			for _, r := range s.Rows {
				if len(r.Verdicts) > 0 {
					texts = append(texts, r.Name+": "+strings.Join(r.Verdicts, ", "))
				}
			}
			got = s.Reason + strings.Join(texts, ", ")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
