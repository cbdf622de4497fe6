#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define NULL_STREAM_ID 7 /* what CUPTI reports for the default stream of a first context */

struct sim_slab sim_contexts = SIM_SLAB(struct CUctx_st, 1024);

static _Thread_local CUcontext current;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[16];
static CUcontext all[1024];
static uint32_t count;

bool sim_context_valid(CUcontext ctx)
{
	return sim_slab_has(&sim_contexts, ctx);
}

CUcontext sim_context_current(void)
{
	return current && !sim_forked() && sim_context_valid(current) ? current : NULL;
}

uint32_t sim_context_id(const void *handle)
{
	CUcontext ctx = handle ? (CUcontext)(uintptr_t)handle : sim_context_current();
	return ctx && sim_context_valid(ctx) ? ctx->id : 0;
}

static struct sim_context_info describe(CUcontext ctx)
{
	return (struct sim_context_info){ctx->id, (uint32_t)ctx->device, ctx->null_stream->id};
}

void sim_each_context(void (*each)(const struct sim_context_info *))
{
	pthread_mutex_lock(&mu);
	for (uint32_t i = 0; i < count; i++) {
		struct sim_context_info info = describe(all[i]);
		each(&info);
	}
	pthread_mutex_unlock(&mu);
}

/* With mu held. */
static CUresult make(CUdevice device, CUcontext *out)
{
	CUcontext ctx = count < sizeof all / sizeof *all ? sim_slab_get(&sim_contexts) : NULL;
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->id = count + 1;
	ctx->device = device;
	CUresult r = sim_engine_start();
	if (!r)
		r = sim_stream_new(ctx, 0, 0, NULL_STREAM_ID, &ctx->null_stream);
	if (r) {
		sim_slab_put(&sim_contexts, ctx);
		return r;
	}
	all[count++] = ctx;
	*out = ctx;
	return CUDA_SUCCESS;
}

static void announce(CUcontext ctx)
{
	const struct sim_client *client = sim_client();
	if (client) {
		struct sim_context_info info = describe(ctx);
		sim_stream_announce(ctx->null_stream);
		client->context(&info);
	}
}

static CUresult check(CUdevice device)
{
	struct sim_device_info info;
	return sim_ready() ? sim_device_info(device, &info) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_context_new(CUdevice device, CUcontext *out)
{
	CUresult r = out ? check(device) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	r = make(device, out);
	pthread_mutex_unlock(&mu);
	if (!r) {
		announce(*out);
		current = *out;
	}
	return r;
}

static CUresult retain(CUcontext *out, CUdevice device)
{
	bool fresh = false;
	CUresult r = out ? check(device) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	if (!primary[device]) {
		r = make(device, &primary[device]);
		fresh = !r;
	}
	*out = primary[device];
	pthread_mutex_unlock(&mu);
	if (fresh)
		announce(*out);
	return r;
}

struct wait {
	CUcontext ctx;
	CUresult result;
};

static void wait_for(struct CUstream_st *s, void *arg)
{
	struct wait *w = arg;
	if (s->ctx == w->ctx && !w->result)
		w->result = sim_stream_wait(s);
}

CUresult sim_context_wait(CUcontext ctx)
{
	struct wait w = {ctx, CUDA_SUCCESS};
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_engine_each(wait_for, &w);
	return w.result;
}

static CUresult synchronize(CUcontext ctx)
{
	return sim_context_wait(ctx);
}

static CUresult set_current(CUcontext ctx)
{
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ctx && !sim_context_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	current = ctx;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = sim_context_current();
	return CUDA_SUCCESS;
}

/* Contexts are waited for but never freed, so that their ids stay unique. */
static CUresult destroy(CUcontext ctx)
{
	if (!sim_context_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current == ctx)
		current = NULL;
	return sim_context_wait(ctx);
}

static CUresult reset_primary(CUdevice device)
{
	CUresult r = check(device);
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	CUcontext ctx = primary[device];
	primary[device] = NULL;
	pthread_mutex_unlock(&mu);
	return ctx ? destroy(ctx) : CUDA_SUCCESS;
}

/* The stack of contexts of a thread; the current one is above it. */
static _Thread_local struct {
	CUcontext under[32];
	unsigned depth;
} *stack;

static CUresult push(CUcontext ctx)
{
	if (!sim_context_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!stack && !(stack = calloc(1, sizeof *stack)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stack->depth == sizeof stack->under / sizeof *stack->under)
		return CUDA_ERROR_INVALID_VALUE;
	stack->under[stack->depth++] = current;
	current = ctx;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out)
{
	CUcontext ctx = sim_context_current();
	if (!ctx)
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	if (out)
		*out = ctx;
	current = stack && stack->depth ? stack->under[--stack->depth] : NULL;
	return CUDA_SUCCESS;
}

DRIVER_SHOWN(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx), push(ctx))
DRIVER_SHOWN(cuCtxPopCurrent_v2, (CUcontext * ctx), (ctx), pop(ctx))
DRIVER(cuCtxSynchronize_v2, (CUcontext ctx), synchronize(ctx && sim_context_valid(ctx) ? ctx : sim_context_current()))
DRIVER_SHOWN(cuCtxCreate_v2, (CUcontext * ctx, unsigned flags, CUdevice dev),
	     (ctx, flags, dev), ((void)flags, sim_context_new(dev, ctx)))
DRIVER_SHOWN(cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice dev), (ctx, dev), retain(ctx, dev))
DRIVER_SHOWN(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev), reset_primary(dev))
DRIVER_SHOWN(cuCtxSetCurrent, (CUcontext ctx), (ctx), set_current(ctx))
DRIVER(cuCtxGetCurrent, (CUcontext * ctx), get_current(ctx))
DRIVER(cuCtxSynchronize, (void), synchronize(sim_context_current()))
