/*
 * oddities.cu: programs that do odd things which CUDA allows or refuses without harm.
 *
 *	nvcc -o oddities oddities.cu -lcuda
 *	./oddities              every group, each in a process of its own
 *	./oddities GROUP        one group
 *
 * Each line is a case and the result codes of its calls. Codes, and no addresses or times: a recorded run has to print
 * the same lines as a plain one, and to end with the same exit code. A group that dies says by which signal.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t SIZE = 1 << 20;

__global__ void touch(int *p) { p[threadIdx.x] = 1; }
__global__ void nothing() {}
__global__ void spin(long cycles) { for (long from = clock64(); clock64() - from < cycles;) ; }

static CUstream stream;
static CUmemoryPool pool;
static CUdevice device;

/* Makes three calls in this order, and prints their results. */
#define LINE(what, how, a, b, c) \
	do { \
		int first = (a), second = (b), third = (c); \
		printf("%s %s: %d %d %d\n", what, how, first, second, third); \
		fflush(stdout); \
	} while (0)

static CUmemAllocationProp properties(bool shared)
{
	CUmemAllocationProp p = {};
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = device;
	if (shared)
		p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return p;
}

static size_t granularity(void)
{
	size_t n = 0;
	CUmemAllocationProp p = properties(false);
	cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	return n;
}

static CUmemoryPool new_pool(bool shared)
{
	CUmemPoolProps p = {};
	CUmemoryPool made = nullptr;
	p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = device;
	if (shared)
		p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	cuMemPoolCreate(&made, &p);
	return made;
}

/* Every way to get memory. Each leaves an address, and what else is needed to give the memory back. */
struct block {
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	void *host;
	int way;
};

static int virtual_memory(block *b)
{
	size_t n = granularity();
	CUmemAllocationProp p = properties(false);
	CUmemAccessDesc access = {};
	access.location = p.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	int r = cuMemAddressReserve(&b->at, n, 0, 0, 0);
	r += 1000 * cuMemCreate(&b->handle, n, &p, 0);
	r += cuMemMap(b->at, n, 0, b->handle, 0);
	return r + cuMemSetAccess(b->at, n, &access, 1);
}

static int graph_memory(block *b)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t node;
	cudaMemAllocNodeParams p = {};
	p.poolProps.allocType = cudaMemAllocationTypePinned;
	p.poolProps.location.type = cudaMemLocationTypeDevice;
	p.poolProps.location.id = device;
	p.bytesize = SIZE;
	cudaGraphCreate(&graph, 0);
	int r = cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &p);
	r += cudaGraphInstantiate(&exec, graph, 0);
	r += cudaGraphLaunch(exec, stream);
	cudaStreamSynchronize(stream);
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
	b->at = (CUdeviceptr)p.dptr;
	return r;
}

static size_t pitch;
#define WAYS(X) \
	X("cuMemAlloc", cuMemAlloc(&b->at, SIZE)) \
	X("cuMemAllocPitch", cuMemAllocPitch(&b->at, &pitch, 1000, 100, 4)) \
	X("cuMemAllocManaged", cuMemAllocManaged(&b->at, SIZE, CU_MEM_ATTACH_GLOBAL)) \
	X("cuMemAllocAsync", cuMemAllocAsync(&b->at, SIZE, stream)) \
	X("cuMemAllocAsync-0", cuMemAllocAsync(&b->at, SIZE, 0)) \
	X("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync(&b->at, SIZE, pool, stream)) \
	X("cuMemAllocHost", cuMemAllocHost((void **)&b->at, SIZE)) \
	X("cuMemHostAlloc", cuMemHostAlloc((void **)&b->at, SIZE, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE)) \
	X("cuMemHostRegister", (b->host = aligned_alloc(4096, SIZE), b->at = (CUdeviceptr)b->host, cuMemHostRegister(b->host, SIZE, 0))) \
	X("cuMemMap", virtual_memory(b)) \
	X("cudaMalloc", cudaMalloc((void **)&b->at, SIZE)) \
	X("cudaMallocPitch", cudaMallocPitch((void **)&b->at, &pitch, 1000, 100)) \
	X("cudaMallocManaged", cudaMallocManaged((void **)&b->at, SIZE)) \
	X("cudaMallocAsync", cudaMallocAsync((void **)&b->at, SIZE, stream)) \
	X("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync((void **)&b->at, SIZE, pool, stream)) \
	X("cudaMallocHost", cudaMallocHost((void **)&b->at, SIZE)) \
	X("cudaHostAlloc", cudaHostAlloc((void **)&b->at, SIZE, cudaHostAllocMapped)) \
	X("graph", graph_memory(b))

#define NAME(name, call) name,
static const char *const ways[] = {WAYS(NAME)};
enum { COUNT_OF_WAYS = sizeof ways / sizeof *ways };

static int get(int way, block *b)
{
	memset(b, 0, sizeof *b);
	b->way = way;
	int i = 0;
#define GET(name, call) \
	if (i++ == way) \
		return call;
	WAYS(GET)
	return -1;
}

#define FREES(X) \
	X("cuMemFree", cuMemFree(b->at)) \
	X("cuMemFreeAsync", cuMemFreeAsync(b->at, stream)) \
	X("cuMemFreeAsync-0", cuMemFreeAsync(b->at, 0)) \
	X("cuMemFreeAsync-thread", cuMemFreeAsync(b->at, CU_STREAM_PER_THREAD)) \
	X("cuMemFreeHost", cuMemFreeHost((void *)b->at)) \
	X("cuMemHostUnregister", cuMemHostUnregister((void *)b->at)) \
	X("cuMemUnmap", cuMemUnmap(b->at, granularity())) \
	X("cuIpcCloseMemHandle", cuIpcCloseMemHandle(b->at)) \
	X("cudaFree", cudaFree((void *)b->at)) \
	X("cudaFreeAsync", cudaFreeAsync((void *)b->at, stream)) \
	X("cudaFreeHost", cudaFreeHost((void *)b->at)) \
	X("cudaHostUnregister", cudaHostUnregister((void *)b->at))

static const char *const frees[] = {FREES(NAME)};
enum { COUNT_OF_FREES = sizeof frees / sizeof *frees };

static int give(int way, block *b)
{
	int i = 0;
#define GIVE(name, call) \
	if (i++ == way) \
		return call;
	FREES(GIVE)
	return -1;
}

/* Gives the memory back in whichever way works. */
static void tidy(block *b)
{
	cuStreamSynchronize(stream);
	if (b->handle)
		cuMemUnmap(b->at, granularity()), cuMemRelease(b->handle), cuMemAddressFree(b->at, granularity());
	else if (b->host)
		cuMemHostUnregister(b->host), free(b->host);
	else if (cuMemFree(b->at) != CUDA_SUCCESS)
		cuMemFreeHost((void *)b->at);
	cudaGetLastError();
}

/* Each allocating function against each freeing one, used by a kernel between or not. */
static void pairs(void)
{
	for (int way = 0; way < COUNT_OF_WAYS; way++)
		for (int how = 0; how < COUNT_OF_FREES; how++) {
			block b;
			int got = get(way, &b);
			if (how % 2 && got == 0 && !b.host)
				touch<<<1, 32, 0, stream>>>((int *)b.at);
			int gave = give(how, &b);
			cudaGetLastError();
			LINE(ways[way], frees[how], got, gave, cuStreamSynchronize(stream));
			if (gave != 0)
				tidy(&b);
			else if (b.handle)
				cuMemRelease(b.handle), cuMemAddressFree(b.at, granularity());
		}
}

/* Freed twice, freed where nothing is, freed at an address inside. */
static void misfreed(void)
{
	for (int how = 0; how < COUNT_OF_FREES; how++) {
		block b = {}, inside;
		LINE("null", frees[how], give(how, &b), 0, 0);
		b.at = 0x7f0000001000;
		LINE("foreign", frees[how], give(how, &b), 0, 0);
		get(0, &inside);
		b.at = inside.at + 512;
		LINE("inside", frees[how], give(how, &b), 0, 0);
		tidy(&inside);
		get(0, &b);
		cuMemFree(b.at);
		LINE("twice", frees[how], give(how, &b), 0, 0);
		get(3, &b);
		cuMemFreeAsync(b.at, stream);
		int again = give(how, &b);
		LINE("twice-async", frees[how], again, cuStreamSynchronize(stream), 0);
		cudaGetLastError();
	}
}

/* The pool, and the context, of memory are destroyed before it is freed. The driver itself dies of cuMemFreeAsync for such memory, and after it. */
static void owner_destroyed(void)
{
	block b = {};
	CUmemoryPool own = new_pool(false);
	int got = cuMemAllocFromPoolAsync(&b.at, SIZE, own, stream);
	int gone = cuMemPoolDestroy(own);
	LINE("pool-destroyed", frees[0], got, gone, give(0, &b));
	cuStreamSynchronize(stream);

	CUcontext other, primary;
	cuCtxGetCurrent(&primary);
#if CUDA_VERSION >= 13000
	CUctxCreateParams params = {};
	got = cuCtxCreate(&other, &params, 0, device);
#else
	got = cuCtxCreate(&other, 0, device);
#endif
	cuMemAlloc(&b.at, SIZE);
	gone = cuCtxDestroy(other);
	cuCtxSetCurrent(primary);
	LINE("context-destroyed", frees[0], got, gone, give(0, &b));
}

/* What the memory, or the call that frees it, needs is destroyed first. */
static void destroyed(void)
{
	for (int how = 0; how < 3; how++) {
		CUstream s;
		block b = {};
		cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
		int got = cuMemAllocAsync(&b.at, SIZE, s);
		spin<<<1, 1, 0, s>>>(1000000);
		int gone = cuStreamDestroy(s);
		LINE("stream-destroyed", frees[how], got, gone, give(how, &b));
		cuStreamSynchronize(stream);

		got = cuMemAlloc(&b.at, SIZE);
		spin<<<1, 1, 0, stream>>>(1000000);
		LINE("in-use", frees[how], got, give(how, &b), cuStreamSynchronize(stream));
	}
	CUevent e;
	CUstream s;
	cuStreamCreate(&s, 0);
	cuEventCreate(&e, 0);
	spin<<<1, 1, 0, s>>>(1000000);
	int recorded = cuEventRecord(e, s);
	int gone = cuEventDestroy(e);
	LINE("event-destroyed", "in use", recorded, gone, cuStreamDestroy(s));
}

static void *other_thread(void *p)
{
	block *b = (block *)p;
	cuCtxSetCurrent(nullptr);
	int r = give(b->way, b);
	return (void *)(intptr_t)r;
}

/* Frees on a thread that has no context. */
static void threads(void)
{
	for (int how = 0; how < COUNT_OF_FREES; how++) {
		block b;
		pthread_t t;
		void *r;
		int got = get(0, &b);
		b.way = how;
		pthread_create(&t, nullptr, other_thread, &b);
		pthread_join(t, &r);
		LINE("no-context", frees[how], got, (int)(intptr_t)r, cuStreamSynchronize(stream));
		if (r)
			tidy(&b);
	}
}

static void virtual_oddities(void)
{
	size_t n = granularity();
	CUdeviceptr a = 0, c = 0;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp p = properties(false);
	CUmemAccessDesc access = {};
	access.location = p.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	int r = cuMemAddressReserve(&a, 2 * n, 0, 0, 0);
	int made = cuMemCreate(&h, n, &p, 0);
	LINE("reserve", "create", r, made, cuMemMap(a, n, 0, h, 0));
	LINE("map", "twice", cuMemMap(a + n, n, 0, h, 0), cuMemMap(a, n, 0, h, 0), cuMemSetAccess(a, 2 * n, &access, 1));
	LINE("release", "while mapped", cuMemRelease(h), cuMemsetD8(a, 1, n), cuCtxSynchronize());
	LINE("unmap", "part", cuMemUnmap(a, n / 2), cuMemUnmap(a, n), cuMemUnmap(a, n));
	LINE("address-free", "mapped", cuMemAddressFree(a, 2 * n), cuMemUnmap(a + n, n), cuMemAddressFree(a, 2 * n));
	LINE("create", "odd size", cuMemCreate(&h, 1000, &p, 0), cuMemAddressReserve(&c, 1000, 0, 0, 0), 0);
	LINE("retain", "foreign", cuMemRetainAllocationHandle(&h, (void *)0x1000), 0, 0);
}

static void graphs(void)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	void *p = nullptr, *q = nullptr;
	cudaStream_t s = stream;
	LINE("capture", "begin", cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaMallocAsync(&p, SIZE, s), 0);
	touch<<<1, 32, 0, s>>>((int *)p);
	LINE("capture", "free", cudaFreeAsync(p, s), cudaMallocAsync(&q, SIZE, s), cudaStreamEndCapture(s, &graph));
	LINE("graph", "auto-free", cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch), cudaGraphLaunch(exec, s), cudaGraphLaunch(exec, s));
	LINE("graph", "free outside", cudaFreeAsync(q, s), cudaStreamSynchronize(s), cudaFree(q));
	LINE("graph", "free of a freed node", cudaFree(p), cudaFreeAsync(p, s), cudaStreamSynchronize(s));
	LINE("graph", "again", cudaGraphLaunch(exec, s), cudaGraphExecDestroy(exec), cudaGraphDestroy(graph));
	LINE("graph", "memory outlives", cudaStreamSynchronize(s), cudaFreeAsync(q, s), cudaStreamSynchronize(s));
	LINE("graph", "trim", cudaDeviceGraphMemTrim(device), cudaGetLastError(), 0);

	LINE("graph", "capture invalid", cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaStreamSynchronize(s), cudaStreamEndCapture(s, &graph));
	cudaGetLastError();
	LINE("graph", "null", cudaGraphLaunch(nullptr, s), cudaGraphDestroy(nullptr), cudaGraphInstantiate(&exec, nullptr, 0));
	cudaGetLastError();
}

/* A failing call of each family. */
static void failing(void)
{
	int *p = nullptr;
	void *host = malloc(SIZE);
	CUmodule m;
	CUfunction f = nullptr;
	CUdevice d;
	CUdeviceptr a;
	cudaFuncAttributes attributes;
	size_t n;
	nothing<<<1, 2048>>>();
	int big = cudaGetLastError();
	nothing<<<1, 32, 1 << 30>>>();
	int shared = cudaGetLastError();
	nothing<<<0, 32>>>();
	LINE("launch", "too many", big, shared, cudaGetLastError());
	void *none[] = {nullptr};
	LINE("launch", "null", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, none, nullptr), cudaLaunchKernel((void *)host, 1, 1, none, 0, stream), cudaGetLastError());
	LINE("launch", "cooperative", cudaLaunchCooperativeKernel((void *)nothing, 1 << 30, 1024, none, 0, stream), cudaGetLastError(), 0);
	LINE("copy", "direction", cudaMemcpy(host, host, 8, (cudaMemcpyKind)77), cudaMemcpy(nullptr, host, 8, cudaMemcpyHostToDevice), cudaMemcpyAsync(nullptr, host, 8, cudaMemcpyDefault, stream));
	cudaGetLastError();
	cudaMalloc(&p, SIZE);
	LINE("copy", "beyond", cudaMemcpy(host, p, SIZE << 12, cudaMemcpyDeviceToHost), cuMemcpyHtoD((CUdeviceptr)p + (SIZE << 12), host, 8), cudaMemcpy2D(p, 8, host, 16, 16, 2, cudaMemcpyHostToDevice));
	cudaGetLastError();
	LINE("set", "bad", cudaMemset(nullptr, 1, 8), cuMemsetD32((CUdeviceptr)p + 1, 1, 2), cudaMemset2D(p, 4, 1, 8, 2));
	LINE("empty", "work", cudaMemcpy(host, p, 0, cudaMemcpyDeviceToHost), cudaMemset(p, 1, 0), cuMemcpyDtoH(host, (CUdeviceptr)p, 0));
	cudaGetLastError();
	LINE("memory", "too much", cudaMalloc(&p, (size_t)1 << 50), cuMemAlloc(&a, 0), cudaMallocAsync(&p, (size_t)1 << 50, stream));
	LINE("memory", "host", cudaMallocHost(&host, 0), cuMemHostRegister(nullptr, SIZE, 0), cudaMallocManaged(&p, 0));
	cudaGetLastError();
	LINE("module", "garbage", cuModuleLoadData(&m, "garbage"), cuModuleGetFunction(&f, nullptr, "f"), cuModuleUnload(nullptr));
	LINE("device", "none", cuDeviceGet(&d, 99), cudaSetDevice(99), cuCtxSetCurrent((CUcontext) nullptr));
	LINE("context", "none", cuMemAlloc(&a, SIZE), cuCtxSynchronize(), cudaSetDevice(0));
	LINE("event", "never recorded", cudaEventSynchronize(nullptr), cuEventQuery(nullptr), cuStreamWaitEvent(stream, nullptr, 0));
	LINE("attributes", "foreign", cudaFuncGetAttributes(&attributes, (void *)&n), cuFuncGetAttribute((int *)&n, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr), cudaGetLastError());
	cudaGetLastError();
	LINE("after", "all", cudaDeviceSynchronize(), 0, 0);
}

/* Memory of another process. */
static void opened(int in, int out)
{
	CUipcMemHandle h;
	CUdeviceptr p = 0;
	char go;
	if (read(in, &h, sizeof h) != sizeof h)
		_exit(9);
	int open = cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	LINE("ipc", "open", open, open ? 0 : cuMemsetD8(p, 1, 64), cuCtxSynchronize());
	LINE("ipc", "free of opened", cuMemFree(p), cuMemFreeAsync(p, stream), cuStreamSynchronize(stream));
	LINE("ipc", "close", cuIpcCloseMemHandle(p), cuIpcCloseMemHandle(p), 0);
	if (write(out, "x", 1) != 1 || read(in, &go, 1) < 0)
		_exit(9);
}

static int pass_fd(int socket, int fd)
{
	char byte = 'x', space[CMSG_SPACE(sizeof fd)] = {};
	iovec v = {&byte, 1};
	msghdr m = {};
	m.msg_iov = &v, m.msg_iovlen = 1, m.msg_control = space, m.msg_controllen = sizeof space;
	cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	return sendmsg(socket, &m, 0) == 1 ? 0 : -1;
}

static int take_fd(int socket)
{
	char byte, space[CMSG_SPACE(sizeof(int))];
	int fd = -1;
	iovec v = {&byte, 1};
	msghdr m = {};
	m.msg_iov = &v, m.msg_iovlen = 1, m.msg_control = space, m.msg_controllen = sizeof space;
	if (recvmsg(socket, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

static void imported(int socket)
{
	CUmemoryPool theirs;
	CUmemPoolPtrExportData data;
	CUdeviceptr p = 0;
	int fd = take_fd(socket);
	int in = cuMemPoolImportFromShareableHandle(&theirs, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (read(socket, &data, sizeof data) != sizeof data)
		_exit(9);
	LINE("pool-ipc", "import", in, cuMemPoolImportPointer(&p, theirs, &data), cuMemAllocFromPoolAsync(&p, SIZE, theirs, stream));
	cuMemPoolImportPointer(&p, theirs, &data);
	LINE("pool-ipc", "free of imported", cuMemFreeAsync(p, stream), cuMemFree(p), cuStreamSynchronize(stream));
	LINE("pool-ipc", "destroy", cuMemPoolDestroy(theirs), 0, 0);
	if (write(socket, "x", 1) != 1)
		_exit(9);
}

static void start(void);

static void processes(void)
{
	int pair[2], status;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		_exit(9);
	fflush(stdout);
	pid_t child = fork(); /* before CUDA's start */
	if (child == 0) {
		start();
		opened(pair[1], pair[1]);
		imported(pair[1]);
		_exit(0);
	}
	start();
	CUdeviceptr p, q;
	CUipcMemHandle h;
	CUmemPoolPtrExportData data;
	char byte;
	int fd = -1;
	cuMemAlloc(&p, SIZE);
	int handle = cuIpcGetMemHandle(&h, p);
	if (write(pair[0], &h, sizeof h) != sizeof h || read(pair[0], &byte, 1) != 1 || write(pair[0], "x", 1) != 1)
		_exit(9);
	LINE("ipc", "owner", handle, cuMemFree(p), cuMemFree(p));
	CUmemoryPool own = new_pool(true);
	int exported = cuMemPoolExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cuMemAllocFromPoolAsync(&q, SIZE, own, stream);
	cuStreamSynchronize(stream);
	int pointer = cuMemPoolExportPointer(&data, q);
	if (pass_fd(pair[0], fd) || write(pair[0], &data, sizeof data) != sizeof data || read(pair[0], &byte, 1) != 1)
		_exit(9);
	waitpid(child, &status, 0);
	LINE("pool-ipc", "owner", exported, pointer, cuMemFreeAsync(q, stream));
	LINE("pool-ipc", "child", status, cuStreamSynchronize(stream), cuMemPoolDestroy(own));
}

/* Resets the device in the middle. */
static void reset(void)
{
	int *p, *q;
	cudaMalloc(&p, SIZE);
	touch<<<1, 32>>>(p);
	LINE("reset", "with memory", cudaDeviceSynchronize(), cudaDeviceReset(), cudaFree(p));
	cudaGetLastError();
	int got = cudaMalloc(&q, SIZE);
	touch<<<1, 32>>>(q);
	LINE("reset", "after", got, cudaDeviceSynchronize(), cudaFreeAsync(q, 0));
	LINE("reset", "end", cudaDeviceSynchronize(), cudaDeviceReset(), cudaDeviceReset());
}

/* A graph is launched again before the memory of its node was freed, which CUDA refuses. CUPTI's records of whole graphs kill
 * a program that does it. */
static void relaunch(void)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaStream_t s = stream;
	cudaGraphNode_t alloc;
	cudaMemAllocNodeParams n = {};
	n.poolProps.allocType = cudaMemAllocationTypePinned;
	n.poolProps.location.type = cudaMemLocationTypeDevice;
	n.bytesize = SIZE;
	cudaGraphCreate(&graph, 0);
	LINE("graph", "alloc node", cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &n), cudaGraphInstantiate(&exec, graph, 0), cudaGraphLaunch(exec, s));
	LINE("graph", "not freed", cudaGraphLaunch(exec, s), cudaFree(n.dptr), cudaGraphLaunch(exec, s));
	cudaGetLastError();
	LINE("graph", "destroyed unfreed", cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaFree(n.dptr));
}

/* The shortest program that CUPTI's MEMORY2 records kill. */
static void shortest(void)
{
	CUdeviceptr p;
	int got = cuMemAlloc(&p, 4096);
	LINE("cuMemAlloc", "cuMemFreeAsync", got, cuMemFreeAsync(p, stream), cuStreamSynchronize(stream));
}

static void start(void)
{
	CUcontext context;
	cuInit(0);
	cuDeviceGet(&device, 0);
	cuDevicePrimaryCtxRetain(&context, device);
	cuCtxSetCurrent(context);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	pool = new_pool(false);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool starts; /* starts CUDA itself */
} groups[] = {{"shortest", shortest}, {"pairs", pairs}, {"misfreed", misfreed}, {"destroyed", destroyed}, {"owners", owner_destroyed}, {"threads", threads},
	      {"virtual", virtual_oddities}, {"graphs", graphs}, {"failing", failing}, {"processes", processes, true}, {"reset", reset},
	      {"relaunch", relaunch}};

int main(int argc, char **argv)
{
	for (auto &g : groups) {
		int status = 0;
		if (argc > 1 && strcmp(argv[1], g.name))
			continue;
		printf("# %s\n", g.name);
		fflush(stdout);
		if (fork() == 0) {
			if (!g.starts)
				start();
			g.run();
			fflush(stdout);
			exit(0);
		}
		wait(&status);
		if (WIFSIGNALED(status))
			printf("# %s died by signal %d\n", g.name, WTERMSIG(status));
		else if (WEXITSTATUS(status))
			printf("# %s ended with %d\n", g.name, WEXITSTATUS(status));
	}
	return 0;
}
