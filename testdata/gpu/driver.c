/*
 * driver.c: the driver API alone, through dlopen, with a kernel in PTX: no CUDA
 * headers, no runtime. Usage: driver [LAUNCHES]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry _Z3incPi(.param .u64 p) {\n"
	".reg .b64 %rd<3>;\n.reg .b32 %r<3>;\n"
	"ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\n"
	"ld.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 1;\nst.global.u32 [%rd2], %r2;\nret;\n}\n";

static void *lib;

static void *find(const char *name)
{
	void *f = dlsym(lib, name);
	if (!f) {
		fprintf(stderr, "driver: no %s\n", name);
		exit(1);
	}
	return f;
}

#define CALL(name, types, ...)                                                     \
	do {                                                                           \
		int(*f) types = (int(*) types)find(name);                                  \
		int r = f(__VA_ARGS__);                                                    \
		if (r) {                                                                   \
			fprintf(stderr, "driver: %s: error %d\n", name, r);                    \
			exit(1);                                                               \
		}                                                                          \
	} while (0)

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100, device, value = 0;
	void *context, *module, *function;
	unsigned long long memory;
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		return 1;
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &device, 0);
	CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
	CALL("cuCtxSetCurrent", (void *), context);
	CALL("cuModuleLoadData", (void **, const void *), &module, ptx);
	CALL("cuModuleGetFunction", (void **, void *, const char *), &function, module, "_Z3incPi");
	CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &memory, 4);
	CALL("cuMemsetD32_v2", (unsigned long long, unsigned, size_t), memory, 0, 1);
	void *args[] = {&memory};
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
		(int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))find("cuLaunchKernel");
	for (int i = 0; i < n; i++)
		if (launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL))
			return 1;
	CALL("cuMemcpyDtoH_v2", (void *, unsigned long long, size_t), &value, memory, 4);
	if (value != n) {
		fprintf(stderr, "driver: %d instead of %d\n", value, n);
		return 1;
	}
	printf("counts pid=%d kernels=%d copies=1 sets=1\n", getpid(), n);
	return 0;
}
