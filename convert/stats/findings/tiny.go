package findings

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/record/figures"
)

func (r *report) tinyKernels() {
	for _, gpu := range sortedKeys(r.process.tiny) {
		t := r.process.tiny[gpu]
		e := t.since(r.steady.From)
		if !r.worth(e, leastKernels) {
			continue
		}
		rate := float64(e.count) / (float64(r.steady.length()) / 1e9)
		r.add("tiny_kernels", e, Finding{Without: (*critical.Without).Launches,
			Title: fmt.Sprintf("launch-bound: %s shorter than their launch",
				figures.Count(e.count, "kernel is", "kernels are")), GPU: &gpu,
			Evidence: fmt.Sprintf("%s waits for each of these launches, %s a second; the median kernel takes %s, the call "+
				"that launches it %s", r.collector.gpuName(gpu), figures.Group(uint64(rate)),
				figures.Duration(t.kernels.Percentile(50)), figures.Duration(t.launches.Percentile(50))),
			Try: "launch the part that repeats as a CUDA graph (PyTorch: torch.cuda.graph, torch.compile), or make fewer, " +
				"larger kernels"})
	}
}
