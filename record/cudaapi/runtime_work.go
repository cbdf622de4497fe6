package cudaapi

// Recorded fields of dim3 by value, cudaLaunchConfig_t, cudaLaunchParams,
// cudaMemcpy3DParms, cudaMemcpy3DPeerParms, and of cudaPitchedPtr and cudaExtent by
// value (driver_types.h).
const (
	dims = "[12 gridX@0:u32 gridY@4:u32 gridZ@8:u32] [12 blockX@0:u32 blockY@4:u32 blockZ@8:u32] - shared:size " +
		"stream:handle"
	configC = "{gridX@0:u32 gridY@4:u32 gridZ@8:u32 blockX@12:u32 blockY@16:u32 blockZ@20:u32 shared@24:size " +
		"stream@32:handle}"
	paramsC = "{function@0:ptr gridX@8:u32 gridY@12:u32 gridZ@16:u32 blockX@20:u32 blockY@24:u32 blockZ@28:u32 " +
		"shared@40:size stream@48:handle}"
	copy3DC     = "{src@32:ptr dst@96:ptr width@128:size height@136:size depth@144:size kind@152:enum}"
	copy3DPeerC = "{src@32:ptr srcDevice@64:i32 dst@104:ptr dstDevice@136:i32 width@144:size height@152:size " +
		"depth@160:size}"
	pitched = "[32 dst@0:ptr pitch@8:size]"
	extent  = "[24 width@0:size height@8:size depth@16:size]"
)

var runtimeWork = []row{
	{"cudaLaunchKernel", "launch", extra | ptsz, "function:ptr " + dims},
	{"__cudaLaunchKernel", "launch", extra | ptsz, "kernel:handle " + dims},
	{"cudaLaunchKernelExC", "launch", extra | ptsz, configC + " function:ptr"},
	{"cudaLaunchCooperativeKernel", "launch", extra | ptsz, "function:ptr " + dims},
	{"cudaLaunchCooperativeKernelMultiDevice", "launch", extra, paramsC + " devices:u32 flags:u32"},
	{"cudaGraphLaunch", "launch", extra | ptsz, "graphExec:handle stream:handle"},

	{"cudaMemcpy", "copy", extra | ptds, "dst:ptr src:ptr bytes:size kind:enum"},
	{"cudaMemcpyAsync", "copy", extra | ptsz, "dst:ptr src:ptr bytes:size kind:enum stream:handle"},
	{"cudaMemcpyPeer", "copy", extra, "dst:ptr dstDevice:i32 src:ptr srcDevice:i32 bytes:size"},
	{"cudaMemcpyPeerAsync", "copy", extra, "dst:ptr dstDevice:i32 src:ptr srcDevice:i32 bytes:size stream:handle"},
	{"cudaMemcpy2D", "copy", extra | ptds, "dst:ptr dstPitch:size src:ptr srcPitch:size width:size height:size kind:enum"},
	{"cudaMemcpy2DAsync", "copy", extra | ptsz, "dst:ptr dstPitch:size src:ptr srcPitch:size width:size height:size " +
		"kind:enum stream:handle"},
	{"cudaMemcpy2DToArray", "copy", extra | ptds, "dstArray:handle x:size y:size src:ptr srcPitch:size width:size " +
		"height:size kind:enum"},
	{"cudaMemcpy2DToArrayAsync", "copy", extra | ptsz,
		"dstArray:handle x:size y:size src:ptr srcPitch:size width:size height:size kind:enum stream:handle"},
	{"cudaMemcpy2DFromArray", "copy", extra | ptds, "dst:ptr dstPitch:size srcArray:handle x:size y:size width:size " +
		"height:size kind:enum"},
	{"cudaMemcpy2DFromArrayAsync", "copy", extra | ptsz,
		"dst:ptr dstPitch:size srcArray:handle x:size y:size width:size height:size kind:enum stream:handle"},
	{"cudaMemcpy2DArrayToArray", "copy", extra | ptds,
		"dstArray:handle dstX:size dstY:size srcArray:handle srcX:size srcY:size width:size height:size kind:enum"},
	{"cudaMemcpyToArray", "copy", ptds, "dstArray:handle x:size y:size src:ptr bytes:size kind:enum"},
	{"cudaMemcpyToArrayAsync", "copy", ptsz, "dstArray:handle x:size y:size src:ptr bytes:size kind:enum stream:handle"},
	{"cudaMemcpyFromArray", "copy", ptds, "dst:ptr srcArray:handle x:size y:size bytes:size kind:enum"},
	{"cudaMemcpyFromArrayAsync", "copy", ptsz, "dst:ptr srcArray:handle x:size y:size bytes:size kind:enum stream:handle"},
	{"cudaMemcpyArrayToArray", "copy", ptds, "dstArray:handle dstX:size dstY:size srcArray:handle srcX:size srcY:size " +
		"bytes:size kind:enum"},
	{"cudaMemcpyToSymbol", "copy", extra | ptds, "symbol:ptr src:ptr bytes:size offset:size kind:enum"},
	{"cudaMemcpyToSymbolAsync", "copy", extra | ptsz, "symbol:ptr src:ptr bytes:size offset:size kind:enum stream:handle"},
	{"cudaMemcpyFromSymbol", "copy", extra | ptds, "dst:ptr symbol:ptr bytes:size offset:size kind:enum"},
	{"cudaMemcpyFromSymbolAsync", "copy", extra | ptsz,
		"dst:ptr symbol:ptr bytes:size offset:size kind:enum stream:handle"},
	{"cudaMemcpy3D", "copy", extra | ptds, copy3DC},
	{"cudaMemcpy3DAsync", "copy", extra | ptsz, copy3DC + " stream:handle"},
	{"cudaMemcpy3DPeer", "copy", extra | ptds, copy3DPeerC},
	{"cudaMemcpy3DPeerAsync", "copy", extra | ptsz, copy3DPeerC + " stream:handle"},
	{"cudaMemcpyBatchAsync", "copy", extra | ptsz, "dsts:ptr srcs:ptr sizes:ptr count:size"},
	{"cudaMemcpy3DBatchAsync", "copy", extra | ptsz, "count:size operations:ptr"},

	{"cudaMemset", "memset", extra | ptds, "dst:ptr value:i32 bytes:size"},
	{"cudaMemsetAsync", "memset", extra | ptsz, "dst:ptr value:i32 bytes:size stream:handle"},
	{"cudaMemset2D", "memset", extra | ptds, "dst:ptr pitch:size value:i32 width:size height:size"},
	{"cudaMemset2DAsync", "memset", extra | ptsz, "dst:ptr pitch:size value:i32 width:size height:size stream:handle"},
	{"cudaMemset3D", "memset", ptds, pitched + " value:i32 " + extent},
	{"cudaMemset3DAsync", "memset", ptsz, pitched + " value:i32 " + extent + " stream:handle"},
}
