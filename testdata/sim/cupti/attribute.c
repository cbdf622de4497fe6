#include <pthread.h>
#include <string.h>

#include "internal.h"

/* CUpti_ActivityAttribute, with the values of CUPTI 13.0.1: kept and given back,
 * without effect. */
static struct {
	uint8_t size; /* bytes of the value; 0: not supported */
	uint64_t value;
} attributes[] = {
	{8, 3200000},  /* DEVICE_BUFFER_SIZE */
	{8, 8388608},  /* DEVICE_BUFFER_SIZE_CDP */
	{8, 250},      /* DEVICE_BUFFER_POOL_LIMIT */
	{0, 0},        /* PROFILING_SEMAPHORE_POOL_SIZE */
	{0, 0},        /* PROFILING_SEMAPHORE_POOL_LIMIT */
	{1, 0},        /* ZEROED_OUT_ACTIVITY_BUFFER */
	{8, 3},        /* DEVICE_BUFFER_PRE_ALLOCATE_VALUE */
	{0, 0},        /* PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE */
	{1, 0},        /* MEM_ALLOCATION_TYPE_HOST_PINNED */
	{1, 1},        /* PER_THREAD_ACTIVITY_BUFFER */
	{8, 16777216}, /* number 10, new in CUPTI 13 */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static CUptiResult check(uint32_t which, const size_t *size, const void *value)
{
	if (!size || !value || which >= sizeof attributes / sizeof *attributes)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!attributes[which].size)
		return CUPTI_ERROR_NOT_SUPPORTED;
	return *size < attributes[which].size ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT : CUPTI_SUCCESS;
}

CUPTI(cuptiActivitySetAttribute, (uint32_t which, size_t *size, void *value))
{
	CUptiResult r = check(which, size, value);
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	memcpy(&attributes[which].value, value, attributes[which].size);
	pthread_mutex_unlock(&mu);
	return CUPTI_SUCCESS;
}

CUPTI(cuptiActivityGetAttribute, (uint32_t which, size_t *size, void *value))
{
	CUptiResult r = check(which, size, value);
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	memcpy(value, &attributes[which].value, attributes[which].size);
	*size = attributes[which].size;
	pthread_mutex_unlock(&mu);
	return CUPTI_SUCCESS;
}

CUPTI(cuptiGetVersion, (uint32_t * version))
{
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = (uint32_t)sim_config()->cupti_version;
	return CUPTI_SUCCESS;
}

CUPTI(cuptiGetLastError, (void))
{
	return CUPTI_SUCCESS;
}

/* Needs a Blackwell GPU; the simulated one is an H200, which answers this. */
CUPTI(cuptiActivityEnableHWTrace, (uint8_t enable))
{
	return enable ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_SUCCESS;
}

CUPTI(cuptiActivityEnableLatencyTimestamps, (uint8_t enable))
{
	(void)enable;
	return CUPTI_SUCCESS;
}

CUPTI(cuptiGetContextId, (void *context, uint32_t *id))
{
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = cupti_hook() ? cupti_hook()->context_id(context) : 0;
	return *id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

CUPTI(cuptiGetStreamIdEx, (void *context, void *stream, uint8_t per_thread, uint32_t *id))
{
	(void)context;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!stream && per_thread)
		stream = (void *)0x2;
	*id = cupti_hook() ? cupti_hook()->stream_id(stream) : 0;
	return *id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
}
