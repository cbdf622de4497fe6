// refused.cu: a launch with too many threads in a block, as the program's first launch or as its tenth.
// Prints the launch's error, and the number of launches that worked.
//
// Usage: refused first | tenth
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

__global__ void add(int *p) { *p += 1; }

static void check(cudaError_t e, int line)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "refused.cu:%d: %s\n", line, cudaGetErrorString(e));
	exit(1);
}
#define CHECK(call) check((call), __LINE__)

int main(int argc, char **argv)
{
	int *cell, value = -1, before = 0;
	if (argc != 2 || (strcmp(argv[1], "first") && strcmp(argv[1], "tenth"))) {
		fprintf(stderr, "usage: refused first | tenth\n");
		return 2;
	}
	CHECK(cudaMalloc(&cell, sizeof *cell));
	CHECK(cudaMemset(cell, 0, sizeof *cell));
	for (; !strcmp(argv[1], "tenth") && before < 9; before++) {
		add<<<1, 1>>>(cell);
		CHECK(cudaGetLastError());
	}
	add<<<1, 2048>>>(cell);
	cudaError_t refused = cudaGetLastError();
	CHECK(cudaMemcpy(&value, cell, sizeof value, cudaMemcpyDeviceToHost));
	printf("refused %s: %s, %d launches worked\n", argv[1], cudaGetErrorName(refused), value);
	return value != before || refused == cudaSuccess;
}
