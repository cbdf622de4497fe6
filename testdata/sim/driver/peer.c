/* Access from one device to another's memory. With one address space all devices
 * see all memory, so only the permissions are stored. */
#include "internal.h"

#define DEVICES 16

static _Atomic bool enabled[DEVICES][DEVICES];

static CUresult both(CUdevice a, CUdevice b)
{
	struct sim_device_info info;
	CUresult r = sim_device_info(a, &info);
	return r ? r : sim_device_info(b, &info);
}

static CUresult can(int *out, CUdevice a, CUdevice b)
{
	CUresult r = out ? both(a, b) : CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*out = a != b;
	return r;
}

static CUresult change(CUcontext peer, bool on)
{
	CUcontext ctx = sim_context_current();
	if (!ctx || !peer || !sim_context_valid(peer) || ctx->device == peer->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (atomic_exchange(&enabled[ctx->device][peer->device], on) != on)
		return CUDA_SUCCESS;
	return on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* 1: rank, 2: access, 3: atomics, 4: arrays */
static CUresult attribute(int *out, int which, CUdevice a, CUdevice b)
{
	CUresult r = out && which >= 1 && which <= 4 && a != b ? both(a, b) : CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*out = which != 1;
	return r;
}

DRIVER(cuDeviceCanAccessPeer, (int *out, CUdevice dev, CUdevice peer), can(out, dev, peer))
DRIVER(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags),
       flags ? CUDA_ERROR_INVALID_VALUE : change(peer, true))
DRIVER(cuCtxDisablePeerAccess, (CUcontext peer), change(peer, false))
DRIVER(cuDeviceGetP2PAttribute, (int *out, int which, CUdevice a, CUdevice b), attribute(out, which, a, b))
