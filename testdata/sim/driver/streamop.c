/* Values that a stream writes to memory, or waits for there. */
#include "internal.h"

static CUresult submit(CUstream stream, enum sim_default_stream which, const struct sim_value_work *v)
{
	struct CUstream_st *s;
	struct sim_block b;
	struct sim_work *w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && ((uintptr_t)v->address % (v->wide ? 8 : 4) || !sim_memory_find(v->address, &b)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_submit_begin(s, SIM_VALUE, &w);
	if (r)
		return r;
	w->value = *v;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

static CUresult value(CUstream s, CUdeviceptr p, uint64_t v, unsigned flags, bool wide, bool write,
		      enum sim_default_stream which)
{
	struct sim_value_work work = {(void *)p, v, wide, write, flags & 3};
	return submit(s, which, &work);
}

DRIVER_PTSZ(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    value(s, p, v, flags, false, true, which))
DRIVER_PTSZ(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    value(s, p, v, flags, false, false, which))
