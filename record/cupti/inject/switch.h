#ifndef CT_SWITCH_H
#define CT_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"

/*
 * How the records of work are switched. linger says that there is time for the records
 * of calls that have yet to return from what they have launched.
 */
struct ct_work_switch {
	bool (*on)(const struct ct_cupti *api); /* false when that is impossible; the complaints say why */
	void (*off)(const struct ct_cupti *api, bool linger);
};

bool ct_switch_start(const struct ct_cupti *api, uint32_t flags, const struct ct_work_switch *w);
bool ct_switch_is_on(void);
void ct_switch_range(const struct ct_cupti *api);
void ct_switch_renew(const struct ct_cupti *api);
void ct_switch_pause(const struct ct_cupti *api, bool paused);
void ct_switch_stop(const struct ct_cupti *api, bool linger);
void ct_switch_leave(void);

void ct_switch_told(const struct ct_cupti *api);
void ct_switch_watched(void);
void ct_switch_called(bool start);
bool ct_switch_at(uintptr_t pc); /* safe in a signal handler */
void ct_switch_poll(const struct ct_cupti *api);
void ct_switch_check(const struct ct_cupti *api);

#endif
