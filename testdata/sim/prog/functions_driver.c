#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../include/cuda_sim.h"
#include "functions.h"

CUresult cuCtxGetCurrent(CUcontext *ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *ctx);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s);
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr p, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle h);
CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr p, size_t size);
CUresult cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t count);
CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop, int option);
CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr p);
CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char value, size_t n);
CUresult cuMemsetD32_v2(CUdeviceptr p, unsigned value, size_t n);
CUresult cuMemcpyDtoH_v2(void *d, CUdeviceptr s, size_t n);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attrs,
			       size_t *indexes, size_t attr_count, CUstream s);
CUresult cuStreamCreate(CUstream *s, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream s);
CUresult cuStreamSynchronize(CUstream s);
CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr p, uint32_t value, unsigned flags);
CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr p, uint32_t value, unsigned flags);
CUresult cuStreamAddCallback(CUstream s, CUstreamCallback call, void *data, unsigned flags);
CUresult cuModuleLoadData(CUmodule *m, const void *image);
CUresult cuModuleUnload(CUmodule m);
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name);
CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z);
CUresult cuParamSetSize(CUfunction f, unsigned bytes);
CUresult cuParamSetv(CUfunction f, int offset, void *value, unsigned size);
CUresult cuLaunchGrid(CUfunction f, int width, int height);
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags);
CUresult cuGetErrorName(CUresult code, const char **out);
CUresult cuTexObjectCreate(unsigned long long *out, const void *resource, const void *texture, const void *view);

#define CHECK(call) check((call), #call)
static void check(CUresult r, const char *call)
{
	const char *name = "?";
	if (!r)
		return;
	cuGetErrorName(r, &name);
	fprintf(stderr, "%s: %s\n", call, name);
	exit(1);
}

/* Two pieces of memory made one range of addresses. */
static int mapped(void)
{
	CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
	CUmemAccessDesc all = {{1, 0}, 3};
	CUmemGenericAllocationHandle half[2];
	CUdeviceptr range;
	size_t piece;
	unsigned char end = 0;
	CHECK(cuMemGetAllocationGranularity(&piece, &prop, 0));
	CHECK(cuMemAddressReserve(&range, 2 * piece, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemCreate(&half[i], piece, &prop, 0));
		CHECK(cuMemMap(range + (size_t)i * piece, piece, 0, half[i], 0));
		CHECK(cuMemRelease(half[i]));
	}
	CHECK(cuMemSetAccess(range, 2 * piece, &all, 1));
	for (size_t i = 0; i < 2; i++)
		CHECK(cuMemsetD8_v2(range + i * piece, (unsigned char)(0x11 * (i + 1)), piece));
	functions_issued.sets += 2;
	CHECK(cuMemcpyDtoH_v2(&end, range + 2 * piece - 1, 1));
	functions_issued.copies++;
	for (size_t i = 0; i < 2; i++)
		CHECK(cuMemUnmap(range + i * piece, piece));
	CHECK(cuMemAddressFree(range, 2 * piece));
	return EXPECT(end == 0x22);
}

static void to_text(char *out, const CUipcMemHandle *handle)
{
	for (size_t i = 0; i < sizeof *handle; i++)
		sprintf(out + 2 * i, "%02hhx", (unsigned char)handle->reserved[i]);
}

/* In the other process: adds one to the content of the memory. */
int functions_open(const char *text)
{
	CUipcMemHandle handle;
	CUcontext ctx;
	CUdeviceptr p;
	unsigned value = 0;
	for (size_t i = 0; i < sizeof handle; i++)
		sscanf(text + 2 * i, "%2hhx", (unsigned char *)&handle.reserved[i]);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuIpcOpenMemHandle_v2(&p, handle, 0));
	CHECK(cuMemcpyDtoH_v2(&value, p, sizeof value));
	CHECK(cuMemsetD32_v2(p, value + 1, 1));
	CHECK(cuCtxSynchronize());
	CHECK(cuIpcCloseMemHandle(p));
	return 0;
}

static int shared(const char *self)
{
	CUipcMemHandle handle;
	CUdeviceptr p;
	char text[2 * sizeof handle + 1];
	unsigned value = 0;
	int status = 1;
	CHECK(cuMemAlloc_v2(&p, 4096));
	CHECK(cuMemsetD32_v2(p, 41, 1));
	functions_issued.sets++;
	CHECK(cuIpcGetMemHandle(&handle, p));
	to_text(text, &handle);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		unsetenv("CUDA_INJECTION64_PATH"); /* its work is not counted here */
		execl("/proc/self/exe", self, "--open", text, (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	CHECK(cuMemcpyDtoH_v2(&value, p, sizeof value));
	functions_issued.copies++;
	CHECK(cuMemFree_v2(p));
	return EXPECT(status == 0 && value == 42);
}

static void called(CUstream s, int status, void *data)
{
	(void)s;
	*(volatile int *)data = status == 0;
}

/* One stream waits for a value that the other writes, and calls back. */
static int values(void)
{
	static volatile int back;
	CUstream a, b;
	CUdeviceptr p;
	CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&p, 8));
	CHECK(cuMemsetD32_v2(p, 0, 2));
	functions_issued.sets++;
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamWaitValue32_v2(a, p, 7, 1));
	CHECK(cuStreamAddCallback(a, called, (void *)(uintptr_t)&back, 0));
	int bad = EXPECT(!back);
	CHECK(cuStreamWriteValue32_v2(b, p, 7, 0));
	CHECK(cuStreamSynchronize(a));
	CHECK(cuStreamDestroy_v2(a));
	CHECK(cuStreamDestroy_v2(b));
	CHECK(cuMemFree_v2(p));
	return bad + EXPECT(back);
}

static int batch(void)
{
	CUdeviceptr p, dsts[3], srcs[3];
	size_t sizes[3] = {4, 8, 4};
	unsigned out[8] = {0};
	CUstream s;
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&p, sizeof out));
	CHECK(cuMemsetD32_v2(p, 6, 4));
	CHECK(cuMemsetD32_v2(p + 16, 0, 4));
	CHECK(cuCtxSynchronize());
	dsts[0] = p + 16, dsts[1] = p + 20, dsts[2] = p + 28;
	srcs[0] = p, srcs[1] = p + 4, srcs[2] = p + 12;
	CHECK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, NULL, NULL, 0, s));
	CHECK(cuStreamSynchronize(s));
	CHECK(cuMemcpyDtoH_v2(out, p, sizeof out));
	functions_issued.sets += 2;
	functions_issued.copies += 4;
	CHECK(cuMemFreeAsync(p, s)); /* legal, though the memory is of no pool: cuSPARSE does it */
	CHECK(cuStreamSynchronize(s));
	CHECK(cuStreamDestroy_v2(s));
	return EXPECT(out[4] == 6 && out[6] == 6 && out[7] == 6);
}

/* The old launch functions. */
static int launches(const struct sim_image *image)
{
	CUstream s;
	CUmodule m;
	CUfunction f;
	CUdeviceptr p;
	int ran = 0;
	CHECK(cuModuleLoadData(&m, image));
	CHECK(cuModuleGetFunction(&f, m, image->kernels[0].name));
	CHECK(cuMemAlloc_v2(&p, 4));
	CHECK(cuMemsetD32_v2(p, 0, 1));
	CHECK(cuFuncSetBlockShape(f, 32, 1, 1));
	CHECK(cuParamSetv(f, 0, &p, sizeof p));
	CHECK(cuParamSetSize(f, sizeof p));
	CHECK(cuLaunchGrid(f, 2, 2));
	CHECK(cuCtxSynchronize());
	void *params[] = {&p};
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUDA_LAUNCH_PARAMS each = {f, 1, 1, 1, 32, 1, 1, 0, s, params};
	CHECK(cuLaunchCooperativeKernelMultiDevice(&each, 1, 0));
	CHECK(cuStreamSynchronize(s));
	CHECK(cuMemcpyDtoH_v2(&ran, p, sizeof ran));
	functions_issued.kernels += 2;
	functions_issued.sets++;
	functions_issued.copies++;
	CHECK(cuMemFree_v2(p));
	CHECK(cuStreamDestroy_v2(s));
	CHECK(cuModuleUnload(m));
	return EXPECT(ran == 2);
}

static int contexts(void)
{
	CUcontext now, popped, none;
	CHECK(cuCtxGetCurrent(&now));
	CHECK(cuCtxPushCurrent_v2(now));
	CHECK(cuCtxPopCurrent_v2(&popped));
	CHECK(cuCtxGetCurrent(&none));
	return EXPECT(popped == now && none == now) + EXPECT(cuTexObjectCreate(NULL, NULL, NULL, NULL) == 801);
}

int functions_driver(const struct sim_image *image, const char *self)
{
	return mapped() + shared(self) + values() + batch() + launches(image) + contexts();
}
