package cudaapi

// The first arguments of the functions that add a node to a graph, and the recorded fields of
// CUDA_KERNEL_NODE_PARAMS and CUDA_MEMSET_NODE_PARAMS.
const (
	newNode    = "*node:handle graph:handle - dependencies:size"
	kernelNode = "{function@0:handle gridX@8:u32 gridY@12:u32 gridZ@16:u32 blockX@20:u32 blockY@24:u32 blockZ@28:u32 " +
		"shared@32:u32}"
	memsetNode = "{dst@0:ptr pitch@8:size value@16:u32 elementBytes@20:u32 width@24:size height@32:size}"
)

// While a stream is captured, what allocates and frees in its order becomes nodes: the captures are recorded beside the
// runtime's.
var driverGraphs = []row{
	{"cuStreamBeginCapture", "graph", ptsz | beside, "stream:handle"},
	{"cuStreamBeginCapture_v2", "graph", ptsz | beside, "stream:handle mode:enum"},
	{"cuStreamBeginCaptureToGraph", "graph", ptsz | beside, "stream:handle graph:handle - - dependencies:size mode:enum"},
	{"cuStreamEndCapture", "graph", ptsz | beside, "stream:handle *graph:handle"},
	{"cuStreamIsCapturing", "graph", extra | ptsz | instead, "stream:handle *status:enum"},
	{"cuStreamGetCaptureInfo", "graph", extra | ptsz | instead, "stream:handle *status:enum *id:u64"},
	{"cuStreamGetCaptureInfo_v2", "graph", extra | ptsz | instead, "stream:handle *status:enum"},
	{"cuStreamGetCaptureInfo_v3", "graph", extra | ptsz | instead, "stream:handle *status:enum"},
	{"cuStreamUpdateCaptureDependencies", "graph", extra | ptsz | instead, "stream:handle - dependencies:size flags:u32"},
	{"cuStreamUpdateCaptureDependencies_v2", "graph", extra | ptsz | instead,
		"stream:handle - - dependencies:size flags:u32"},
	{"cuThreadExchangeStreamCaptureMode", "graph", extra | instead, "*mode:enum"},
	{"cuGraphCreate", "graph", instead, "*graph:handle flags:u32"},
	{"cuGraphClone", "graph", instead, "*clone:handle graph:handle"},
	{"cuGraphDestroy", "graph", instead, "graph:handle"},
	{"cuGraphInstantiate", "graph", instead, "*graphExec:handle graph:handle"},
	{"cuGraphInstantiate_v2", "graph", instead, "*graphExec:handle graph:handle"},
	{"cuGraphInstantiateWithFlags", "graph", instead, "*graphExec:handle graph:handle flags:u64"},
	{"cuGraphInstantiateWithParams", "graph", ptsz | instead,
		"*graphExec:handle graph:handle {flags@0:u64 uploadStream@8:handle}"},
	{"cuGraphExecUpdate", "graph", instead, "graphExec:handle graph:handle *errorNode:handle *result:enum"},
	{"cuGraphExecUpdate_v2", "graph", instead, "graphExec:handle graph:handle {*result@0:enum *errorNode@8:handle}"},
	{"cuGraphUpload", "graph", ptsz | instead, "graphExec:handle stream:handle"},
	{"cuGraphExecDestroy", "graph", instead, "graphExec:handle"},
	{"cuGraphAddKernelNode", "graph", extra | instead, newNode + " " + kernelNode},
	{"cuGraphAddKernelNode_v2", "graph", extra | instead, newNode + " " + kernelNode},
	{"cuGraphAddMemcpyNode", "graph", extra | instead, newNode +
		" {srcDevice@48:ptr dstDevice@136:ptr width@176:size height@184:size depth@192:size} context:handle"},
	{"cuGraphAddMemsetNode", "graph", extra | instead, newNode + " " + memsetNode + " context:handle"},
	{"cuGraphAddHostNode", "graph", extra | instead, newNode + " {callback@0:ptr userData@8:ptr}"},
	{"cuGraphAddChildGraphNode", "graph", extra | instead, newNode + " childGraph:handle"},
	{"cuGraphAddEmptyNode", "graph", extra | instead, newNode},
	{"cuGraphAddEventRecordNode", "graph", extra | instead, newNode + " event:handle"},
	{"cuGraphAddEventWaitNode", "graph", extra | instead, newNode + " event:handle"},
	{"cuGraphAddMemAllocNode", "graph", extra | instead, newNode},
	{"cuGraphAddMemFreeNode", "graph", extra | instead, newNode + " devPtr:ptr"},
	{"cuGraphAddNode", "graph", extra | instead, newNode + " {type@0:enum}"},
	{"cuGraphAddNode_v2", "graph", extra | instead, "*node:handle graph:handle - - dependencies:size {type@0:enum}"},
	{"cuGraphAddDependencies", "graph", extra | instead, "graph:handle"},
	{"cuGraphAddDependencies_v2", "graph", extra | instead, "graph:handle"},
	{"cuGraphDestroyNode", "graph", extra | instead, "node:handle"},
	{"cuGraphGetNodes", "graph", extra | instead, "graph:handle - *nodes:size"},
	{"cuGraphKernelNodeSetParams", "graph", extra | instead, "node:handle " + kernelNode},
	{"cuGraphKernelNodeSetParams_v2", "graph", extra | instead, "node:handle " + kernelNode},
	{"cuGraphExecKernelNodeSetParams", "graph", extra | instead, "graphExec:handle node:handle " + kernelNode},
	{"cuGraphExecKernelNodeSetParams_v2", "graph", extra | instead, "graphExec:handle node:handle " + kernelNode},
	{"cuGraphExecMemcpyNodeSetParams", "graph", extra | instead, "graphExec:handle node:handle"},
	{"cuGraphExecMemsetNodeSetParams", "graph", extra | instead, "graphExec:handle node:handle " + memsetNode},
	{"cuGraphExecHostNodeSetParams", "graph", extra | instead,
		"graphExec:handle node:handle {callback@0:ptr userData@8:ptr}"},
	{"cuGraphExecChildGraphNodeSetParams", "graph", extra | instead, "graphExec:handle node:handle childGraph:handle"},
	{"cuGraphExecNodeSetParams", "graph", extra | instead, "graphExec:handle node:handle {type@0:enum}"},
	{"cuGraphNodeSetEnabled", "graph", extra | instead, "graphExec:handle node:handle enabled:u32"},
	{"cuGraphConditionalHandleCreate", "graph", extra | instead,
		"*conditional:u64 graph:handle context:handle default:u32 flags:u32"},
	{"cuGraphDebugDotPrint", "graph", extra | instead, "graph:handle - flags:u32"},
}
