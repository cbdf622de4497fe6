/*
 * Noticing another CUPTI client in the program: who registers buffer callbacks
 * later gets every record from then on, and CUPTI tells nobody. Where the
 * recorder has a probe on that call it says so at once. Without, it asks for this:
 * when nothing has come for a while, the control thread makes a call of its own
 * that must give a record, and hence a request for a buffer or a buffer.
 *
 * From CUDA 13 on a thread has a buffer of its own, so that record depends on
 * nothing that the program does. In older releases a kernel that runs for long
 * may keep it back, and nothing is concluded there.
 */
#include "inject.h"

#define PROOFS 3 /* calls without a record before it is believed */

static uint64_t last_seen;
static unsigned missed;

static uint64_t seen(void)
{
	return ct_complete_count() + ct_pool_requests();
}

/* False when no such call could be made. */
static bool call_with_record(const struct ct_cupti *api)
{
	bool on = ct_switch_is_on() && ct_enable_name(DOMAIN_DRIVER, CBID_CUDEVICEGETCOUNT) != 0;
	if (!on && api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 1) != 0)
		return false;
	bool made = ct_load_count_devices();
	if (!on)
		api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 0);
	api->flush_all(0);
	return made;
}

/* True when CUPTI's records go to somebody else. Called by the control thread after each flush that is due. */
bool ct_client_taken(const struct ct_cupti *api)
{
	if (api->version < CUPTI_V13_0 || !api->enable_driver_api)
		return false;
	if (seen() == last_seen && !call_with_record(api))
		return false;
	uint64_t now = seen();
	missed = now == last_seen ? missed + 1 : 0;
	last_seen = now;
	return missed >= PROOFS;
}
