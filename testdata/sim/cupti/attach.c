#include <dlfcn.h>
#include <pthread.h>

#include "internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sim_hook *hook;

static const struct sim_client client = {
	.enter = cupti_on_enter,
	.exit = cupti_on_exit,
	.work = cupti_on_work,
	.context = cupti_on_context,
	.stream = cupti_on_stream,
	.pool = cupti_on_pool,
};

static void find(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	struct sim_hook *h = driver ? dlsym(driver, SIM_HOOK_SYMBOL) : NULL;
	if (h && h->version == SIM_HOOK_VERSION && h->size == sizeof *h)
		hook = h;
}

struct sim_hook *cupti_hook(void)
{
	pthread_once(&once, find);
	return hook;
}

bool cupti_forked(void)
{
	struct sim_hook *h = cupti_hook();
	return h && h->forked();
}

void cupti_attach(bool on)
{
	struct sim_hook *h = cupti_hook();
	if (h)
		atomic_store_explicit(&h->client, on ? &client : NULL, memory_order_release);
}
