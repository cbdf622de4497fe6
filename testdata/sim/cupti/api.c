#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { THREAD_ID_DEFAULT = 0, THREAD_ID_SYSTEM = 1 };

static _Atomic uint32_t thread_id_type = THREAD_ID_DEFAULT;

uint32_t cupti_thread_id(void)
{
	static _Thread_local uint32_t tid;
	if (atomic_load_explicit(&thread_id_type, memory_order_relaxed) != THREAD_ID_SYSTEM)
		return (uint32_t)(uintptr_t)pthread_self();
	if (!tid)
		tid = (uint32_t)gettid();
	return tid;
}

/* Asked once: a forked child makes no records. */
uint32_t cupti_process_id(void)
{
	static _Atomic uint32_t pid;
	uint32_t known = atomic_load_explicit(&pid, memory_order_relaxed);
	if (!known) {
		known = (uint32_t)getpid();
		atomic_store_explicit(&pid, known, memory_order_relaxed);
	}
	return known;
}

#define LATE_LAUNCH 719

static bool launches(uint32_t cbid)
{
	const char *name = cupti_name(SIM_DRIVER, cbid);
	return name && strncmp(name, "cuLaunch", 8) == 0;
}

static bool wanted(const struct sim_frame *f)
{
	if (cupti_late() && f->domain == SIM_DRIVER)
		return cupti_kind(CUPTI_KIND_DRIVER) && launches(f->cbid);
	return !f->covered && cupti_api_wanted(f->domain, f->cbid);
}

void cupti_on_enter(struct sim_frame *f)
{
	if (cupti_subscribed())
		cupti_call_back(f, CUPTI_API_ENTER, NULL);
	if (wanted(f)) {
		f->recorded = true;
		f->start = cupti_clock();
	}
}

void cupti_on_exit(struct sim_frame *f, int result)
{
	if (f->recorded) {
		CUptiApi r = {
			.kind = f->domain == SIM_DRIVER ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME,
			.cbid = cupti_late() && f->domain == SIM_DRIVER ? LATE_LAUNCH : f->cbid, .start = f->start, .end = cupti_clock(),
			.processId = cupti_process_id(), .threadId = cupti_thread_id(),
			.correlationId = f->correlation, .returnValue = (uint32_t)result,
		};
		cupti_store(&r, sizeof r);
	}
	if (cupti_subscribed())
		cupti_call_back(f, CUPTI_API_EXIT, &result);
}

CUPTI(cuptiSetThreadIdType, (uint32_t type))
{
	if (type > THREAD_ID_SYSTEM)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&thread_id_type, type);
	return CUPTI_SUCCESS;
}

CUPTI(cuptiGetVersion, (uint32_t * version))
{
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = (uint32_t)sim_config()->cupti_version;
	return CUPTI_SUCCESS;
}
