package cudaapi

// Recorded fields of CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR and CUmemAllocationProp.
const (
	arrayShape   = "{width@0:size height@8:size format@16:enum channels@20:u32}"
	array3DShape = "{width@0:size height@8:size depth@16:size format@24:enum channels@28:u32 flags@32:u32}"
	allocation   = "{type@0:enum handleTypes@4:enum locationType@8:enum location@12:i32}"
	// CUmemLocation by value.
	location = "[8 locationType@0:enum location@4:i32]"
)

// The driver functions that the runtime has no form of are not instead of it: virtual
// memory, multicast, operations of a stream on memory.
var driverMemory = []row{
	{"cuMemAlloc_v2", "memory", instead, "*devPtr:ptr bytes:size"},
	{"cuMemAllocPitch_v2", "memory", instead, "*devPtr:ptr *pitch:size width:size height:size elementBytes:u32"},
	{"cuMemFree_v2", "memory", instead, "devPtr:ptr"},
	{"cuMemAllocHost_v2", "memory", instead, "*hostPtr:ptr bytes:size"},
	{"cuMemHostAlloc", "memory", instead, "*hostPtr:ptr bytes:size flags:u32"},
	{"cuMemFreeHost", "memory", instead, "hostPtr:ptr"},
	{"cuMemHostRegister_v2", "memory", instead, "hostPtr:ptr bytes:size flags:u32"},
	{"cuMemHostRegister", "memory", instead, "hostPtr:ptr bytes:size flags:u32"},
	{"cuMemHostUnregister", "memory", instead, "hostPtr:ptr"},
	{"cuMemHostGetDevicePointer_v2", "memory", extra | instead, "*devPtr:ptr hostPtr:ptr flags:u32"},
	{"cuMemHostGetFlags", "memory", extra | instead, "*flags:u32 hostPtr:ptr"},
	{"cuMemAllocManaged", "memory", instead, "*devPtr:ptr bytes:size flags:u32"},
	{"cuMemAllocAsync", "memory", ptsz | instead, "*devPtr:ptr bytes:size stream:handle"},
	{"cuMemAllocFromPoolAsync", "memory", ptsz | instead, "*devPtr:ptr bytes:size pool:handle stream:handle"},
	{"cuMemFreeAsync", "memory", ptsz | instead, "devPtr:ptr stream:handle"},
	{"cuMemGetInfo_v2", "memory", extra | instead, "*free:size *total:size"},
	{"cuMemGetAddressRange_v2", "memory", extra, "*base:ptr *bytes:size devPtr:ptr"},
	{"cuPointerGetAttribute", "memory", extra, "- attribute:enum devPtr:ptr"},
	{"cuPointerGetAttributes", "memory", extra | instead, "count:u32 - - devPtr:ptr"},
	{"cuPointerSetAttribute", "memory", extra, "- attribute:enum devPtr:ptr"},

	{"cuArrayCreate_v2", "memory", instead, "*array:handle " + arrayShape},
	{"cuArray3DCreate_v2", "memory", instead, "*array:handle " + array3DShape},
	{"cuArrayDestroy", "memory", instead, "array:handle"},
	{"cuMipmappedArrayCreate", "memory", instead, "*mipmap:handle " + array3DShape + " levels:u32"},
	{"cuMipmappedArrayDestroy", "memory", instead, "mipmap:handle"},
	{"cuMipmappedArrayGetLevel", "memory", extra | instead, "*array:handle mipmap:handle level:u32"},

	{"cuMemPoolCreate", "memory", instead, "*pool:handle " + allocation},
	{"cuMemPoolDestroy", "memory", instead, "pool:handle"},
	{"cuMemPoolTrimTo", "memory", instead, "pool:handle minBytesToKeep:size"},
	{"cuMemPoolSetAttribute", "memory", extra | instead, "pool:handle attribute:enum"},
	{"cuMemPoolGetAttribute", "memory", extra | instead, "pool:handle attribute:enum"},
	{"cuMemPoolSetAccess", "memory", extra | instead, "pool:handle - count:size"},
	{"cuMemPoolGetAccess", "memory", extra | instead, "*flags:enum pool:handle"},
	{"cuDeviceGetDefaultMemPool", "memory", extra | instead, "*pool:handle device:i32"},
	{"cuDeviceGetMemPool", "memory", extra | instead, "*pool:handle device:i32"},
	{"cuDeviceSetMemPool", "memory", extra | instead, "device:i32 pool:handle"},
	{"cuDeviceGraphMemTrim", "memory", instead, "device:i32"},

	{"cuMemPrefetchAsync", "memory", ptsz | instead, "devPtr:ptr bytes:size device:i32 stream:handle"},
	{"cuMemPrefetchAsync_v2", "memory", ptsz | instead, "devPtr:ptr bytes:size " + location + " flags:u32 stream:handle"},
	{"cuMemPrefetchBatchAsync", "memory", ptsz | instead, "devPtrs:ptr sizes:ptr count:size - - - flags:u64 stream:handle"},
	{"cuMemDiscardBatchAsync", "memory", ptsz | instead, "devPtrs:ptr sizes:ptr count:size flags:u64 stream:handle"},
	{"cuMemDiscardAndPrefetchBatchAsync", "memory", ptsz | instead, "devPtrs:ptr sizes:ptr count:size - - - flags:u64 stream:handle"},
	{"cuMemAdvise", "memory", instead, "devPtr:ptr bytes:size advice:enum device:i32"},
	{"cuMemAdvise_v2", "memory", instead, "devPtr:ptr bytes:size advice:enum " + location},
	{"cuMemRangeGetAttribute", "memory", extra | instead, "- - attribute:enum devPtr:ptr bytes:size"},

	{"cuMemAddressReserve", "memory", 0, "*devPtr:ptr bytes:size alignment:size address:ptr flags:u64"},
	{"cuMemAddressFree", "memory", 0, "devPtr:ptr bytes:size"},
	{"cuMemCreate", "memory", 0, "*allocation:handle bytes:size " + allocation + " flags:u64"},
	{"cuMemRelease", "memory", 0, "allocation:handle"},
	{"cuMemMap", "memory", 0, "devPtr:ptr bytes:size offset:size allocation:handle flags:u64"},
	{"cuMemMapArrayAsync", "memory", ptsz, "- count:u32 stream:handle"},
	{"cuMemUnmap", "memory", 0, "devPtr:ptr bytes:size"},
	{"cuMemSetAccess", "memory", 0, "devPtr:ptr bytes:size {locationType@0:enum location@4:i32 flags@8:enum} count:size"},
	{"cuMemGetAccess", "memory", extra, "*flags:u64 {locationType@0:enum location@4:i32} devPtr:ptr"},
	{"cuMemGetAllocationGranularity", "memory", extra, "*granularity:size " + allocation + " option:enum"},
	{"cuMemGetAllocationPropertiesFromHandle", "memory", extra, "{*type@0:enum *handleTypes@4:enum *locationType@8:enum *location@12:i32} allocation:handle"},
	{"cuMemRetainAllocationHandle", "memory", extra, "*allocation:handle address:ptr"},
	{"cuMulticastCreate", "memory", 0, "*multicast:handle {devices@0:u32 bytes@8:size handleTypes@16:u64 flags@24:u64}"},
	{"cuMulticastAddDevice", "memory", 0, "multicast:handle device:i32"},
	{"cuMulticastBindMem", "memory", 0, "multicast:handle offset:size allocation:handle allocationOffset:size bytes:size flags:u64"},
	{"cuMulticastBindAddr", "memory", 0, "multicast:handle offset:size devPtr:ptr bytes:size flags:u64"},
	{"cuMulticastUnbind", "memory", 0, "multicast:handle device:i32 offset:size bytes:size"},
	{"cuMulticastGetGranularity", "memory", extra, "*granularity:size {devices@0:u32 bytes@8:size} option:enum"},
	{"cuMemBatchDecompressAsync", "memory", ptsz, "operations:ptr count:size flags:u32 - stream:handle"},

	{"cuMemExportToShareableHandle", "ipc", 0, "- allocation:handle type:enum flags:u64"},
	{"cuMemImportFromShareableHandle", "ipc", 0, "*allocation:handle osHandle:ptr type:enum"},
	{"cuMemGetHandleForAddressRange", "ipc", extra, "- devPtr:ptr bytes:size type:enum flags:u64"},
	{"cuMemPoolExportToShareableHandle", "ipc", instead, "- pool:handle type:enum flags:u64"},
	{"cuMemPoolImportFromShareableHandle", "ipc", instead, "*pool:handle osHandle:ptr type:enum flags:u64"},
	{"cuMemPoolExportPointer", "ipc", instead, "- devPtr:ptr"},
	{"cuMemPoolImportPointer", "ipc", instead, "*devPtr:ptr pool:handle"},
	{"cuIpcGetMemHandle", "ipc", instead, "- devPtr:ptr"},
	{"cuIpcOpenMemHandle", "ipc", instead, "*devPtr:ptr [64] flags:u32"},
	{"cuIpcOpenMemHandle_v2", "ipc", instead, "*devPtr:ptr [64] flags:u32"},
	{"cuIpcCloseMemHandle", "ipc", instead, "devPtr:ptr"},
	{"cuIpcGetEventHandle", "ipc", instead, "- event:handle"},
	{"cuIpcOpenEventHandle", "ipc", instead, "*event:handle [64]"},

	{"cuImportExternalMemory", "external", instead, "*memory:handle {type@0:enum bytes@24:size flags@32:u32}"},
	{"cuExternalMemoryGetMappedBuffer", "external", instead, "*devPtr:ptr memory:handle {offset@0:u64 bytes@8:u64 flags@16:u32}"},
	{"cuDestroyExternalMemory", "external", instead, "memory:handle"},
	{"cuImportExternalSemaphore", "external", instead, "*semaphore:handle {type@0:enum}"},
	{"cuSignalExternalSemaphoresAsync", "external", ptsz | instead, "- - count:u32 stream:handle"},
	{"cuWaitExternalSemaphoresAsync", "external", ptsz | instead, "- - count:u32 stream:handle"},
	{"cuDestroyExternalSemaphore", "external", instead, "semaphore:handle"},
	{"cuGraphicsMapResources", "external", ptsz | instead, "count:u32 - stream:handle"},
	{"cuGraphicsUnmapResources", "external", ptsz | instead, "count:u32 - stream:handle"},
	{"cuGraphicsResourceGetMappedPointer_v2", "external", extra | instead, "*devPtr:ptr *bytes:size resource:handle"},
	{"cuGraphicsUnregisterResource", "external", instead, "resource:handle"},
}
