package metric

import (
	"fmt"
	"math/bits"
)

// A Reason is why the driver lowered a GPU's clocks: nvmlClocksEventReasons.
type Reason uint64

// The reasons. The others are not limits: the GPU is idle, or a person set the clocks.
const (
	Idle              Reason = 1 << 0
	ApplicationClocks Reason = 1 << 1
	PowerCap          Reason = 1 << 2
	HardwareSlowdown  Reason = 1 << 3
	SyncBoost         Reason = 1 << 4
	SoftwareThermal   Reason = 1 << 5
	HardwareThermal   Reason = 1 << 6
	PowerBrake        Reason = 1 << 7
	DisplayClocks     Reason = 1 << 8
)

// Throttling are the reasons that are limits of power or heat.
const Throttling = PowerCap | HardwareSlowdown | SoftwareThermal | HardwareThermal | PowerBrake

// reasons are the names, from the lowest bit on.
var reasons = []string{
	"idle", "application clocks", "power cap", "hardware slowdown", "sync boost", "software thermal slowdown",
	"hardware thermal slowdown", "power brake", "display clocks",
}

// List takes a set of reasons apart.
func (r Reason) List() (list []Reason) {
	for ; r != 0; r &= r - 1 {
		list = append(list, 1<<bits.TrailingZeros64(uint64(r)))
	}
	return list
}

// String names a single reason.
func (r Reason) String() string {
	if i := bits.TrailingZeros64(uint64(r)); i < len(reasons) {
		return reasons[i]
	}
	return fmt.Sprintf("reason %#x", uint64(r))
}
