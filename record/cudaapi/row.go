package cudaapi

// A row is a line of the table. Its args are in the order of the C prototype:
//
//	name:type         a recorded argument
//	*name:type        an out-pointer: what it points to after the call
//	{a@0:type ...}    a pointer to a struct, with the byte offsets of recorded
//	                  fields; with * those that the call fills in
//	[24 a@0:type ...] a struct of 24 bytes that is passed by value
//	-                 an argument that is not recorded
//
// What follows the last recorded argument is left out.
type row struct {
	name     string
	category string
	traits   trait
	args     string
}

// A trait is a property of a row.
type trait uint16

const (
	work    trait = 1 << iota // puts work on a GPU
	launch                    // belongs to the minimal set
	extra                     // not in the default set
	ptsz                      // also exported for per-thread default streams as NAME_ptsz
	ptds                      // the same, NAME_ptds: a call without a stream argument
	instead                   // traced only where the process has no runtime
	named                     // names a kernel's handle by text
	derived                   // names a kernel's handle by another one
	start                     // starts a range to be profiled
	stop                      // ends it
)

// Which rows are extra? Those that are called often and cost less than a probe does,
// or tell nothing about where time goes: queries, getters, the recording of events,
// the nodes of a graph that is built by hand. The runtime's functions for GPU work
// are extra as the driver's are always probed.

// The groups of rows, in table order.
var (
	driverGroups  = [][]row{driverWork, driverMemory, driverStreams, driverGraphs, driverDevices, driverCode}
	runtimeGroups = [][]row{runtimeWork, runtimeMemory, runtimeStreams, runtimeGraphs, runtimeDevices, runtimeCode}
)
