package cudaapi

// copyKinds is CUpti_ActivityMemcpyKind.
var copyKinds = [...]string{1: "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"}

// MemcpyKindName names a copy's direction as CUPTI records it, "HtoD"; "unknown"
// for 0 and for kinds that have no name here.
func MemcpyKindName(kind uint32) string { return nameAt(copyKinds[:], kind) }

// memoryKinds is CUpti_ActivityMemoryKind.
var memoryKinds = [...]string{1: "Pageable", "Pinned", "Device", "Array", "Managed", "DeviceStatic", "ManagedStatic"}

// MemoryKindName names a kind of memory as CUPTI records it, "Pinned"; "unknown"
// for 0 and for kinds that have no name here.
func MemoryKindName(kind uint32) string { return nameAt(memoryKinds[:], kind) }

func nameAt(names []string, kind uint32) string {
	if uint64(kind) < uint64(len(names)) && names[kind] != "" {
		return names[kind]
	}
	return "unknown"
}
