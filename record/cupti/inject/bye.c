/*
 * What a process says at its end, in a BYE or a HANDOVER. sender.c and
 * handover_answer.c send it; here it is made, nothing more.
 */
#include "bye.h"

#include "clock.h"
#include "queue.h"

struct ct_bye ct_bye(uint32_t reason, uint32_t detail, uint64_t until)
{
	struct ct_counts c = ct_queue_counts();
	return (struct ct_bye){.reason = reason,
			       .detail = detail,
			       .now = ct_now(),
			       .kernels = c.kernels,
			       .memcpys = c.memcpys,
			       .memsets = c.memsets,
			       .apis = c.apis,
			       .objects = c.objects,
			       .extras = c.extras,
			       .others = c.others,
			       .until = until};
}
