package cudaapi

// A MemoryOp is what a call of the driver's does to the memory of its process, or to what says where and whose memory is.
type MemoryOp uint8

// The operations.
const (
	Allocates       MemoryOp = iota + 1 // memory, by its address or by the handle of an array
	Frees                               // the same
	Creates                             // physical memory, by a handle, which refers to it once
	Retains                             // adds a reference by the handle
	Releases                            // removes a reference; memory without references and mappings is freed
	Maps                                // physical memory to an address
	Unmaps                              // the mappings in a range of addresses
	MakesPool                           // a pool, from which memory is allocated later
	BeginsCapture                       // of a stream: what allocates and frees in its order becomes nodes of a graph
	EndsCapture                         // the same
	MakesContext                        // a context, which is the thread's from now on
	FindsContext                        // the context of a device
	DestroysContext                     // and frees what was allocated in it
	ResetsDevice                        // frees what was allocated in the context of a device
	SelectsContext                      // a context is the thread's from now on
	PushesContext                       // the same, until PopsContext
	PopsContext                         // the context before is the thread's again
	SelectsDevice                       // a device is the thread's from now on
	lastAllocating  = Unmaps            // a recording without the functions of these operations has no figures of memory
)

// A memoryRow says what a function does to memory. at is the argument that has the address or the handle. bytes is
// the size: an argument, a product of two, or "array" for that of an array, whose shape is in arguments. Other arguments
// have the same name in all functions: pool, stream, device, context, and type, location and locationType of what is
// allocated.
type memoryRow struct {
	name  string // without _ptsz
	does  MemoryOp
	kind  uint32
	at    string
	bytes string
}

// memoryRows has the functions of the driver, since all that allocates passes the driver, and the one of the runtime that
// selects a device.
var memoryRows = []memoryRow{
	{"cuMemAlloc_v2", Allocates, DeviceKind, "devPtr", "bytes"},
	{"cuMemAllocPitch_v2", Allocates, DeviceKind, "devPtr", "pitch*height"},
	{"cuMemAllocManaged", Allocates, ManagedKind, "devPtr", "bytes"},
	{"cuMemAllocAsync", Allocates, DeviceKind, "devPtr", "bytes"},
	{"cuMemAllocFromPoolAsync", Allocates, DeviceKind, "devPtr", "bytes"},
	{"cuMemFree_v2", Frees, DeviceKind, "devPtr", ""},
	{"cuMemFreeAsync", Frees, DeviceKind, "devPtr", ""},
	{"cuMemAllocHost_v2", Allocates, PinnedKind, "hostPtr", "bytes"},
	{"cuMemHostAlloc", Allocates, PinnedKind, "hostPtr", "bytes"},
	{"cuMemFreeHost", Frees, PinnedKind, "hostPtr", ""},
	{"cuMemHostRegister_v2", Allocates, RegisteredKind, "hostPtr", "bytes"},
	{"cuMemHostRegister", Allocates, RegisteredKind, "hostPtr", "bytes"},
	{"cuMemHostUnregister", Frees, RegisteredKind, "hostPtr", ""},
	{"cuArrayCreate_v2", Allocates, ArrayKind, "array", "array"},
	{"cuArray3DCreate_v2", Allocates, ArrayKind, "array", "array"},
	{"cuArrayDestroy", Frees, ArrayKind, "array", ""},
	{"cuMipmappedArrayCreate", Allocates, ArrayKind, "mipmap", "array"},
	{"cuMipmappedArrayDestroy", Frees, ArrayKind, "mipmap", ""},
	{"cuMemCreate", Creates, PhysicalKind, "allocation", "bytes"},
	{"cuMemRetainAllocationHandle", Retains, PhysicalKind, "allocation", ""},
	{"cuMemRelease", Releases, PhysicalKind, "allocation", ""},
	{"cuMemMap", Maps, PhysicalKind, "devPtr", "bytes"},
	{"cuMemUnmap", Unmaps, PhysicalKind, "devPtr", "bytes"},
	{"cuMemPoolCreate", MakesPool, DeviceKind, "pool", ""},
	{"cuStreamBeginCapture", BeginsCapture, 0, "", ""},
	{"cuStreamBeginCapture_v2", BeginsCapture, 0, "", ""},
	{"cuStreamBeginCaptureToGraph", BeginsCapture, 0, "", ""},
	{"cuStreamEndCapture", EndsCapture, 0, "", ""},
	{"cuCtxCreate", MakesContext, 0, "context", ""},
	{"cuCtxCreate_v2", MakesContext, 0, "context", ""},
	{"cuCtxCreate_v3", MakesContext, 0, "context", ""},
	{"cuCtxCreate_v4", MakesContext, 0, "context", ""},
	{"cuDevicePrimaryCtxRetain", FindsContext, 0, "context", ""},
	{"cuCtxDestroy", DestroysContext, 0, "context", ""},
	{"cuCtxDestroy_v2", DestroysContext, 0, "context", ""},
	{"cuDevicePrimaryCtxReset", ResetsDevice, 0, "", ""},
	{"cuDevicePrimaryCtxReset_v2", ResetsDevice, 0, "", ""},
	{"cuCtxSetCurrent", SelectsContext, 0, "context", ""},
	{"cuCtxPushCurrent", PushesContext, 0, "context", ""},
	{"cuCtxPushCurrent_v2", PushesContext, 0, "context", ""},
	{"cuCtxPopCurrent", PopsContext, 0, "", ""},
	{"cuCtxPopCurrent_v2", PopsContext, 0, "", ""},
	{"cudaSetDevice", SelectsDevice, 0, "", ""},
}

var memoryOf = func() map[string]*memoryRow {
	rows := make(map[string]*memoryRow, len(memoryRows))
	for i := range memoryRows {
		rows[memoryRows[i].name] = &memoryRows[i]
	}
	return rows
}()

// Allocating says whether a function allocates or frees, or refers to physical memory.
func (f *Function) Allocating() bool {
	r := memoryOf[f.Base()]
	return r != nil && r.does <= lastAllocating
}
