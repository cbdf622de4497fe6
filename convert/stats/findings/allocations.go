package findings

import (
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/record/figures"
)

func (r *report) allocations() {
	t := r.process.allocs.since(r.steady.From)
	if e := total(t); r.worth(e, LeastRepeats) {
		r.add("allocation_in_loop", e, Finding{Without: (*critical.Without).Allocations,
			Title: figures.Count(e.count, "allocation or free", "allocations and frees") + " between launches" +
				r.atLine(&r.process.lines.allocs, e),
			Evidence: "the calls: " + parts(t, 3) + "; a call counts if its thread has launched GPU work since it last called " +
				"that function" + r.atLines(&r.process.lines.allocs, "; made at ", e.count),
			Try: "allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync, which take memory from a pool"})
	}
}
