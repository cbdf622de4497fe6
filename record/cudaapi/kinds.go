package cudaapi

import "fmt"

// copyKinds is CUpti_ActivityMemcpyKind.
var copyKinds = [...]string{1: "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"}

// MemcpyKindName names the direction of a copy by CUPTI's number, "HtoD"; "unknown" for 0 and
// for a kind that has no name here.
func MemcpyKindName(kind uint32) string { return nameAt(copyKinds[:], kind) }

// memoryKinds is CUpti_ActivityMemoryKind.
var memoryKinds = [...]string{1: "Pageable", "Pinned", "Device", "Array", "Managed", "DeviceStatic", "ManagedStatic"}

// MemoryKindName names a kind of memory by CUPTI's number or by one of those beside it, "Pinned"; "unknown" for 0 and
// for a kind that has no name here.
func MemoryKindName(kind uint32) string {
	switch kind {
	case RegisteredKind:
		return "Registered"
	case PhysicalKind:
		return "Physical"
	case PhysicalHostKind:
		return "PhysicalHost"
	}
	return nameAt(memoryKinds[:], kind)
}

// Values of CUpti_ActivityMemcpyKind: copies between the host and memory or arrays of a device, and within
// a device.
const (
	MemcpyHtoD = 1
	MemcpyDtoH = 2
	MemcpyHtoA = 3
	MemcpyAtoH = 4
	MemcpyDtoD = 8
)

// Values of CUpti_ActivityMemoryKind.
const (
	PageableKind = 1
	PinnedKind   = 2
	DeviceKind   = 3
	ArrayKind    = 4
	ManagedKind  = 5
)

// Kinds of memory beside those of CUPTI.
const (
	RegisteredKind   = 1<<16 + iota // memory of the program's that is pinned
	PhysicalKind                    // memory of a device that the program maps to addresses, by its handle
	PhysicalHostKind                // the same of the host
)

// A MemoryUse is the counter that a kind of memory adds to.
type MemoryUse uint8

// The uses of memory.
const (
	DeviceMemory MemoryUse = iota // also arrays and the variables of modules
	ManagedMemory
	PinnedMemory
	OtherMemory
)

var memoryUses = [...]string{
	DeviceMemory: "device", ManagedMemory: "managed", PinnedMemory: "pinned", OtherMemory: "other",
}

func (u MemoryUse) String() string { return memoryUses[u] }

// MemoryUseOf returns the use of a CUpti_ActivityMemoryKind.
func MemoryUseOf(kind uint32) MemoryUse {
	switch kind {
	case DeviceKind, ArrayKind, 6, PhysicalKind:
		return DeviceMemory
	case ManagedKind, 7:
		return ManagedMemory
	case PinnedKind, RegisteredKind, PhysicalHostKind:
		return PinnedMemory
	}
	return OtherMemory
}

// Operations on memory, CUpti_ActivityMemoryOperationType.
const (
	MemoryAllocated = 1
	MemoryReleased  = 2
)

// LocalPool is the CUpti_ActivityMemoryPoolType of a pool that no other process exported.
const LocalPool = 1

// PoolDestroyed is the CUpti_ActivityMemoryPoolOperationType of a pool's end.
const PoolDestroyed = 2

// poolOperations is CUpti_ActivityMemoryPoolOperationType.
var poolOperations = [...]string{1: "created", PoolDestroyed: "destroyed", 3: "trimmed"}

// PoolOperationName names an operation on a memory pool, "created"; "changed" for one that has
// no name here.
func PoolOperationName(operation uint32) string {
	if name := nameAt(poolOperations[:], operation); name != unknown {
		return name
	}
	return "changed"
}

// overheadKinds is CUpti_ActivityOverheadKind. One kind is the driver's; CUPTI's own kinds have
// the upper half of the number.
var overheadKinds = map[uint32]string{
	0:       "unknown overhead",
	1:       "driver compiler",
	1 << 16: "CUPTI buffer flush",
	2 << 16: "CUPTI instrumentation",
	3 << 16: "CUPTI resource",
	4 << 16: "runtime triggered module loading",
	5 << 16: "lazy function loading",
	6 << 16: "command buffer full",
	7 << 16: "CUPTI activity buffer request",
	8 << 16: "unified memory activity start",
}

// OverheadName names a kind of overhead by CUPTI's number.
func OverheadName(kind uint32) string {
	if name, ok := overheadKinds[kind]; ok {
		return name
	}
	return fmt.Sprintf("overhead of kind %#x", kind)
}

const unknown = "unknown"

func nameAt(names []string, kind uint32) string {
	if uint64(kind) < uint64(len(names)) && names[kind] != "" {
		return names[kind]
	}
	return unknown
}
