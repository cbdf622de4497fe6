package cudaapi

// Recorded fields of the copy structs (cuda.h: CUDA_MEMCPY2D, CUDA_MEMCPY3D and
// CUDA_MEMCPY3D_PEER, whose fields lie where those of CUDA_MEMCPY3D do).
const (
	copy2D = "{srcType@16:enum srcHost@24:ptr srcDevice@32:ptr dstType@72:enum dstHost@80:ptr dstDevice@88:ptr " +
		"width@112:size height@120:size}"
	copy3D = "{srcType@32:enum srcHost@40:ptr srcDevice@48:ptr dstType@120:enum dstHost@128:ptr dstDevice@136:ptr " +
		"width@176:size height@184:size depth@192:size}"
)

// CUlaunchConfig of cuLaunchKernelEx, and the first CUDA_LAUNCH_PARAMS of a
// cooperative launch on several devices.
const (
	launchConfig = "{gridX@0:u32 gridY@4:u32 gridZ@8:u32 blockX@12:u32 blockY@16:u32 blockZ@20:u32 shared@24:u32 " +
		"stream@32:handle}"
	launchParams = "{function@0:handle gridX@8:u32 gridY@12:u32 gridZ@16:u32 blockX@20:u32 blockY@24:u32 blockZ@28:u32 " +
		"shared@32:u32 stream@40:handle}"
	shape = "gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle"
)

var driverWork = []row{
	{"cuLaunchKernel", "launch", work | launch | ptsz, "function:handle " + shape},
	{"cuLaunchKernelEx", "launch", work | launch | ptsz, launchConfig + " function:handle"},
	{"cuLaunchCooperativeKernel", "launch", work | launch | ptsz, "function:handle " + shape},
	{"cuLaunchCooperativeKernelMultiDevice", "launch", work | launch, launchParams + " devices:u32 flags:u32"},
	{"cuLaunch", "launch", work | launch, "function:handle"},
	{"cuLaunchGrid", "launch", work | launch, "function:handle gridX:i32 gridY:i32"},
	{"cuLaunchGridAsync", "launch", work | launch, "function:handle gridX:i32 gridY:i32 stream:handle"},
	{"cuGraphLaunch", "launch", work | launch | ptsz, "graphExec:handle stream:handle"},

	{"cuMemcpy", "copy", work | ptds, "dst:ptr src:ptr bytes:size"},
	{"cuMemcpyAsync", "copy", work | ptsz, "dst:ptr src:ptr bytes:size stream:handle"},
	{"cuMemcpyPeer", "copy", work | ptds, "dst:ptr dstContext:handle src:ptr srcContext:handle bytes:size"},
	{"cuMemcpyPeerAsync", "copy", work | ptsz,
		"dst:ptr dstContext:handle src:ptr srcContext:handle bytes:size stream:handle"},
	{"cuMemcpyHtoD_v2", "copy", work | ptds, "dst:ptr src:ptr bytes:size"},
	{"cuMemcpyHtoDAsync_v2", "copy", work | ptsz, "dst:ptr src:ptr bytes:size stream:handle"},
	{"cuMemcpyDtoH_v2", "copy", work | ptds, "dst:ptr src:ptr bytes:size"},
	{"cuMemcpyDtoHAsync_v2", "copy", work | ptsz, "dst:ptr src:ptr bytes:size stream:handle"},
	{"cuMemcpyDtoD_v2", "copy", work | ptds, "dst:ptr src:ptr bytes:size"},
	{"cuMemcpyDtoDAsync_v2", "copy", work | ptsz, "dst:ptr src:ptr bytes:size stream:handle"},
	{"cuMemcpyDtoA_v2", "copy", work | ptds, "dstArray:handle dstOffset:size src:ptr bytes:size"},
	{"cuMemcpyAtoD_v2", "copy", work | ptds, "dst:ptr srcArray:handle srcOffset:size bytes:size"},
	{"cuMemcpyHtoA_v2", "copy", work | ptds, "dstArray:handle dstOffset:size src:ptr bytes:size"},
	{"cuMemcpyHtoAAsync_v2", "copy", work | ptsz, "dstArray:handle dstOffset:size src:ptr bytes:size stream:handle"},
	{"cuMemcpyAtoH_v2", "copy", work | ptds, "dst:ptr srcArray:handle srcOffset:size bytes:size"},
	{"cuMemcpyAtoHAsync_v2", "copy", work | ptsz, "dst:ptr srcArray:handle srcOffset:size bytes:size stream:handle"},
	{"cuMemcpyAtoA_v2", "copy", work | ptds, "dstArray:handle dstOffset:size srcArray:handle srcOffset:size bytes:size"},
	{"cuMemcpy2D_v2", "copy", work | ptds, copy2D},
	{"cuMemcpy2DUnaligned_v2", "copy", work | ptds, copy2D},
	{"cuMemcpy2DAsync_v2", "copy", work | ptsz, copy2D + " stream:handle"},
	{"cuMemcpy3D_v2", "copy", work | ptds, copy3D},
	{"cuMemcpy3DAsync_v2", "copy", work | ptsz, copy3D + " stream:handle"},
	{"cuMemcpy3DPeer", "copy", work | ptds, copy3D},
	{"cuMemcpy3DPeerAsync", "copy", work | ptsz, copy3D + " stream:handle"},
	{"cuMemcpyBatchAsync", "copy", work | ptsz, "dsts:ptr srcs:ptr sizes:ptr count:size - - - - stream:handle"},
	{"cuMemcpyBatchAsync_v2", "copy", work | ptsz, "dsts:ptr srcs:ptr sizes:ptr count:size - - - stream:handle"},
	{"cuMemcpy3DBatchAsync", "copy", work | ptsz, "count:size operations:ptr - flags:u64 stream:handle"},
	{"cuMemcpy3DBatchAsync_v2", "copy", work | ptsz, "count:size operations:ptr flags:u64 stream:handle"},

	{"cuMemsetD8_v2", "memset", work | ptds, "dst:ptr value:u32 count:size"},
	{"cuMemsetD8Async", "memset", work | ptsz, "dst:ptr value:u32 count:size stream:handle"},
	{"cuMemsetD16_v2", "memset", work | ptds, "dst:ptr value:u32 count:size"},
	{"cuMemsetD16Async", "memset", work | ptsz, "dst:ptr value:u32 count:size stream:handle"},
	{"cuMemsetD32_v2", "memset", work | ptds, "dst:ptr value:u32 count:size"},
	{"cuMemsetD32Async", "memset", work | ptsz, "dst:ptr value:u32 count:size stream:handle"},
	{"cuMemsetD2D8_v2", "memset", work | ptds, "dst:ptr pitch:size value:u32 width:size height:size"},
	{"cuMemsetD2D8Async", "memset", work | ptsz, "dst:ptr pitch:size value:u32 width:size height:size stream:handle"},
	{"cuMemsetD2D16_v2", "memset", work | ptds, "dst:ptr pitch:size value:u32 width:size height:size"},
	{"cuMemsetD2D16Async", "memset", work | ptsz, "dst:ptr pitch:size value:u32 width:size height:size stream:handle"},
	{"cuMemsetD2D32_v2", "memset", work | ptds, "dst:ptr pitch:size value:u32 width:size height:size"},
	{"cuMemsetD2D32Async", "memset", work | ptsz, "dst:ptr pitch:size value:u32 width:size height:size stream:handle"},
}
