/* Records of CUPTI's own costs and of memory. */
#include "internal.h"

void cupti_overhead(CUptiOverhead *r, uint32_t kind, uint64_t start)
{
	*r = (CUptiOverhead){
		.kind = CUPTI_KIND_OVERHEAD, .overheadKind = kind, .objectKind = CUPTI_OBJECT_THREAD,
		.object = {{cupti_process_id(), cupti_thread_id(), 0}}, .start = start, .end = cupti_clock(),
		.correlationId = cupti_hook()->correlation(),
	};
}
