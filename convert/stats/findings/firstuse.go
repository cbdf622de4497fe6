package findings

import (
	"github.com/cudatrace/cudatrace/convert/internal/critical"
)

func (r *report) firstUse() {
	t := r.collector.named(r.process.loads.since(r.steady.From))
	if e := total(t); r.worth(e, 1) {
		r.add("first_use", e, Finding{Without: func(x *critical.Without) { x.In(r.process.loading) },
			Title:    "the GPU waits while code is loaded at its first use",
			Evidence: "time in calls that load code, while the GPU is idle: " + parts(t, 3),
			Try: "launch these kernels once before the part that matters, or load all code at the start " +
				"(CUDA_MODULE_LOADING=EAGER)"})
	}
}
