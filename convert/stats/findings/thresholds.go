package findings

// Thresholds decide what is worth a finding.
type Thresholds struct {
	Cost      float64 // least cost, as a share of the time from a process' first call or work to its last
	Gap       uint64  // ns; shorter gaps are no gaps to look at, and longer ones are not due to a launch
	Repeats   uint64  // least number of times for something that a loop does
	Kernels   uint64  // least number of kernels for a CUDA graph
	SmallCopy uint64  // bytes of the largest copy that is small
}

// Defaults are the thresholds where a person gives no others.
var Defaults = Thresholds{Cost: 0.01, Gap: 1e6, Repeats: 20, Kernels: 1000, SmallCopy: 64 << 10}
