/* In the middle of its launches this program becomes a CUPTI client itself, as
 * PyTorch's profiler does, and stops again later: a third of the kernels before,
 * during and after. It counts the kernel records that it gets, apart those in
 * buffers that an earlier client gave to CUPTI, and those whose times are not on the clock
 * that it expects. It finds CUPTI's functions by dlsym; built with KINETO_LINKED it is linked
 * with CUPTI, and with KINETO_CLOCK it has a clock of its own. */
#include <dlfcn.h>
#include <pthread.h>

#include "../include/cupti_sim.h"
#include "options.h"
#include "work.h"

#define BUFFER (1 << 20)

static struct {
	CUptiResult (*register_callbacks)(CUptiBufferRequested, CUptiBufferCompleted);
	CUptiResult (*enable)(uint32_t), (*disable)(uint32_t);
	CUptiResult (*flush)(uint32_t);
	CUptiResult (*next)(uint8_t *, size_t, uint32_t **);
	CUptiResult (*timestamp)(CUptiTimestamp);
} cupti;

static struct {
	pthread_mutex_t mu;
	uint8_t *buffers[256];
	size_t count;
	long own, earlier; /* kernels in buffers of this client, of an earlier one */
	long astray;       /* with times before this client began, or in the future */
	uint64_t since;
} seen = {.mu = PTHREAD_MUTEX_INITIALIZER};

#ifdef KINETO_CLOCK
#define AHEAD 1000000000000000000ull /* of CLOCK_BOOTTIME */
#define CLOCK CLOCK_BOOTTIME
#else
#define AHEAD 0
#define CLOCK CLOCK_REALTIME /* CUPTI's own */
#endif

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK, &t);
	return AHEAD + (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = aligned_alloc(8, BUFFER);
	*size = *buffer ? BUFFER : 0;
	*max = 0;
	pthread_mutex_lock(&seen.mu);
	if (seen.count < sizeof seen.buffers / sizeof *seen.buffers)
		seen.buffers[seen.count++] = *buffer;
	pthread_mutex_unlock(&seen.mu);
}

static bool forget(const uint8_t *buffer)
{
	for (size_t i = 0; i < seen.count; i++)
		if (seen.buffers[i] == buffer) {
			seen.buffers[i] = seen.buffers[--seen.count];
			return true;
		}
	return false;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint32_t *record = NULL;
	long kernels_here = 0, astray = 0;
	(void)context, (void)stream, (void)size;
	while (cupti.next(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (*record != CUPTI_KIND_CONCURRENT_KERNEL)
			continue;
		const CUptiKernel *k = (const void *)record;
		kernels_here++;
		astray += k->start < seen.since || k->end < k->start || k->end > now();
	}
	pthread_mutex_lock(&seen.mu);
	seen.astray += astray;
	bool own = forget(buffer);
	*(own ? &seen.own : &seen.earlier) += kernels_here;
	pthread_mutex_unlock(&seen.mu);
	if (own)
		free(buffer);
}

#ifdef KINETO_LINKED
CUptiResult cuptiActivityRegisterCallbacks(CUptiBufferRequested, CUptiBufferCompleted);
CUptiResult cuptiActivityRegisterTimestampCallback(CUptiTimestamp);
CUptiResult cuptiActivityEnable(uint32_t), cuptiActivityDisable(uint32_t), cuptiActivityFlushAll(uint32_t);
CUptiResult cuptiActivityGetNextRecord(uint8_t *, size_t, uint32_t **);

static bool load(void)
{
	cupti.register_callbacks = cuptiActivityRegisterCallbacks;
	cupti.enable = cuptiActivityEnable;
	cupti.disable = cuptiActivityDisable;
	cupti.flush = cuptiActivityFlushAll;
	cupti.next = cuptiActivityGetNextRecord;
	cupti.timestamp = cuptiActivityRegisterTimestampCallback;
	return true;
}
#else
static bool load(void)
{
	void *lib = dlopen("libcupti.so.13", RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "kineto: %s\n", dlerror());
		return false;
	}
	*(void **)&cupti.register_callbacks = dlsym(lib, "cuptiActivityRegisterCallbacks");
	*(void **)&cupti.enable = dlsym(lib, "cuptiActivityEnable");
	*(void **)&cupti.disable = dlsym(lib, "cuptiActivityDisable");
	*(void **)&cupti.flush = dlsym(lib, "cuptiActivityFlushAll");
	*(void **)&cupti.next = dlsym(lib, "cuptiActivityGetNextRecord");
	*(void **)&cupti.timestamp = dlsym(lib, "cuptiActivityRegisterTimestampCallback");
	return cupti.register_callbacks && cupti.enable && cupti.disable && cupti.flush && cupti.next && cupti.timestamp;
}
#endif

/* A clock comes before the buffers, as in PyTorch's profiler. */
static bool set_clock(void)
{
#ifdef KINETO_CLOCK
	return !cupti.timestamp(now);
#else
	return true;
#endif
}

static bool begin(void)
{
	seen.since = now();
	return load() && set_clock() && !cupti.register_callbacks(requested, completed) &&
	       !cupti.enable(CUPTI_KIND_CONCURRENT_KERNEL) && !cupti.enable(CUPTI_KIND_RUNTIME);
}

static bool end(void)
{
	return !cupti.flush(0) && !cupti.disable(CUPTI_KIND_CONCURRENT_KERNEL) && !cupti.disable(CUPTI_KIND_RUNTIME);
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 200, 1);
	struct work w;
	work_begin(&w);
	work_launch(&w, n);
	CHECK(cudaStreamSynchronize(w.stream));
	bool ok = begin();
	work_launch(&w, n);
	CHECK(cudaStreamSynchronize(w.stream));
	ok = ok && end();
	work_launch(&w, n);
	int bad = work_end(&w) + !ok + (ok && seen.own + seen.earlier < n);
	counts_print("counts", w.issued);
	printf("kineto kernels=%ld earlier=%ld astray=%ld\n", seen.own, seen.earlier, seen.astray);
	return bad != 0;
}
