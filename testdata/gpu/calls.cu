// calls.cu: calls very many functions of the runtime, each with sizes for which the runtime may need several
// calls of the driver. What a CUDA release lacks is left out. A line a call, then how often each function was called:
//
//	call LABEL FUNCTION ERROR
//	called FUNCTION N or M more
//
// Each call is in an NVTX range of its label. Usage: calls (built with -cudart shared)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

struct count {
	int worked, unseen; // calls that must be in a log, and those that need not: they failed, or made no driver call
};

static std::map<std::string, count> called;

// Calls a function that must work.
#define NEED(function, ...)                                                              \
	do {                                                                                 \
		cudaError_t err = function(__VA_ARGS__);                                         \
		if (err != cudaSuccess) {                                                        \
			fprintf(stderr, "calls:%d: %s: %s\n", __LINE__, #function, cudaGetErrorName(err)); \
			exit(1);                                                                     \
		}                                                                                \
		called[#function].worked++;                                                      \
	} while (0)


static void begin(const char *label) { nvtxRangePushA(label); }

static void end(const char *label, const char *function, cudaError_t err)
{
	nvtxRangePop();
	cudaGetLastError();
	printf("call %s %s %s\n", label, function, cudaGetErrorName(err));
	(err == cudaSuccess ? called[function].worked : called[function].unseen)++;
}

// Calls a function of the runtime.
#define CALL(label, function, ...)                 \
	do {                                           \
		begin(label);                              \
		cudaError_t result = function(__VA_ARGS__); \
		end(label, #function, result);             \
	} while (0)

// Calls a function that a release may lack, or declare in another way.
#define FIND(label, function, type, ...)                            \
	do {                                                            \
		auto found = (cudaError_t(*) type)dlsym(RTLD_DEFAULT, #function); \
		if (!found) {                                               \
			printf("call %s %s missing\n", label, #function);       \
			break;                                                  \
		}                                                           \
		begin(label);                                               \
		cudaError_t result = found(__VA_ARGS__);                    \
		end(label, #function, result);                              \
	} while (0)

__device__ char table[1 << 20];
__global__ void small(char *p) { p[threadIdx.x]++; }

static const size_t W = 1000, H = 60, D = 5, BIG = 8 << 20;
static char *device, *other, *pinned, *pageable;
static cudaStream_t s;
typedef void *P;
typedef cudaStream_t S;
typedef cudaArray_t A;

static void copies()
{
	size_t sizes[] = {1, 1000, 65536, 65537, BIG};
	for (size_t n : sizes) {
		std::string size = std::to_string(n);
		CALL(("h2d-pageable-" + size).c_str(), cudaMemcpy, device, pageable, n, cudaMemcpyHostToDevice);
		CALL(("d2h-pageable-" + size).c_str(), cudaMemcpy, pageable, device, n, cudaMemcpyDeviceToHost);
		CALL(("h2d-pinned-" + size).c_str(), cudaMemcpy, device, pinned, n, cudaMemcpyHostToDevice);
		CALL(("d2d-" + size).c_str(), cudaMemcpy, other, device, n, cudaMemcpyDeviceToDevice);
		CALL(("h2h-" + size).c_str(), cudaMemcpy, pinned, pageable, n, cudaMemcpyHostToHost);
		CALL(("default-" + size).c_str(), cudaMemcpy, device, pinned, n, cudaMemcpyDefault);
		CALL(("async-pageable-" + size).c_str(), cudaMemcpyAsync, device, pageable, n, cudaMemcpyHostToDevice, s);
		CALL(("async-pinned-" + size).c_str(), cudaMemcpyAsync, pinned, device, n, cudaMemcpyDeviceToHost, s);
		CALL(("async-h2h-" + size).c_str(), cudaMemcpyAsync, pinned, pageable, n, cudaMemcpyHostToHost, s);
	}
	CALL("zero", cudaMemcpyAsync, device, pinned, 0, cudaMemcpyHostToDevice, s);
	called["cudaMemcpyAsync"].worked--, called["cudaMemcpyAsync"].unseen++; // the runtime does nothing
	CALL("peer-same", cudaMemcpyPeer, other, 0, device, 0, BIG);
	CALL("peer-same-async", cudaMemcpyPeerAsync, other, 0, device, 0, BIG, s);
	NEED(cudaDeviceSynchronize);
}

// Also copies between two GPUs, where there are two.
static void peers()
{
	int count = 0;
	if (cudaGetDeviceCount(&count) || count < 2)
		return;
	char *far;
	NEED(cudaSetDevice, 1);
	NEED(cudaMalloc, &far, BIG);
	NEED(cudaSetDevice, 0);
	CALL("peer", cudaMemcpyPeer, far, 1, device, 0, BIG);
	CALL("peer-async", cudaMemcpyPeerAsync, far, 1, device, 0, BIG, s);
	CALL("peer-default", cudaMemcpy, far, device, BIG, cudaMemcpyDefault);
	NEED(cudaDeviceSynchronize);
}

static void symbols()
{
	CALL("to-symbol", cudaMemcpyToSymbol, table, pageable, 1 << 20, 0, cudaMemcpyHostToDevice);
	CALL("from-symbol", cudaMemcpyFromSymbol, pageable, table, 1 << 20, 0, cudaMemcpyDeviceToHost);
	CALL("to-symbol-async", cudaMemcpyToSymbolAsync, table, pinned, 1000, 8, cudaMemcpyHostToDevice, s);
	CALL("from-symbol-async", cudaMemcpyFromSymbolAsync, pinned, table, 1000, 8, cudaMemcpyDeviceToHost, s);
	void *at;
	size_t size;
	CALL("symbol-address", cudaGetSymbolAddress, &at, table);
	CALL("symbol-size", cudaGetSymbolSize, &size, table);
}

static void planes()
{
	CALL("2d-h2d", cudaMemcpy2D, device, 1024, pageable, 1100, W, H, cudaMemcpyHostToDevice);
	CALL("2d-d2h", cudaMemcpy2D, pageable, 1100, device, 1024, W, H, cudaMemcpyDeviceToHost);
	CALL("2d-whole", cudaMemcpy2D, device, W, pinned, W, W, H, cudaMemcpyHostToDevice);
	CALL("2d-h2h", cudaMemcpy2D, pinned, 1024, pageable, 1100, W, H, cudaMemcpyHostToHost);
	CALL("2d-async", cudaMemcpy2DAsync, other, 1024, device, 1024, W, H, cudaMemcpyDeviceToDevice, s);
	CALL("2d-thin", cudaMemcpy2DAsync, other, 4096, device, 4096, 3, 1000, cudaMemcpyDeviceToDevice, s);
	cudaMemcpy3DParms box = {};
	box.srcPtr = make_cudaPitchedPtr(pageable, 1100, W, H), box.dstPtr = make_cudaPitchedPtr(device, 1024, W, H);
	box.extent = make_cudaExtent(W, H, D), box.kind = cudaMemcpyHostToDevice;
	CALL("3d", cudaMemcpy3D, &box);
	CALL("3d-async", cudaMemcpy3DAsync, &box, s);
	cudaMemcpy3DPeerParms peer = {};
	peer.srcPtr = make_cudaPitchedPtr(other, 1024, W, H), peer.dstPtr = make_cudaPitchedPtr(device, 1024, W, H);
	peer.extent = make_cudaExtent(W, H, D);
	CALL("3d-peer", cudaMemcpy3DPeer, &peer);
	CALL("3d-peer-async", cudaMemcpy3DPeerAsync, &peer, s);
	NEED(cudaDeviceSynchronize);
}

static void arrays()
{
	cudaChannelFormatDesc bytes = cudaCreateChannelDesc<unsigned char>();
	cudaArray_t a, b, box;
	CALL("array", cudaMallocArray, &a, &bytes, W, H, 0);
	NEED(cudaMallocArray, &b, &bytes, W, H, 0);
	CALL("array-3d", cudaMalloc3DArray, &box, &bytes, make_cudaExtent(W, H, D), 0);
	CALL("2d-to-array", cudaMemcpy2DToArray, a, 0, 0, pageable, 1100, W, H, cudaMemcpyHostToDevice);
	CALL("2d-to-array-part", cudaMemcpy2DToArray, a, 7, 3, pageable, 1100, 500, 20, cudaMemcpyHostToDevice);
	CALL("2d-to-array-async", cudaMemcpy2DToArrayAsync, a, 0, 0, pinned, 1100, W, H, cudaMemcpyHostToDevice, s);
	CALL("2d-from-array", cudaMemcpy2DFromArray, pageable, 1100, a, 0, 0, W, H, cudaMemcpyDeviceToHost);
	CALL("2d-from-array-async", cudaMemcpy2DFromArrayAsync, pinned, 1100, a, 0, 0, W, H, cudaMemcpyDeviceToHost, s);
	CALL("2d-array-to-array", cudaMemcpy2DArrayToArray, b, 0, 0, a, 0, 0, W, H, cudaMemcpyDeviceToDevice);
	struct {
		const char *name;
		size_t x, y, n;
	} parts[] = {{"row", 0, 0, W}, {"within", 10, 1, 100}, {"tail", 10, 0, W + 500}, {"both", 10, 1, 3 * W}, {"rows", 0, 2, 4 * W}, {"head", 0, 2, 4 * W + 9}};
	for (auto &p : parts) {
		std::string part = p.name;
		FIND(("to-array-" + part).c_str(), cudaMemcpyToArray, (A, size_t, size_t, const void *, size_t, cudaMemcpyKind), a, p.x, p.y, pageable, p.n, cudaMemcpyHostToDevice);
		FIND(("to-array-async-" + part).c_str(), cudaMemcpyToArrayAsync, (A, size_t, size_t, const void *, size_t, cudaMemcpyKind, S), a, p.x, p.y, pinned, p.n, cudaMemcpyHostToDevice, s);
		FIND(("from-array-" + part).c_str(), cudaMemcpyFromArray, (P, A, size_t, size_t, size_t, cudaMemcpyKind), pageable, a, p.x, p.y, p.n, cudaMemcpyDeviceToHost);
		FIND(("from-array-async-" + part).c_str(), cudaMemcpyFromArrayAsync, (P, A, size_t, size_t, size_t, cudaMemcpyKind, S), pinned, a, p.x, p.y, p.n, cudaMemcpyDeviceToHost, s);
		FIND(("array-to-array-" + part).c_str(), cudaMemcpyArrayToArray, (A, size_t, size_t, A, size_t, size_t, size_t, cudaMemcpyKind), b, p.x, p.y, a, p.x, p.y, p.n, cudaMemcpyDeviceToDevice);
	}
	FIND("array-to-array-shifted", cudaMemcpyArrayToArray, (A, size_t, size_t, A, size_t, size_t, size_t, cudaMemcpyKind), b, 0, 1, a, 300, 0, 2 * W, cudaMemcpyDeviceToDevice);
	cudaMemcpy3DParms p = {};
	p.srcPtr = make_cudaPitchedPtr(pageable, 1100, W, H), p.dstArray = box;
	p.extent = make_cudaExtent(W, H, D), p.kind = cudaMemcpyHostToDevice;
	CALL("3d-to-array", cudaMemcpy3D, &p);
	NEED(cudaDeviceSynchronize);
	cudaResourceDesc resource = {};
	resource.resType = cudaResourceTypeArray, resource.res.array.array = a;
	cudaTextureDesc how = {};
	cudaTextureObject_t texture;
	CALL("texture", cudaCreateTextureObject, &texture, &resource, &how, NULL);
	CALL("texture-destroy", cudaDestroyTextureObject, texture);
	cudaMipmappedArray_t levels;
	CALL("mipmapped", cudaMallocMipmappedArray, &levels, &bytes, make_cudaExtent(256, 256, 0), 4, 0);
	CALL("mipmapped-free", cudaFreeMipmappedArray, levels);
	CALL("array-free", cudaFreeArray, box);
}

static void batches()
{
#if CUDART_VERSION >= 12080
	void *to[] = {device, device + 4096, other}, *from[] = {pinned, other + 4096, pinned + 8192};
	size_t sizes[] = {1000, 2000, 3000}, index = 0;
	cudaMemcpyAttributes how = {};
	how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
	FIND("batch", cudaMemcpyBatchAsync, (P *, P *, size_t *, size_t, cudaMemcpyAttributes *, size_t *, size_t, S), to, from, sizes, (size_t)3, &how, &index, (size_t)1, s);
#else
	size_t failed;
	FIND("batch", cudaMemcpyBatchAsync, (P *, P *, size_t *, size_t, cudaMemcpyAttributes *, size_t *, size_t, size_t *, S), to, from, sizes, (size_t)3, &how, &index, (size_t)1, &failed, s);
#endif
	cudaMemcpy3DBatchOp ops[2];
	memset(ops, 0, sizeof ops);
	for (auto &op : ops) {
		op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
		op.src.op.ptr.ptr = other + 65536, op.dst.op.ptr.ptr = &op == ops ? device : device + 65536;
		op.extent = make_cudaExtent(100, 10, 2);
		op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	}
#if CUDART_VERSION >= 13000
	FIND("batch-3d", cudaMemcpy3DBatchAsync, (size_t, cudaMemcpy3DBatchOp *, unsigned long long, S), (size_t)2, ops, 0ull, s);
#else
	FIND("batch-3d", cudaMemcpy3DBatchAsync, (size_t, cudaMemcpy3DBatchOp *, size_t *, unsigned long long, S), (size_t)2, ops, &failed, 0ull, s);
#endif
	NEED(cudaDeviceSynchronize);
#endif
}

static void sets()
{
	CALL("set", cudaMemset, device, 1, 1000);
	CALL("set-odd", cudaMemset, device + 1, 1, BIG - 7);
	CALL("set-async", cudaMemsetAsync, device, 2, BIG, s);
	CALL("set-2d", cudaMemset2D, device, 1024, 3, W, H);
	CALL("set-2d-whole", cudaMemset2D, device, W, 3, W, H);
	CALL("set-2d-async", cudaMemset2DAsync, device, 1024, 3, W, H, s);
	cudaPitchedPtr box = make_cudaPitchedPtr(device, 1024, W, H + 4);
	CALL("set-3d", cudaMemset3D, box, 4, make_cudaExtent(W, H, D));
	CALL("set-3d-async", cudaMemset3DAsync, box, 4, make_cudaExtent(W, H, D), s);
	CALL("set-3d-full", cudaMemset3D, box, 4, make_cudaExtent(W, H + 4, D));
	CALL("set-3d-one", cudaMemset3D, box, 4, make_cudaExtent(W, H, 1));
	NEED(cudaDeviceSynchronize);
}

static void CUDART_CB ignore(void *) {}
static void CUDART_CB ignoreCallback(cudaStream_t, cudaError_t, void *) {}

static void launches()
{
	void *args[] = {&device};
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3(1), config.blockDim = dim3(32), config.stream = s;
	cudaLaunchAttribute cooperative = {};
	cooperative.id = cudaLaunchAttributeCooperative, cooperative.val.cooperative = 1;
	for (int i = 0; i < 3; i++) { // the first launch loads the code
		CALL("launch", cudaLaunchKernel, (void *)small, dim3(1), dim3(32), args, 0, s);
		CALL("launch-cooperative", cudaLaunchCooperativeKernel, (void *)small, dim3(1), dim3(32), args, 0, s);
		config.attrs = NULL, config.numAttrs = 0;
		CALL("launch-ex", cudaLaunchKernelExC, &config, (void *)small, args);
		config.attrs = &cooperative, config.numAttrs = 1;
		CALL("launch-ex-cooperative", cudaLaunchKernelExC, &config, (void *)small, args);
		CALL("host-function", cudaLaunchHostFunc, s, ignore, NULL);
	}
	CALL("callback", cudaStreamAddCallback, s, ignoreCallback, NULL, 0);
	CALL("stream-wait", cudaStreamSynchronize, s);
	CALL("device-wait", cudaDeviceSynchronize);
	cudaFuncAttributes about;
	int blocks;
	CALL("function-attributes", cudaFuncGetAttributes, &about, (const void *)small);
	CALL("function-attribute", cudaFuncSetAttribute, (const void *)small, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
	CALL("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, (const void *)small, 128, 0);
}

static void graphs()
{
	cudaGraph_t g;
	cudaGraphExec_t exec;
	CALL("capture", cudaStreamBeginCapture, s, cudaStreamCaptureModeGlobal);
	CALL("captured-set", cudaMemsetAsync, device, 0, 1000, s);
	cudaPitchedPtr box = make_cudaPitchedPtr(device, 1024, W, H + 4);
	CALL("captured-set-3d", cudaMemset3DAsync, box, 4, make_cudaExtent(W, H, D), s);
	small<<<1, 32, 0, s>>>(device);
	called["cudaLaunchKernel"].worked++;
	CALL("captured-copy", cudaMemcpyAsync, pinned, device, 1000, cudaMemcpyDeviceToHost, s);
	CALL("capture-end", cudaStreamEndCapture, s, &g);
	CALL("instantiate", cudaGraphInstantiate, &exec, g, 0);
	CALL("graph-upload", cudaGraphUpload, exec, s);
	for (int i = 0; i < 3; i++)
		CALL("graph-launch", cudaGraphLaunch, exec, s);
	NEED(cudaDeviceSynchronize);
	CALL("exec-destroy", cudaGraphExecDestroy, exec);
	CALL("graph-destroy", cudaGraphDestroy, g);
}

static void memory()
{
	void *p, *q;
	size_t pitch;
	cudaPitchedPtr box;
	CALL("malloc", cudaMalloc, &p, BIG);
	CALL("free", cudaFree, p);
	CALL("malloc-pitch", cudaMallocPitch, &p, &pitch, W, H);
	NEED(cudaFree, p);
	CALL("malloc-3d", cudaMalloc3D, &box, make_cudaExtent(W, H, D));
	NEED(cudaFree, box.ptr);
	CALL("malloc-host", cudaMallocHost, &p, BIG);
	CALL("free-host", cudaFreeHost, p);
	CALL("host-alloc", cudaHostAlloc, &p, BIG, cudaHostAllocMapped);
	CALL("host-pointer", cudaHostGetDevicePointer, &q, p, 0);
	NEED(cudaFreeHost, p);
	CALL("host-register", cudaHostRegister, pageable, BIG, cudaHostRegisterDefault);
	CALL("host-unregister", cudaHostUnregister, pageable);
	CALL("malloc-async", cudaMallocAsync, &p, BIG, s);
	CALL("free-async", cudaFreeAsync, p, s);
	cudaMemPoolProps props = {};
	props.allocType = cudaMemAllocationTypePinned, props.location.type = cudaMemLocationTypeDevice;
	cudaMemPool_t pool;
	CALL("pool", cudaMemPoolCreate, &pool, &props);
	CALL("malloc-pool", cudaMallocFromPoolAsync, &p, (size_t)BIG, pool, s);
	NEED(cudaFreeAsync, p, s);
	NEED(cudaStreamSynchronize, s);
	CALL("pool-trim", cudaMemPoolTrimTo, pool, 0);
	CALL("pool-destroy", cudaMemPoolDestroy, pool);
	CALL("malloc-managed", cudaMallocManaged, &p, BIG);
	cudaMemLocation here = {};
	here.type = cudaMemLocationTypeDevice;
#if CUDART_VERSION >= 13000
	FIND("prefetch", cudaMemPrefetchAsync, (const void *, size_t, cudaMemLocation, unsigned, S), p, (size_t)BIG, here, 0u, s);
	FIND("advise", cudaMemAdvise, (const void *, size_t, cudaMemoryAdvise, cudaMemLocation), p, (size_t)BIG, cudaMemAdviseSetReadMostly, here);
	size_t size = BIG, index = 0;
	FIND("prefetch-batch", cudaMemPrefetchBatchAsync, (P *, size_t *, size_t, cudaMemLocation *, size_t *, size_t, unsigned long long, S), &p, &size, (size_t)1, &here, &index, (size_t)1, 0ull, s);
#else
	FIND("prefetch", cudaMemPrefetchAsync, (const void *, size_t, int, S), p, (size_t)BIG, 0, s);
	FIND("advise", cudaMemAdvise, (const void *, size_t, cudaMemoryAdvise, int), p, (size_t)BIG, cudaMemAdviseSetReadMostly, 0);
#endif
	CALL("set-managed", cudaMemset, p, 1, BIG);
	CALL("copy-managed", cudaMemcpy, p, pageable, BIG, cudaMemcpyDefault);
	NEED(cudaFree, p);
	size_t all;
	CALL("memory-info", cudaMemGetInfo, &pitch, &all);
}

static void streams()
{
	cudaStream_t t;
	cudaEvent_t e, f;
	float ms;
	CALL("stream", cudaStreamCreate, &t);
	CALL("event", cudaEventCreate, &e);
	CALL("event-flags", cudaEventCreateWithFlags, &f, cudaEventDisableTiming);
	NEED(cudaEventDestroy, f);
	CALL("event-flags", cudaEventCreateWithFlags, &f, cudaEventDefault);
	CALL("record", cudaEventRecord, e, s);
	CALL("record", cudaEventRecord, f, s);
	CALL("wait-event", cudaStreamWaitEvent, t, f, 0);
	CALL("event-wait", cudaEventSynchronize, f);
	CALL("event-query", cudaEventQuery, f);
	CALL("elapsed", cudaEventElapsedTime, &ms, e, f);
	CALL("stream-query", cudaStreamQuery, t);
	CALL("stream-destroy", cudaStreamDestroy, t);
	CALL("event-destroy", cudaEventDestroy, e);
	CALL("event-destroy", cudaEventDestroy, f);
	CALL("stream-priority", cudaStreamCreateWithPriority, &t, cudaStreamNonBlocking, 0);
	CALL("stream-destroy", cudaStreamDestroy, t);
}

int main()
{
	if (cudaFree(NULL)) // starts CUDA, and recording
		return 1;
	called["cudaFree"].unseen++;
	NEED(cudaMalloc, &device, BIG + 65536);
	NEED(cudaMalloc, &other, BIG + 65536);
	NEED(cudaMallocHost, (void **)&pinned, BIG + 65536);
	pageable = (char *)malloc(BIG + 65536);
	memset(pageable, 1, BIG + 65536);
	NEED(cudaStreamCreateWithFlags, &s, cudaStreamNonBlocking);
	copies(), peers(), symbols(), planes(), arrays(), batches(), sets(), launches(), graphs(), memory(), streams();
	for (auto &c : called)
		printf("called %s %d or %d more\n", c.first.c_str(), c.second.worked, c.second.unseen);
	return 0;
}
