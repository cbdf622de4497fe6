package cudaapi

// A row is a line of the table. Its args are in the order of the C prototype:
//
//	name:type         a recorded argument
//	*name:type        an out-pointer: the value that it points to after the call
//	{a@0:type ...}    a pointer to a struct, with the byte offsets of the recorded
//	                  fields; with * the fields that the call fills in
//	[24 a@0:type ...] a struct of 24 bytes that is passed by value
//	-                 an argument that is not recorded
//
// The arguments behind the last recorded one are left out.
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
	ptds                      // also exported for them as NAME_ptds: a function without a stream argument
	instead                   // carries out a function of the runtime, and is recorded only in a process without a runtime
	beside                    // carries out a function of the runtime, and is recorded beside it
	// a function of the runtime; the driver's within it is recorded in its place. Not in the default set
	within
	named   // names a kernel's handle by text
	derived // names a kernel's handle by another handle
	start   // starts a profiler
	stop    // stops a profiler
)

// Functions are extra if they are called often and cost less than a probe, or tell nothing about where time goes:
// queries, getters, the recording of events, the nodes of a graph that is built by hand. cudaSetDevice is not: it says
// on which GPU a thread allocates, and its first call makes the context. The runtime's functions for GPU work, and
// those that allocate and free in the order of a stream, are extra because the driver's are always probed. Array copies
// and 3D memsets stay: one call can become several driver calls.

// The groups of rows, in table order.
var (
	driverGroups  = [][]row{driverWork, driverMemory, driverStreams, driverGraphs, driverDevices, driverCode}
	runtimeGroups = [][]row{runtimeWork, runtimeMemory, runtimeStreams, runtimeGraphs, runtimeDevices, runtimeCode}
)
