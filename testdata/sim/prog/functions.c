/* Calls very many functions, each at least once, and checks each result:
 * memory of all kinds, copies and memsets of all shapes, streams, code, contexts. */
#include <dlfcn.h>

#include "functions.h"
#include "options.h"
#include "work.h"

struct counts functions_issued;

int functions_expect(bool right, const char *what)
{
	if (!right)
		fprintf(stderr, "functions: %s\n", what);
	return !right;
}

static int shared_table[8]; /* stands for the device's variable of this name */
static const struct sim_global globals[] = {{"shared_table", sizeof shared_table}};
static const struct sim_image globals_image = {.magic = SIM_IMAGE_MAGIC, .global_count = 1, .globals = globals};
static struct sim_fatbin globals_fatbin = {SIM_FATBIN_MAGIC, 1, &globals_image, NULL};

__attribute__((constructor)) static void register_globals(void)
{
	void **handle = __cudaRegisterFatBinary(&globals_fatbin);
	__cudaRegisterVar(handle, (char *)shared_table, (char *)shared_table, "shared_table", 0, sizeof shared_table, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
}

static int symbols(void)
{
	int in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[4] = {0};
	CHECK(cudaMemcpyToSymbol(shared_table, in, sizeof in, 0, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyFromSymbol(out, shared_table, sizeof out, 4 * sizeof(int), cudaMemcpyDeviceToHost));
	functions_issued.copies += 2;
	return EXPECT(out[0] == 5 && out[3] == 8);
}

/* A square of 5 by 4 within rows that are longer. */
static int pitched(void)
{
	unsigned char host[4][8], back[4][8];
	size_t pitch;
	char *p;
	for (int i = 0; i < 32; i++)
		host[i / 8][i % 8] = (unsigned char)i;
	memset(back, 0, sizeof back);
	CHECK(cudaMallocPitch((void **)&p, &pitch, 5, 4));
	CHECK(cudaMemset2D(p, pitch, 9, 5, 4));
	functions_issued.sets++;
	CHECK(cudaMemcpy2D(p, pitch, host, 8, 5, 3, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2D(back, 8, p, pitch, 5, 4, cudaMemcpyDeviceToHost));
	functions_issued.copies += 2;
	CHECK(cudaFree(p));
	return EXPECT(pitch >= 5 && back[2][4] == 20 && back[2][5] == 0 && back[3][0] == 9);
}

static int arrays(void)
{
	float host[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, back[2][4] = {{0}};
	cudaChannelFormatDesc floats = {32, 0, 0, 0, 2};
	CUarray a;
	CHECK(cudaMallocArray(&a, &floats, 4, 2, 0));
	CHECK(cudaMemcpy2DToArray(a, 0, 0, host, sizeof *host, sizeof *host, 2, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2DFromArray(back, sizeof *back, a, 2 * sizeof(float), 1, 2 * sizeof(float), 1,
				    cudaMemcpyDeviceToHost));
	cudaMemcpy3DParms box = {.srcArray = a, .dstPtr = {back[1], sizeof *back, 4, 1}, .extent = {4, 1, 1},
				 .kind = cudaMemcpyDeviceToHost};
	CHECK(cudaMemcpy3D(&box));
	functions_issued.copies += 3;
	CHECK(cudaFreeArray(a));
	return EXPECT(back[0][0] == 7 && back[0][1] == 8 && back[1][3] == 4);
}

/* One call of the runtime's, two of the driver's, one after the other and in a loop. */
static int parts(void)
{
	char host[12], back[12];
	cudaChannelFormatDesc bytes = {8, 0, 0, 0, 1};
	CUarray a;
	memcpy(host, "abcdefghijk", sizeof host);
	memset(back, 0, sizeof back);
	CHECK(cudaMallocArray(&a, &bytes, 8, 2, 0));
	for (int i = 0; i < 3; i++)
		CHECK(cudaMemcpyToArray(a, 2, 0, host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2DFromArray(back, 8, a, 0, 1, 6, 1, cudaMemcpyDeviceToHost));
	functions_issued.copies += 3 * 2 + 1;
	CHECK(cudaFreeArray(a));
	return EXPECT(!strcmp(back, "ghijk"));
}

/* One call of the runtime's, one of the driver's for each plane. */
static int planes(void)
{
	unsigned char back[3 * 4 * 8];
	char *p;
	CHECK(cudaMalloc((void **)&p, sizeof back));
	CHECK(cudaMemset(p, 1, sizeof back));
	for (int i = 0; i < 2; i++)
		CHECK(cudaMemset3D((cudaPitchedPtr){p, 8, 8, 4}, 5 + i, (cudaExtent){6, 3, 3}));
	CHECK(cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost));
	functions_issued.sets += 1 + 2 * 3;
	functions_issued.copies++;
	CHECK(cudaFree(p));
	return EXPECT(back[0] == 6 && back[64 + 16 + 5] == 6 && back[64 + 24] == 1 && back[6] == 1);
}

static int kinds_of_memory(void)
{
	static char registered[8192];
	cudaPointerAttributes about;
	char *managed, back = 0;
	CHECK(cudaMallocManaged((void **)&managed, 4096, 1));
	CHECK(cudaMemset(managed, 3, 4096));
	functions_issued.sets++;
	CHECK(cudaPointerGetAttributes(&about, managed + 5));
	int bad = EXPECT(about.type == 3);
	CHECK(cudaHostRegister(registered, sizeof registered, 0));
	CHECK(cudaPointerGetAttributes(&about, registered));
	bad += EXPECT(about.type == 1);
	CHECK(cudaMemcpy(registered, managed, 4096, cudaMemcpyDeviceToHost));
	functions_issued.copies++;
	CHECK(cudaHostUnregister(registered));
	CHECK(cudaPointerGetAttributes(&about, &back));
	bad += EXPECT(about.type == 0 && registered[4095] == 3);
	CHECK(cudaFree(managed));
	return bad;
}

static int pools(void)
{
	CUmemPoolProps props = {.allocType = 1, .location = {1, 0}};
	cudaMemPool_t pool;
	cudaStream_t s;
	char *a, *b, back = 0;
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaMemPoolCreate(&pool, &props));
	CHECK(cudaMallocAsync((void **)&a, 4096, s));
	CHECK(cudaMallocFromPoolAsync((void **)&b, 4096, pool, s));
	CHECK(cudaMemsetAsync(a, 5, 4096, s));
	CHECK(cudaMemcpyAsync(b, a, 4096, cudaMemcpyDeviceToDevice, s));
	CHECK(cudaMemcpyAsync(&back, b, 1, cudaMemcpyDeviceToHost, s));
	functions_issued.sets++;
	functions_issued.copies += 2;
	CHECK(cudaFreeAsync(a, s));
	CHECK(cudaFreeAsync(b, s));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemPoolTrimTo(pool, 0));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaStreamDestroy(s));
	return EXPECT(back == 5);
}

static int code(void)
{
	cudaFuncAttributes about;
	int blocks = 0;
	CHECK(cudaFuncGetAttributes(&about, host_address(stubs[0])));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, host_address(stubs[0]), 256, 0));
	return EXPECT(about.numRegs == 10 && blocks == 8);
}

/* The spellings for programs built with per-thread default streams. */
static int own_default_stream(void)
{
	dim3 one = {1, 1, 1};
	int *cell, ran = 0;
	CHECK(cudaMalloc((void **)&cell, sizeof *cell));
	CHECK(cudaMemset(cell, 0, sizeof *cell));
	functions_issued.sets++;
	CHECK(cudaDeviceSynchronize());
	void *args[] = {&cell};
	for (int i = 0; i < 3; i++)
		CHECK(cudaLaunchKernel_ptsz(host_address(stubs[0]), one, one, args, 0, NULL));
	functions_issued.kernels += 3;
	CHECK(cudaMemcpy_ptds(&ran, cell, sizeof ran, cudaMemcpyDeviceToHost));
	functions_issued.copies++;
	CHECK(cudaStreamSynchronize_ptsz(NULL));
	CHECK(cudaFree(cell));
	return EXPECT(ran == 3);
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--open"))
		return functions_open(argv[2]);
	int bad = work_all(&functions_issued, 1);
	bad += symbols() + pitched() + arrays() + parts() + planes() + kinds_of_memory() + pools() + code() + own_default_stream();
	bad += functions_driver(&image_, argv[0]);
	counts_print("counts", functions_issued);
	return bad != 0;
}
