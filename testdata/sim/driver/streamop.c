/* Values that a stream writes to memory, or waits for there. */
#include "internal.h"

enum { WAIT_32 = 1, WRITE_32 = 2, FLUSH = 3, WAIT_64 = 4, WRITE_64 = 5, BARRIER = 6 };

typedef union {
	unsigned operation;
	struct {
		unsigned operation;
		CUdeviceptr address;
		uint64_t value;
		unsigned flags;
	} value;
	uint64_t pad[6];
} CUstreamBatchMemOpParams;

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

static CUresult batch(CUstream s, unsigned count, const CUstreamBatchMemOpParams *list, enum sim_default_stream which)
{
	CUresult r = list && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !r; i++) {
		unsigned op = list[i].operation;
		if (op == FLUSH || op == BARRIER)
			continue; /* memory is in order anyway */
		if (op < WAIT_32 || op > WRITE_64)
			return CUDA_ERROR_INVALID_VALUE;
		r = value(s, list[i].value.address, list[i].value.value, list[i].value.flags, op == WAIT_64 || op == WRITE_64,
			  op == WRITE_32 || op == WRITE_64, which);
	}
	return r;
}

DRIVER_PTSZ(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    value(s, p, v, flags, false, true, which))
DRIVER_PTSZ(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr p, uint64_t v, unsigned flags),
	    value(s, p, v, flags, true, true, which))
DRIVER_PTSZ(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    value(s, p, v, flags, false, false, which))
DRIVER_PTSZ(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr p, uint64_t v, unsigned flags),
	    value(s, p, v, flags, true, false, which))
DRIVER_PTSZ(cuStreamBatchMemOp_v2, (CUstream s, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags),
	    ((void)flags, batch(s, count, list, which)))
