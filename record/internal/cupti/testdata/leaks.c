/*
 * To be built with a leak checker. Fills memory 200 times; with an argument it is a client of CUPTI from the middle on,
 * as PyTorch's profiler, and frees the buffers of the client before. Ends with 7.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cudaMalloc(void **, size_t), cudaFree(void *), cudaMemsetAsync(void *, int, size_t, void *);
int cudaStreamCreate(void **), cudaStreamDestroy(void *), cudaStreamSynchronize(void *);

static int buffers; /* of an earlier client */
static const uint8_t *own;

static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
	*size = 1 << 16;
	*records = 0;
	own = *buffer = malloc(*size);
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size, (void)valid;
	buffers += buffer != own;
	free(buffer);
}

static int (*function(const char *name))()
{
	int (*f)();
	void *library = dlopen("libcupti.so.13", RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
	if (!found)
		exit(90);
	memcpy(&f, &found, sizeof f);
	return f;
}

static int fill(void *p, void *stream)
{
	int failed = 0;
	for (int i = 0; i < 100; i++)
		failed |= cudaMemsetAsync(p, i, 64, stream);
	return failed | cudaStreamSynchronize(stream);
}

int main(int argc, char **argv __attribute__((unused)))
{
	void *stream, *p;
	if (cudaStreamCreate(&stream) || cudaMalloc(&p, 64) || fill(p, stream))
		return 91;
	if (argc > 1 && function("cuptiActivityRegisterCallbacks")(requested, completed))
		return 92;
	if (fill(p, stream) || cudaFree(p) || cudaStreamDestroy(stream))
		return 93;
	if (argc > 1 && function("cuptiActivityFlushAll")(1))
		return 94;
	return argc > 1 && buffers == 0 ? 95 : 7;
}
