/*
 * CUPTI's times on CLOCK_MONOTONIC. CUPTI is given a callback that reads that clock.
 * Whether CUPTI heeds it is measured: cuptiGetTimestamp is read between two readings
 * of our own, and every time in every record must lie between the start of this
 * library and now. Where either fails, an offset is added to CUPTI's times.
 *
 * enable.c begins it, flush.c repeats it, and translate.c has each time fixed, inside
 * CUPTI's callbacks: nothing but the measurement itself may call CUPTI.
 */
#include "calibration.h"

#include <stdatomic.h>

#include "base.h"
#include "queue.h"

#define SLACK CT_SECOND /* a GPU's clock is only fitted to the host's */
#define BRACKETS 64
#define MANY 64 /* kernels without times, before which it may be chance */

static uint64_t started; /* time at which this library was */
static atomic_llong offset;
static _Atomic uint64_t worst; /* error so far */
static atomic_uint mode;       /* CT_CLOCK_* */
static bool through_callback; /* CUPTI has taken ours */
static atomic_bool timed;     /* a kernel had times */
static CT_KEPT _Atomic uint32_t asking; /* the thread that asks whether CUPTI asks us */
static bool asked;              /* on that thread */
static _Atomic uint32_t untimed;

/* The function that CUPTI calls to learn the time. */
uint64_t ct_calibration_timestamp(void)
{
	uint32_t tid = atomic_load_explicit(&asking, memory_order_relaxed);
	if (tid != 0 && tid == ct_tid())
		asked = true;
	return ct_now();
}

/* Whether CUPTI asks us for the time, and no other client. */
static bool asks_us(const struct ct_cupti *api)
{
	uint64_t ignored;
	asked = false;
	atomic_store(&asking, ct_tid());
	api->get_timestamp(&ignored);
	atomic_store(&asking, 0);
	return asked;
}

/* On the control thread: another client has CUPTI, and expects CUPTI's own clock unless it has set one. */
void ct_calibration_leave(const struct ct_cupti *api)
{
	if (through_callback && asks_us(api))
		api->register_timestamp(ct_realtime);
}

void ct_calibration_start(void)
{
	started = ct_now();
}

static void tell(uint32_t what)
{
	ct_queue_clock(&(struct ct_clock){.mode = what, .error = atomic_load(&worst)});
}

static void announce(uint32_t new_mode, int64_t new_offset, uint64_t error)
{
	if (error > atomic_load(&worst))
		atomic_store(&worst, error);
	atomic_store(&offset, new_offset);
	atomic_store(&mode, new_mode);
	tell(new_mode);
}

struct bracket {
	uint64_t before, cupti, after;
};

/* The tightest of many readings of CUPTI's clock between two of ours. */
static bool tightest(const struct ct_cupti *api, struct bracket *best)
{
	bool found = false;
	for (int i = 0; i < BRACKETS; i++) {
		struct bracket b = {.before = ct_now()};
		if (api->get_timestamp(&b.cupti) != 0)
			continue;
		b.after = ct_now();
		if (!found || b.after - b.before < best->after - best->before)
			*best = b;
		found = true;
	}
	return found;
}

static bool inside(const struct bracket *b)
{
	return b->cupti >= b->before && b->cupti <= b->after;
}

/* Where the offset moves, times since the last measurement are wrong by as much. */
static void move(uint32_t new_mode, int64_t new_offset, uint64_t error)
{
	int64_t moved = new_offset - (int64_t)atomic_load(&offset);
	if (atomic_load(&mode) == new_mode)
		error += (uint64_t)(moved < 0 ? -moved : moved);
	announce(new_mode, new_offset, error);
}

static void calibrate(const struct ct_cupti *api, bool callback)
{
	struct bracket b = {0};
	if (!tightest(api, &b) || b.cupti == 0)
		return;
	uint64_t error = (b.after - b.before) / 2;
	if (callback && inside(&b))
		return;
	move(CT_CLOCK_CALIBRATED, (int64_t)(b.before + error - b.cupti), error);
}

/* Called once, before the first record; callback says whether CUPTI took ours. */
void ct_calibration_begin(const struct ct_cupti *api, bool callback)
{
	through_callback = callback;
	calibrate(api, callback);
}

/* CLOCK_MONOTONIC minus CLOCK_REALTIME, with half the time it took to read them. */
static int64_t realtime_offset(uint64_t *error)
{
	uint64_t before = ct_now();
	uint64_t real = ct_realtime();
	*error = (ct_now() - before) / 2;
	return (int64_t)(before + *error - real);
}

/* Called now and then, since clocks drift and are set; not from a CUPTI callback. */
void ct_calibration_repeat(const struct ct_cupti *api)
{
	uint64_t error;
	switch (atomic_load(&mode)) {
	case CT_CLOCK_CALIBRATED:
		calibrate(api, false);
		break;
	case CT_CLOCK_REALTIME: {
		int64_t now = realtime_offset(&error);
		move(CT_CLOCK_REALTIME, now, error);
		break;
	}
	}
}

static bool sane(uint64_t time, uint64_t now)
{
	return time + SLACK >= started && time <= now + SLACK;
}

/*
 * Called with each kernel's start. Some releases give kernels no times when there is
 * a timestamp callback. The callback cannot be taken back (NULL is refused, and after
 * another is registered kernels are on the old clock), so all that helps is to leave
 * it out in the processes that come: the recorder is told once.
 */
void ct_calibration_kernel(uint64_t start)
{
	if (start != 0) {
		if (!atomic_load_explicit(&timed, memory_order_relaxed))
			atomic_store(&timed, true);
		return;
	}
	if (through_callback && !atomic_load(&timed) && atomic_fetch_add(&untimed, 1) + 1 == MANY)
		tell(CT_CLOCK_SILENT);
}

/*
 * A record's time on CLOCK_MONOTONIC. Some releases of CUPTI answer
 * cuptiGetTimestamp from the callback and stamp records, or the first kernels
 * only, from the realtime clock: a time that makes sense only as such is taken
 * for that. A time that makes sense on no clock sets bad and becomes 0. Safe
 * inside a CUPTI callback.
 */
uint64_t ct_calibration_fix(uint64_t time, uint64_t now, bool *bad)
{
	if (time == 0)
		return 0;
	uint64_t fixed = time + (uint64_t)atomic_load(&offset);
	if (sane(fixed, now))
		return fixed;
	if (through_callback && sane(time, now))
		return time;
	uint64_t error;
	int64_t other = realtime_offset(&error);
	if (sane(time + (uint64_t)other, now)) {
		announce(CT_CLOCK_REALTIME, other, error);
		return time + (uint64_t)other;
	}
	*bad = true;
	return 0;
}
