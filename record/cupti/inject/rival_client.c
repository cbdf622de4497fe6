/*
 * Noticing another CUPTI client in the program that rival_hook.c did not meet. The client that registers its buffer
 * callbacks last gets every record from then on, and CUPTI tells nobody. Where the
 * recorder has a probe on that call, the recorder says so at once; without, it has the
 * control thread ask here after each flush that is due, and before an end. When nothing has come for a
 * while, a call is made that must give a record, and hence a request for a buffer or a
 * buffer. Nothing else of the rival's may be touched.
 *
 * From CUDA 13 on a thread has a buffer of its own, so that record depends on nothing
 * that the program does. In older releases a kernel that runs for long may keep the
 * record back, and nothing is concluded there.
 */
#include "rival_client.h"

#include <stdint.h>

#include "calibration.h"
#include "delivered.h"
#include "flush.h"
#include "load.h"
#include "pool.h"
#include "queue.h"
#include "switch.h"
#include "thread_state.h"
#include "walk.h"
#include "wanted.h"

#define PROOFS 3 /* calls without a record before it is believed */

static uint64_t last_seen;
static unsigned missed;

static uint64_t seen(void)
{
	return ct_delivered_buffers() + ct_pool_requests();
}

/* False when no such call could be made. */
static bool call_with_record(const struct ct_cupti *api)
{
	bool on = ct_switch_is_on() && ct_wanted_name(DOMAIN_DRIVER, CBID_CUDEVICEGETCOUNT) != 0;
	if (!on && api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 1) != 0)
		return false;
	ct_flush_begin();
	bool made = ct_load_count_devices();
	if (!on)
		api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 0);
	ct_flush_now(CT_FINISHED);
	return made;
}

static bool can_tell(const struct ct_cupti *api)
{
	return ct_recording()->watch_rivals && api->version >= CUPTI_V13_0 && api->enable_driver_api;
}

/* True when CUPTI's records go to somebody else. */
bool ct_rival_client(const struct ct_cupti *api)
{
	if (!can_tell(api))
		return false;
	if (seen() == last_seen && !call_with_record(api))
		return false;
	uint64_t now = seen();
	missed = now == last_seen ? missed + 1 : 0;
	last_seen = now;
	return missed >= PROOFS;
}

/* Likewise at once, before an end: a client that came just now has not been missed yet. */
bool ct_rival_client_now(const struct ct_cupti *api)
{
	for (unsigned i = 0; i < PROOFS && can_tell(api); i++) {
		uint64_t before = seen();
		if (!call_with_record(api) || seen() != before)
			return false;
	}
	return can_tell(api);
}

static void nothing(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	(void)user, (void)domain, (void)cbid, (void)data;
}

/*
 * Whether a client has been there for long, before anything of CUPTI's is touched. Profilers hold the
 * one subscription, which is taken here and given back at once.
 */
bool ct_rival_before(const struct ct_cupti *api)
{
	void *subscriber = NULL;
	if (!api->subscribe || !api->unsubscribe)
		return false;
	if (api->subscribe(&subscriber, nothing, NULL) != 0)
		return true;
	api->unsubscribe(subscriber);
	return false;
}

/*
 * Another client has the records: with its clock restored, nothing of CUPTI is touched from now on, so that the
 * rival goes on as if we were not there, and is not flushed by us at the end when it
 * may be gone.
 */
void ct_rival_leave(void)
{
	static const char words[] = "another CUPTI client in the program has taken over CUPTI's records";
	struct ct_status status = {.state = CT_STATUS_TAKEN, .text_len = sizeof words - 1};
	ct_switch_leave();
	ct_walk_end();
	ct_calibration_leave(ct_recording()->api);
	ct_queue_message(CT_MSG_STATUS, &status, sizeof status, words, sizeof words - 1);
}
