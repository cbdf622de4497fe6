#ifndef CT_ENABLE_H
#define CT_ENABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "cupti_abi.h"
#include "meet.h"
#include "wire.h"

/* What the recorder wishes to have recorded. */
struct ct_wish {
	uint32_t records; /* CT_RECORDS_* */
	uint32_t flags;   /* CT_GO_* */
	size_t memory_for_chains, memory_for_python, memory_for_torch;
	struct ct_python python;
	struct ct_calls calls;
};

void ct_enable_given(ct_give_fn give);
bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish);
void ct_enable_without_callers(void);
void ct_disable(const struct ct_cupti *api, bool linger);

/* The records of work. */
bool ct_switch_is_on(void);
bool ct_switched_late(void);
void ct_switch_range(const struct ct_cupti *api);
void ct_switch_pause(const struct ct_cupti *api, bool paused);
void ct_switch_leave(void);
void ct_switch_poll(const struct ct_cupti *api);
void ct_switch_check(const struct ct_cupti *api);

#endif
