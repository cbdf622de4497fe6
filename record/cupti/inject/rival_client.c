/*
 * Noticing another CUPTI client in the program. The client that registers its buffer
 * callbacks last gets every record from then on, and CUPTI tells nobody. Where the
 * recorder has a probe on that call, the recorder says so at once; without, it has the
 * control thread ask here after each flush that is due. When nothing has come for a
 * while, a call is made that must give a record, and hence a request for a buffer or a
 * buffer. Nothing else of the rival's may be touched.
 *
 * From CUDA 13 on a thread has a buffer of its own, so that record depends on nothing
 * that the program does. In older releases a kernel that runs for long may keep the
 * record back, and nothing is concluded there.
 */
#include "rival_client.h"

#include <stdint.h>

#include "delivered.h"
#include "load.h"
#include "pool.h"
#include "switch.h"
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
	bool made = ct_load_count_devices();
	if (!on)
		api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 0);
	api->flush_all(0);
	return made;
}

/* True when CUPTI's records go to somebody else. */
bool ct_rival_client(const struct ct_cupti *api)
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
