package cudaapi

// Recorded fields of cudaKernelNodeParams and cudaMemsetParams.
const (
	kernelNodeC = "{function@0:ptr gridX@8:u32 gridY@12:u32 gridZ@16:u32 blockX@20:u32 blockY@24:u32 blockZ@28:u32 " +
		"shared@32:u32}"
	memsetNodeC = "{dst@0:ptr pitch@8:size value@16:u32 elementBytes@20:u32 width@24:size height@32:size}"
)

var runtimeGraphs = []row{
	{"cudaStreamBeginCapture", "graph", ptsz, "stream:handle mode:enum"},
	{"cudaStreamBeginCaptureToGraph", "graph", ptsz, "stream:handle graph:handle - - dependencies:size mode:enum"},
	{"cudaStreamEndCapture", "graph", ptsz, "stream:handle *graph:handle"},
	{"cudaStreamIsCapturing", "graph", extra | ptsz, "stream:handle *status:enum"},
	{"cudaStreamGetCaptureInfo", "graph", extra | ptsz, "stream:handle *status:enum *id:u64"},
	{"cudaStreamGetCaptureInfo_v2", "graph", extra | ptsz, "stream:handle *status:enum *id:u64"},
	{"cudaStreamGetCaptureInfo_v3", "graph", extra | ptsz, "stream:handle *status:enum *id:u64"},
	{"cudaStreamUpdateCaptureDependencies", "graph", extra | ptsz, "stream:handle"},
	{"cudaThreadExchangeStreamCaptureMode", "graph", extra, "*mode:enum"},
	{"cudaGraphCreate", "graph", 0, "*graph:handle flags:u32"},
	{"cudaGraphClone", "graph", 0, "*clone:handle graph:handle"},
	{"cudaGraphDestroy", "graph", 0, "graph:handle"},
	{"cudaGraphInstantiate", "graph", 0, "*graphExec:handle graph:handle"},
	{"cudaGraphInstantiateWithFlags", "graph", 0, "*graphExec:handle graph:handle flags:u64"},
	{"cudaGraphInstantiateWithParams", "graph", ptsz,
		"*graphExec:handle graph:handle {flags@0:u64 uploadStream@8:handle}"},
	{"cudaGraphExecUpdate", "graph", 0, "graphExec:handle graph:handle"},
	{"cudaGraphUpload", "graph", ptsz, "graphExec:handle stream:handle"},
	{"cudaGraphExecDestroy", "graph", 0, "graphExec:handle"},
	{"cudaGraphAddKernelNode", "graph", extra, newNode + " " + kernelNodeC},
	{"cudaGraphAddMemcpyNode", "graph", extra, newNode + " " + copy3DC},
	{"cudaGraphAddMemcpyNode1D", "graph", extra, newNode + " dst:ptr src:ptr bytes:size kind:enum"},
	{"cudaGraphAddMemsetNode", "graph", extra, newNode + " " + memsetNodeC},
	{"cudaGraphAddHostNode", "graph", extra, newNode + " {callback@0:ptr userData@8:ptr}"},
	{"cudaGraphAddChildGraphNode", "graph", extra, newNode + " childGraph:handle"},
	{"cudaGraphAddEmptyNode", "graph", extra, newNode},
	{"cudaGraphAddEventRecordNode", "graph", extra, newNode + " event:handle"},
	{"cudaGraphAddEventWaitNode", "graph", extra, newNode + " event:handle"},
	{"cudaGraphAddMemAllocNode", "graph", extra, newNode},
	{"cudaGraphAddMemFreeNode", "graph", extra, newNode + " devPtr:ptr"},
	{"cudaGraphAddNode", "graph", extra, "*node:handle graph:handle"},
	{"cudaGraphAddDependencies", "graph", extra, "graph:handle"},
	{"cudaGraphDestroyNode", "graph", extra, "node:handle"},
	{"cudaGraphGetNodes", "graph", extra, "graph:handle - *nodes:size"},
	{"cudaGraphKernelNodeSetParams", "graph", extra, "node:handle " + kernelNodeC},
	{"cudaGraphExecKernelNodeSetParams", "graph", extra, "graphExec:handle node:handle " + kernelNodeC},
	{"cudaGraphExecMemcpyNodeSetParams", "graph", extra, "graphExec:handle node:handle " + copy3DC},
	{"cudaGraphExecMemcpyNodeSetParams1D", "graph", extra,
		"graphExec:handle node:handle dst:ptr src:ptr bytes:size kind:enum"},
	{"cudaGraphExecMemsetNodeSetParams", "graph", extra, "graphExec:handle node:handle " + memsetNodeC},
	{"cudaGraphExecHostNodeSetParams", "graph", extra, "graphExec:handle node:handle {callback@0:ptr userData@8:ptr}"},
	{"cudaGraphExecChildGraphNodeSetParams", "graph", extra, "graphExec:handle node:handle childGraph:handle"},
	{"cudaGraphExecNodeSetParams", "graph", extra, "graphExec:handle node:handle {type@0:enum}"},
	{"cudaGraphNodeSetEnabled", "graph", extra, "graphExec:handle node:handle enabled:u32"},
	{"cudaGraphConditionalHandleCreate", "graph", extra, "*conditional:u64 graph:handle default:u32 flags:u32"},
	{"cudaGraphDebugDotPrint", "graph", extra, "graph:handle - flags:u32"},
}
