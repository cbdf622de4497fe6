#ifndef CT_ENABLE_H
#define CT_ENABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "cupti_abi.h"

/* What the recorder wishes to have recorded. */
struct ct_wish {
	uint32_t records; /* CT_RECORDS_* */
	uint32_t flags;   /* CT_GO_* */
	size_t memory_for_chains;
	struct ct_calls calls;
};

bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish);
void ct_enable_runtime(const struct ct_cupti *api, bool failed);
void ct_disable(const struct ct_cupti *api, bool linger);

#endif
