package cudaapi

var runtimeStreams = []row{
	{"cudaStreamCreate", "stream", 0, "*stream:handle"},
	{"cudaStreamCreateWithFlags", "stream", 0, "*stream:handle flags:u32"},
	{"cudaStreamCreateWithPriority", "stream", 0, "*stream:handle flags:u32 priority:i32"},
	{"cudaStreamDestroy", "stream", 0, "stream:handle"},
	{"cudaStreamAddCallback", "stream", ptsz, "stream:handle callback:ptr userData:ptr flags:u32"},
	{"cudaLaunchHostFunc", "stream", ptsz, "stream:handle callback:ptr userData:ptr"},
	{"cudaStreamAttachMemAsync", "stream", ptsz, "stream:handle devPtr:ptr bytes:size flags:u32"},
	{"cudaStreamQuery", "stream", extra | ptsz, "stream:handle"},
	{"cudaStreamGetPriority", "stream", extra | ptsz, "stream:handle *priority:i32"},
	{"cudaStreamGetFlags", "stream", extra | ptsz, "stream:handle *flags:u32"},
	{"cudaStreamGetId", "stream", extra | ptsz, "stream:handle *id:u64"},
	{"cudaStreamGetAttribute", "stream", extra | ptsz, "stream:handle attribute:enum"},
	{"cudaStreamSetAttribute", "stream", extra | ptsz, "stream:handle attribute:enum"},

	{"cudaStreamSynchronize", "wait", ptsz, "stream:handle"},
	{"cudaStreamWaitEvent", "wait", ptsz, "stream:handle event:handle flags:u32"},
	{"cudaDeviceSynchronize", "wait", 0, ""},
	{"cudaThreadSynchronize", "wait", 0, ""},
	{"cudaEventSynchronize", "wait", 0, "event:handle"},
	{"cudaDeviceFlushGPUDirectRDMAWrites", "wait", 0, "target:enum scope:enum"},

	{"cudaEventCreate", "event", 0, "*event:handle"},
	{"cudaEventCreateWithFlags", "event", 0, "*event:handle flags:u32"},
	{"cudaEventDestroy", "event", 0, "event:handle"},
	{"cudaEventRecord", "event", ptsz, "event:handle stream:handle"},
	{"cudaEventRecordWithFlags", "event", ptsz, "event:handle stream:handle flags:u32"},
	{"cudaEventQuery", "event", extra, "event:handle"},
	{"cudaEventElapsedTime", "event", extra, "*milliseconds:f32 start:handle end:handle"},
	{"cudaEventElapsedTime_v2", "event", extra, "*milliseconds:f32 start:handle end:handle"},
}
