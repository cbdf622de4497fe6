// Allocates and frees memory of each use, and prints what a recording has to say of it: a line for each use,
//
//	truth USE peak=BYTES allocations=N frees=N left=N bytes=N
//
// and how many more allocations are made in the order of a stream, each of which is freed, when nothing else is live. A
// second GPU and a second process have lines of their own.
//
// Usage: allocations [arrays] [mixed] [vmm] [devices] [ipc]
//
// With mixed, memory of cudaMalloc is freed in the order of a stream, too; with vmm physical memory is mapped; with devices
// two threads allocate on a GPU each; with ipc a second process opens memory of this one. What the machine lacks has a line
// "skipped". The simulated stack builds this file as C.
#ifdef __CUDACC__
#include <cuda.h>
#include <cuda_runtime.h>
#else
#include "../sim/include/cudart_sim.h"
typedef CUipcMemHandle cudaIpcMemHandle_t;
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p);
cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void *p);
enum { cudaIpcMemLazyEnablePeerAccess = 1 };
#endif

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEVICE, MANAGED, PINNED, SECOND, CHILD, USES, THREADS = 4, TURNS = 50, ORDERED = 10, KIB = 1 << 10, MIB = 1 << 20 };

static const char *const names[] = {"device", "managed", "pinned", "device", "device"};

static struct use {
	size_t live, peak, bytes;
	int allocations, frees;
} uses[USES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void check(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "allocations: %s: error %d\n", what, result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static void took(int which, size_t bytes)
{
	struct use *u = &uses[which];
	pthread_mutex_lock(&lock);
	u->allocations++;
	u->bytes += bytes;
	u->live += bytes;
	if (u->live > u->peak)
		u->peak = u->live;
	pthread_mutex_unlock(&lock);
}

static void gave(int which, size_t bytes)
{
	pthread_mutex_lock(&lock);
	uses[which].frees++;
	uses[which].live -= bytes;
	pthread_mutex_unlock(&lock);
}

static void *device_of(int which, size_t bytes)
{
	void *p;
	CHECK(cudaMalloc(&p, bytes));
	took(which, bytes);
	return p;
}

static void free_of(int which, void *p, size_t bytes)
{
	gave(which, bytes);
	CHECK(cudaFree(p));
}

static void *device(size_t bytes)
{
	return device_of(DEVICE, bytes);
}

static void free_device(void *p, size_t bytes)
{
	free_of(DEVICE, p, bytes);
}

static void in_order(cudaStream_t stream)
{
	for (int i = 0; i < ORDERED; i++) {
		void *p;
		CHECK(cudaMallocAsync(&p, MIB, stream));
		CHECK(cudaFreeAsync(p, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
}

static void *turns(void *unused)
{
	(void)unused;
	for (int i = 0; i < TURNS; i++) {
		size_t bytes = (size_t)(i % 7 + 1) * 4 * KIB;
		free_device(device(bytes), bytes);
	}
	return NULL;
}

static void on_threads(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, turns, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL));
}

static void of_host(void)
{
	void *a, *b, *m;
	CHECK(cudaMallocHost(&a, 64 * KIB));
	took(PINNED, 64 * KIB);
	CHECK(cudaHostAlloc(&b, 128 * KIB, 0));
	took(PINNED, 128 * KIB); // stays
	gave(PINNED, 64 * KIB);
	CHECK(cudaFreeHost(a));
	CHECK(cudaMallocManaged(&m, 2 * MIB, 1));
	took(MANAGED, 2 * MIB);
	gave(MANAGED, 2 * MIB);
	CHECK(cudaFree(m));
}

static void array(void)
{
	cudaChannelFormatDesc words; // of 32 bits, signed
	memset(&words, 0, sizeof words);
	words.x = 32;
#ifdef __CUDACC__
	cudaArray_t a;
#else
	CUarray a;
#endif
	CHECK(cudaMallocArray(&a, &words, 256, 256, 0));
	took(DEVICE, 256 * KIB);
	gave(DEVICE, 256 * KIB);
	CHECK(cudaFreeArray(a));
}

static void mixed(cudaStream_t stream)
{
	for (int i = 0; i < 3; i++) {
		void *p = device(MIB);
		gave(DEVICE, MIB);
		CHECK(cudaFreeAsync(p, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
}

// Two handles are mapped side by side; one is released before it is unmapped, one after that.
static void mapped(void)
{
	const int one = 1;
	size_t bytes = 0;
	CUdeviceptr at = 0;
	CUmemGenericAllocationHandle handles[2];
	CUmemAllocationProp prop;
	CUresult (*granularity)(size_t *, const CUmemAllocationProp *, int);
	CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
	CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
	CUresult (*unmap)(CUdeviceptr, size_t), (*unreserve)(CUdeviceptr, size_t), (*release)(CUmemGenericAllocationHandle);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&granularity = dlsym(driver, "cuMemGetAllocationGranularity"), *(void **)&create = dlsym(driver, "cuMemCreate");
	*(void **)&reserve = dlsym(driver, "cuMemAddressReserve"), *(void **)&unreserve = dlsym(driver, "cuMemAddressFree");
	*(void **)&map = dlsym(driver, "cuMemMap"), *(void **)&unmap = dlsym(driver, "cuMemUnmap");
	*(void **)&release = dlsym(driver, "cuMemRelease");
	memset(&prop, 0, sizeof prop);
	memcpy(&prop.type, &one, sizeof one);          // CU_MEM_ALLOCATION_TYPE_PINNED
	memcpy(&prop.location.type, &one, sizeof one); // CU_MEM_LOCATION_TYPE_DEVICE, 0
	CHECK(granularity(&bytes, &prop, 0));
	CHECK(reserve(&at, 2 * bytes, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(create(&handles[i], bytes, &prop, 0));
		took(DEVICE, bytes);
		CHECK(map(at + i * bytes, bytes, 0, handles[i], 0));
	}
	CHECK(release(handles[0]));
	gave(DEVICE, bytes);
	CHECK(unmap(at, bytes));
	gave(DEVICE, bytes);
	CHECK(unmap(at + bytes, bytes));
	CHECK(release(handles[1]));
	CHECK(unreserve(at, 2 * bytes));
}

static void *on_device(void *number)
{
	int second = number != NULL;
	CHECK(cudaSetDevice(second));
	for (int i = 0; i < TURNS; i++) {
		size_t bytes = (size_t)(i % 5 + 1) * (second ? 8 : 4) * KIB;
		free_of(second ? SECOND : DEVICE, device_of(second ? SECOND : DEVICE, bytes), bytes);
	}
	return NULL;
}

static void on_devices(void)
{
	int count = 0;
	pthread_t threads[2];
	CHECK(cudaGetDeviceCount(&count));
	if (count < 2) {
		printf("skipped devices: there is one GPU\n");
		return;
	}
	CHECK(pthread_create(&threads[0], NULL, on_device, NULL));
	CHECK(pthread_create(&threads[1], NULL, on_device, &count));
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL));
}

// The second process, which has the handle on its standard input.
static int open_handle(void)
{
	cudaIpcMemHandle_t handle;
	void *own, *theirs;
	if (read(0, &handle, sizeof handle) != (ssize_t)sizeof handle)
		return 1;
	CHECK(cudaMalloc(&own, 256 * KIB));
	CHECK(cudaIpcOpenMemHandle(&theirs, handle, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcCloseMemHandle(theirs));
	CHECK(cudaFree(own));
	return 0;
}

// Memory that two processes have counts in the one that allocated it.
static void shared(char *program)
{
	cudaIpcMemHandle_t handle;
	int ends[2], status = 1;
	void *p = device(MIB);
	int result = cudaIpcGetMemHandle(&handle, p);
	if (result != 0) {
		printf("skipped ipc: error %d\n", result);
		cudaGetLastError();
		free_device(p, MIB);
		return;
	}
	CHECK(pipe(ends));
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[0], 0);
		execl(program, program, "opens", (char *)NULL);
		_exit(127);
	}
	CHECK(write(ends[1], &handle, sizeof handle) != (ssize_t)sizeof handle);
	waitpid(child, &status, 0);
	CHECK(status);
	took(CHILD, 256 * KIB);
	gave(CHILD, 256 * KIB);
	free_device(p, MIB);
}

static int asked(int argc, char **argv, const char *what)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], what) == 0)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	cudaStream_t stream;
	void *first, *refused;
	if (asked(argc, argv, "opens"))
		return open_handle();
	CHECK(cudaStreamCreate(&stream));
	in_order(stream);
	if (asked(argc, argv, "mixed"))
		mixed(stream);
	if (asked(argc, argv, "arrays"))
		array();
	if (asked(argc, argv, "vmm"))
		mapped();
	if (asked(argc, argv, "devices"))
		on_devices();
	if (asked(argc, argv, "ipc"))
		shared(argv[0]);
	first = device(MIB);
	device(3 * MIB); // stays
	free_device(first, MIB);
	on_threads();
	of_host();
	if (cudaMalloc(&refused, (size_t)1 << 50) == 0)
		return 1;
	cudaGetLastError();
	for (int i = 0; i < USES; i++)
		if (i < SECOND || uses[i].allocations > 0)
			printf("truth %s peak=%zu allocations=%d frees=%d left=%d bytes=%zu\n", names[i], uses[i].peak,
			       uses[i].allocations, uses[i].frees, uses[i].allocations - uses[i].frees, uses[i].bytes);
	printf("ordered allocations=%d bytes=%zu\n", ORDERED, (size_t)ORDERED * MIB);
	fflush(stdout);
	return 0;
}
