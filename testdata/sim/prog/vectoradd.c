/* Adds two vectors on the GPU and checks the sum. */
#include <string.h>

#include "kernels.h"

KERNEL_STUB(vector_add, "_Z9vectorAddIfEvPKT_S2_PS0_i")

static void vector_add_body(void **args, const struct sim_launch *launch)
{
	const float *a = *(const float **)args[0], *b = *(const float **)args[1];
	float *sum = *(float **)args[2];
	int n = *(int *)args[3], threads = (int)(launch->grid[0] * launch->block[0]);
	for (int i = 0; i < n && i < threads; i++)
		sum[i] = a[i] + b[i];
}

static const struct sim_kernel kernels[] = {
	{"_Z9vectorAddIfEvPKT_S2_PS0_i", vector_add_body, 16, 0, 0, 0, 4, {8, 8, 8, 4}},
};
static const struct stub stubs[] = {{vector_add}};
REGISTER_KERNELS(kernels, stubs)

static float *host_vector(int n, float step)
{
	float *v = malloc((size_t)n * sizeof *v);
	if (!v) {
		fprintf(stderr, "vectoradd: no memory for %d elements\n", n);
		exit(1);
	}
	for (int i = 0; i < n; i++)
		v[i] = (float)i * step;
	return v;
}

static int wrong(const float *a, const float *b, const float *sum, int n)
{
	int bad = 0;
	for (int i = 0; i < n; i++)
		bad += sum[i] != a[i] + b[i];
	return bad;
}

int main(int argc, char **argv)
{
	int n = argc > 2 && !strcmp(argv[1], "-n") ? atoi(argv[2]) : 50000;
	if (n <= 0) {
		fprintf(stderr, "usage: vectoradd [-n ELEMENTS]\n");
		return 2;
	}
	size_t bytes = (size_t)n * sizeof(float);
	float *a = host_vector(n, 0.5f), *b = host_vector(n, 0.25f), *sum = host_vector(n, 0);
	float *da, *db, *dsum;
	CHECK(cudaMalloc((void **)&da, bytes));
	CHECK(cudaMalloc((void **)&db, bytes));
	CHECK(cudaMalloc((void **)&dsum, bytes));
	CHECK(cudaMemcpy(da, a, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, b, bytes, cudaMemcpyHostToDevice));
	dim3 block = {256, 1, 1}, grid = {((unsigned)n + 255) / 256, 1, 1};
	void *args[] = {&da, &db, &dsum, &n};
	CHECK(cudaLaunchKernel(host_address(stubs[0]), grid, block, args, 0, NULL));
	CHECK(cudaMemcpy(sum, dsum, bytes, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(da));
	CHECK(cudaFree(db));
	CHECK(cudaFree(dsum));
	int bad = wrong(a, b, sum, n);
	if (bad)
		printf("vectoradd: %d of %d elements wrong\n", bad, n);
	else
		printf("vectoradd: %d elements, sum ok\n", n);
	free(a);
	free(b);
	free(sum);
	return bad != 0;
}
