package cudaapi

var runtimeCode = []row{
	{"cudaLibraryLoadData", "module", 0, "*library:handle image:ptr - - jitOptions:u32"},
	{"cudaLibraryLoadFromFile", "module", 0, "*library:handle - - - jitOptions:u32"},
	{"cudaLibraryUnload", "module", 0, "library:handle"},
	{"cudaLibraryGetKernel", "module", extra, "*kernel:handle library:handle name:ptr"},
	{"cudaLibraryGetKernelCount", "module", extra, "*count:u32 library:handle"},
	{"cudaLibraryGetGlobal", "module", extra, "*devPtr:ptr *bytes:size library:handle"},
	{"cudaLibraryGetManaged", "module", extra, "*devPtr:ptr *bytes:size library:handle"},
	{"cudaGetFuncBySymbol", "module", extra, "*function:handle symbol:ptr"},
	{"cudaGetKernel", "module", extra, "*kernel:handle symbol:ptr"},
	{"cudaKernelSetAttributeForDevice", "module", extra, "kernel:handle attribute:enum value:i32 device:i32"},
	{"cudaFuncGetAttributes", "module", extra, "- function:ptr"},
	{"cudaFuncSetAttribute", "module", extra, "function:ptr attribute:enum value:i32"},
	{"cudaFuncSetCacheConfig", "module", extra, "function:ptr config:enum"},
	{"cudaGetDriverEntryPoint", "module", extra | ptsz, "- *function:ptr flags:u64"},
	{"cudaGetDriverEntryPointByVersion", "module", extra | ptsz, "- *function:ptr version:u32 flags:u64"},

	{"cudaOccupancyMaxActiveBlocksPerMultiprocessor", "occupancy", extra,
		"*blocks:i32 function:ptr blockSize:i32 shared:size"},
	{"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "occupancy", extra,
		"*blocks:i32 function:ptr blockSize:i32 shared:size flags:u32"},
	{"cudaOccupancyAvailableDynamicSMemPerBlock", "occupancy", extra,
		"*shared:size function:ptr blocks:i32 blockSize:i32"},
	{"cudaOccupancyMaxPotentialClusterSize", "occupancy", extra, "*clusterSize:i32 function:ptr " + configC},
	{"cudaOccupancyMaxActiveClusters", "occupancy", extra, "*clusters:i32 function:ptr " + configC},

	{"cudaCreateTextureObject", "texture", extra, "*texture:u64 {resourceType@0:enum}"},
	{"cudaCreateTextureObject_v2", "texture", extra, "*texture:u64 {resourceType@0:enum}"},
	{"cudaDestroyTextureObject", "texture", extra, "texture:u64"},
	{"cudaCreateSurfaceObject", "texture", extra, "*surface:u64 {resourceType@0:enum}"},
	{"cudaDestroySurfaceObject", "texture", extra, "surface:u64"},
}
