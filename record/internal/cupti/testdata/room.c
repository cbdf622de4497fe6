/*
 * room LEFT LEAST: leaves itself LEFT MiB of address space, fills memory 20,000 times, and then maps what it can get.
 * Ends with 7 if that is LEAST MiB or more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int cudaMalloc(void **, size_t), cudaMemsetAsync(void *, int, size_t, void *), cudaDeviceSynchronize(void);

static rlim_t mapped(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%ld", &pages) != 1)
		exit(90);
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
	static void *all[1024];
	int got = 0, failed = argc != 3;
	void *p;
	struct rlimit limit = {mapped() + ((rlim_t)atoi(argv[1]) << 20), RLIM_INFINITY};
	if (failed || setrlimit(RLIMIT_AS, &limit) || cudaMalloc(&p, 64))
		return 91;
	for (int i = 0; i < 20000; i++)
		failed |= cudaMemsetAsync(p, i, 64, NULL);
	if (failed || cudaDeviceSynchronize())
		return 92;
	for (void *m; got < 1024; all[got++] = m)
		if ((m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
			break;
	for (int i = 0; i < got; i++)
		munmap(all[i], 1 << 20);
	if (got < atoi(argv[2]))
		printf("%d MiB could be had\n", got);
	return got < atoi(argv[2]) ? 1 : 7;
}
