package cudaapi

import (
	"math"
	"math/bits"
	"strings"
)

// A MemoryOp is what a call of the driver's does to the memory of its process, or to what says where and whose memory
// is.
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

// A memoryRow says what a function does to memory. at is the argument that has the address or the handle. bytes is the
// size: an argument, a product of two, or "array" for that of an array, whose shape is in arguments. Other arguments
// have the same name in all functions: pool, stream, device, context, and type, location and locationType of what is
// allocated.
type memoryRow struct {
	name  string // without _ptsz
	does  MemoryOp
	kind  uint32
	at    string
	bytes string
}

// memoryRows has the functions of the driver, since all that allocates passes the driver, and those of the runtime that
// select and reset a device.
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
	{"cudaDeviceReset", ResetsDevice, 0, "", ""},
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

// WithoutMemory lists the functions that allocate or free and are not among those chosen: without them nothing is known
// of the memory of processes. Those of other spellings stand for each other.
func WithoutMemory(chosen []*Function) (missing []string) {
	has := make(map[string]bool, len(chosen))
	for _, f := range chosen {
		has[f.Base()] = true
	}
	for i := range memoryRows {
		if r := &memoryRows[i]; r.does <= lastAllocating && !has[r.name] {
			missing = append(missing, r.name)
		}
	}
	return missing
}

// Allocating reports whether a function allocates or frees, or refers to physical memory.
func (f *Function) Allocating() bool {
	r := memoryOf[f.Base()]
	return r != nil && r.does <= lastAllocating
}

// ContextArgument is the argument, behind those of the function, that has CUPTI's number of the thread's context, where
// calls are from CUPTI's callbacks.
const ContextArgument = "cuptiContext"

// A Place is where CUPTI's callbacks find a recorded value of a call: the arguments lie there as in a struct.
type Place struct {
	At, Bytes int
	Out       bool // there is a pointer, to what is Offset bytes behind
	Offset    int
}

// Shown returns where CUPTI's callbacks find the recorded arguments of a function of the driver that does something to
// memory, in their order; nil for any other function.
func (f *Function) Shown() (places []Place) {
	if f.Library != Driver || memoryOf[f.Base()] == nil {
		return nil
	}
	at, next := 0, 0 // of the argument before, and of the one behind it
	for index, i := 0, 0; i < len(f.Args); index++ {
		size := 8
		if a := f.Args[i]; a.Index == index && a.From == FromArgument {
			size = a.Type.Bytes()
		}
		at = (next + size - 1) / size * size
		next = at + size
		for ; i < len(f.Args) && f.Args[i].Index == index; i++ {
			a := f.Args[i]
			if a.From == FromValue {
				return nil
			}
			places = append(places, Place{at, a.Type.Bytes(), a.From != FromArgument, a.Offset})
		}
	}
	return places
}

// NoDevice stands for a device that is not known.
const NoDevice = math.MaxUint32

// A MemoryCall is what one call does.
type MemoryCall struct {
	Does    MemoryOp
	Kind    uint32 // CUpti_ActivityMemoryKind, or one of those beside it
	Address uint64 // or the handle of an array, of physical memory, of a pool or of a context
	Bytes   uint64
	Of      uint64 // Maps: the handle of the physical memory
	Pool    uint64 // 0 where the call names none
	Stream  uint64 // the handle, 0 for a default stream
	Ordered bool   // in the order of a stream
	Device  uint32 // as the process numbers it, NoDevice where the call does not say it
	Context uint32 // CUPTI's number of the thread's context, 0 where it is not known
}

// A MemoryReader reads what calls of a function do from their recorded arguments.
type MemoryReader struct {
	row                             *memoryRow
	at, of, pool, stream, device    int // indexes of arguments, -1 for none
	kind, place, placed             int // type, locationType, location
	context                         int // ContextArgument
	factors                         []int
	width, height, depth            int
	format, channels, levels, flags int
	isArray                         bool
}

// ReadMemory returns a reader for the calls of a function whose recorded arguments are listed as ArgSpec does. It is
// nil for a function that does nothing to memory, and for one whose arguments lack what has to be known.
func ReadMemory(name, spec string) *MemoryReader {
	f := Function{Name: name}
	row := memoryOf[f.Base()]
	if row == nil {
		return nil
	}
	args := make(map[string]int)
	for i, word := range strings.Fields(spec) {
		arg, _, _ := strings.Cut(word, ":")
		args[arg] = i
	}
	complete := true // all that is needed is there
	find := func(arg string, needed bool) int {
		i, ok := args[arg]
		if !ok {
			complete = complete && !needed
			return -1
		}
		return i
	}
	r := &MemoryReader{row: row, at: find(row.at, row.at != ""), of: -1, pool: -1,
		stream:  find("stream", row.does == BeginsCapture || row.does == EndsCapture),
		device:  find("device", row.does == SelectsDevice),
		context: find(ContextArgument, false),
		kind:    find("type", false), place: find("locationType", false), placed: find("location", false),
		isArray: row.bytes == "array"}
	switch row.does {
	case Maps:
		r.of = find("allocation", true)
	case Allocates:
		r.pool = find("pool", false)
	}
	if r.isArray {
		r.width, r.height, r.format, r.channels = find("width", true), find("height", true), find("format", true),
			find("channels", true)
		r.depth, r.levels, r.flags = find("depth", false), find("levels", false), find("flags", false)
	} else if row.bytes != "" {
		for _, factor := range strings.Split(row.bytes, "*") {
			r.factors = append(r.factors, find(factor, true))
		}
	}
	if !complete {
		return nil
	}
	return r
}

// Locates reports whether calls say on which device what they make lies.
func (r *MemoryReader) Locates() bool {
	return r.place >= 0 && r.placed >= 0 && (r.row.does == Creates || r.row.does == MakesPool)
}

// captureOfOtherThread is the result of a call that ends the capture of another thread: the capture goes on.
const captureOfOtherThread = 908

// Read returns what a call does that has returned. ok is false for a call that does nothing: it failed, or has no
// address.
func (r *MemoryReader) Read(args []uint64, ret int32) (c MemoryCall, ok bool) {
	value := func(i int) uint64 {
		if i < 0 || i >= len(args) {
			return 0
		}
		return args[i]
	}
	c = MemoryCall{Does: r.row.does, Kind: r.row.kind, Address: value(r.at), Of: value(r.of), Pool: value(r.pool),
		Stream:  value(r.stream),
		Ordered: r.stream >= 0, Device: NoDevice, Context: uint32(value(r.context))}
	if r.device >= 0 {
		c.Device = uint32(value(r.device))
	}
	switch {
	case c.Does == EndsCapture && ret != captureOfOtherThread:
		return c, true // a capture that failed has ended, too
	case ret != 0, r.at >= 0 && c.Address == 0 && c.Does != SelectsContext && c.Does != PushesContext:
		return c, false
	}
	r.locate(&c, value)
	return c, r.size(&c, value)
}

// OutOfMemory is the error of both libraries that there is no memory.
const OutOfMemory = 2

// Requested returns what a call asked for that failed. ok is false for a function that allocates no memory.
func (r *MemoryReader) Requested(args []uint64) (c MemoryCall, ok bool) {
	value := func(i int) uint64 {
		if i < 0 || i >= len(args) {
			return 0
		}
		return args[i]
	}
	c = MemoryCall{Does: r.row.does, Kind: r.row.kind, Device: NoDevice, Context: uint32(value(r.context))}
	r.locate(&c, value)
	return c, (c.Does == Allocates || c.Does == Creates) && r.size(&c, value)
}

// size sets how many bytes a call allocates. It reports false for an array without memory.
func (r *MemoryReader) size(c *MemoryCall, value func(int) uint64) (ok bool) {
	c.Bytes = 1
	switch {
	case r.isArray:
		c.Bytes, ok = r.arrayBytes(value)
		return ok
	case len(r.factors) == 0:
		c.Bytes = 0
	}
	for _, i := range r.factors {
		c.Bytes = product(c.Bytes, value(i))
	}
	return true
}

// Numbers of CUmemLocationType and CUmemAllocationType.
const (
	onDevice    = 1
	onHost      = 2 // and those above, which name parts of the host
	managedType = 2
)

// locate sets where the memory of what is created lies, if the call says it.
func (r *MemoryReader) locate(c *MemoryCall, value func(int) uint64) {
	if !r.Locates() {
		return
	}
	switch place := value(r.place); {
	case value(r.kind) == managedType:
		c.Kind = ManagedKind
	case place == onDevice:
		c.Device = uint32(value(r.placed))
	case place >= onHost && c.Does == Creates:
		c.Kind = PhysicalHostKind
	case place >= onHost:
		c.Kind = PinnedKind
	}
}

// Flags of CUDA_ARRAY3D_DESCRIPTOR.
const (
	arrayLayered  = 0x01
	arrayCubemap  = 0x04
	arraySparse   = 0x40 // its memory is mapped later
	arrayDeferred = 0x80 // the same
)

// arrayBytes returns the bytes of an array's elements. ok is false for an array without memory.
func (r *MemoryReader) arrayBytes(value func(int) uint64) (n uint64, ok bool) {
	flags := value(r.flags)
	if flags&(arraySparse|arrayDeferred) != 0 {
		return 0, false
	}
	width, height, depth := value(r.width), max(value(r.height), 1), max(value(r.depth), 1)
	element := product(formatBytes(value(r.format)), value(r.channels))
	levels := min(max(value(r.levels), 1), 64)
	for level := range levels {
		planes := depth
		if flags&(arrayLayered|arrayCubemap) == 0 {
			planes = max(depth>>level, 1)
		}
		bytes := product(product(product(max(width>>level, 1), max(height>>level, 1)), planes), element)
		n = min(n+bytes, math.MaxInt64)
	}
	return n, true
}

// formatBytes is the number of bytes of a channel of a CUarray_format; 0 for formats whose channels have no bytes of
// their own.
func formatBytes(format uint64) uint64 {
	switch {
	case format == 0x01, format == 0x08, 0xc0 <= format && format <= 0xc2, 0xc6 <= format && format <= 0xc8:
		return 1
	case format == 0x02, format == 0x09, format == 0x10, 0xc3 <= format && format <= 0xc5, 0xc9 <= format &&
		format <= 0xcb:
		return 2
	case format == 0x03, format == 0x0a, format == 0x20:
		return 4
	}
	return 0
}

// product multiplies sizes. The result does not wrap, whatever a log holds.
func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return math.MaxInt64
	}
	return min(low, math.MaxInt64)
}
