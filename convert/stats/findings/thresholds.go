package findings

// Thresholds decide what is worth a finding.
type Thresholds struct {
	Cost      float64 // least cost, as a share of the steady state of the process
	Least     uint64  // ns; least cost
	Gap       uint64  // ns; shorter gaps are no gaps to look at, and longer ones are not due to a launch
	Repeats   uint64  // least number of times for something that a loop does
	Kernels   uint64  // least number of kernels for a CUDA graph
	SmallCopy uint64  // bytes of the largest copy that is small
}

// Defaults are the thresholds where a person gives no others.
var Defaults = Thresholds{Cost: 0.01, Least: 1e6, Gap: 1e6, Repeats: 20, Kernels: 1000, SmallCopy: 64 << 10}

// Worth reports whether a cost in a time is worth a finding.
func (t *Thresholds) Worth(cost, of uint64) bool {
	return cost > 0 && cost >= t.Least && float64(cost) >= t.Cost*float64(of)
}
