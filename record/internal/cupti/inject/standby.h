#ifndef CT_STANDBY_H
#define CT_STANDBY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvtx_abi.h"
#include "wire.h"

#define CT_STANDBY_FUNCTIONS 20
extern const struct ct_nvtx_hook ct_standby_hooks[CT_STANDBY_FUNCTIONS];

/* A recording takes marks and ranges; any thread calls it. */
struct ct_taker {
	/* A mark, or an end of a range. A text has no zero at its end. */
	void (*mark)(uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length);
	void (*lost)(enum ct_lost_cause cause);
	void (*nccl)(const char *name, const struct nvtx_payload *payload);
};

bool ct_standby_start(void);
void ct_standby_give(const struct ct_taker *to);
void ct_standby_forked(void);

/* What a recording does with them. */
extern const struct ct_taker ct_standby_taker;

#endif
