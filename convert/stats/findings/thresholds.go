package findings

// Thresholds decide what is worth a finding.
const (
	leastShare   = 0.01 // least cost, as a share of the steady state of the process
	leastCost    = 1e6  // ns; likewise
	leastGap     = 1e6  // ns; shorter gaps are no gaps to look at, and longer ones are not due to a launch
	LeastRepeats = 20   // least number of times for something that a loop does
	leastKernels = 1000 // least number of kernels for a CUDA graph
)

// Worth reports whether a cost in a time is worth a finding.
func (c *Collector) Worth(cost, of uint64) bool {
	return cost > 0 && cost >= c.Least && float64(cost) >= leastShare*float64(of)
}
