/* The GPU: one thread that executes the work of all streams. Work carries its
 * time of submission; start and end are computed from that time, so that it
 * makes no difference when the thread executes the work. Work is executed as soon
 * as the work that it depends on has been, and retired (reported, its slot freed)
 * when the clock has passed its simulated end. */
#include <sys/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define NAP 500000u       /* ns between two looks at the streams while work keeps coming */
#define VALUE_LOOK 50000u /* ns between looks at a value in memory */
#define RETIRE_DELAY 1000000u /* ns that a finished piece of work may wait for its record */

enum { AWAKE, NAPPING, IDLE };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake, done = PTHREAD_COND_INITIALIZER;
static bool started, hurry;
static unsigned waiters, rooms;
static uint64_t drain_wanted, drain_done;
static bool drain_running;
static pthread_t thread;
static _Atomic int state = AWAKE;

static pthread_mutex_t list_mu = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st **list;
static size_t list_len, list_room;

/* State of the GPU thread: the streams of this pass, and the times of the next steps. */
static struct {
	struct CUstream_st **streams;
	size_t len, room;
	uint64_t now;
	uint64_t ready;  /* when a waiting piece of work becomes ready */
	uint64_t retire; /* when the next piece of work ends */
	bool progress;
} pass;

void sim_engine_add(struct CUstream_st *s)
{
	pthread_mutex_lock(&list_mu);
	size_t i = 0;
	while (i < list_len && list[i])
		i++;
	if (i == list_room) {
		size_t n = list_room ? list_room * 2 : 64;
		struct CUstream_st **bigger = realloc(list, n * sizeof *list);
		if (!bigger)
			abort();
		list = bigger;
		list_room = n;
	}
	list[i] = s;
	if (i == list_len)
		list_len++;
	pthread_mutex_unlock(&list_mu);
}

/* One that another thread still looks at is dropped later. */
static void drop(struct CUstream_st *s)
{
	pthread_mutex_lock(&list_mu);
	bool used = s->users > 0;
	for (size_t i = 0; i < list_len && !used; i++)
		if (list[i] == s)
			list[i] = NULL;
	pthread_mutex_unlock(&list_mu);
	if (!used)
		sim_stream_release(s);
}

static void leave(struct CUstream_st *s)
{
	pthread_mutex_lock(&list_mu);
	bool last = --s->users == 0 && atomic_load(&s->closed);
	pthread_mutex_unlock(&list_mu);
	if (last)
		sim_engine_kick();
}

void sim_engine_each(void (*fn)(struct CUstream_st *, void *), void *arg)
{
	for (size_t i = 0;; i++) {
		pthread_mutex_lock(&list_mu);
		bool end = i >= list_len;
		struct CUstream_st *s = end ? NULL : list[i];
		bool open = s && !atomic_load(&s->closed);
		if (open)
			s->users++;
		pthread_mutex_unlock(&list_mu);
		if (end)
			return;
		if (!open)
			continue;
		fn(s, arg);
		leave(s);
	}
}

static void view(void)
{
	pthread_mutex_lock(&list_mu);
	if (pass.room < list_len) {
		struct CUstream_st **bigger = realloc(pass.streams, list_room * sizeof *bigger);
		if (!bigger)
			abort();
		pass.streams = bigger;
		pass.room = list_room;
	}
	pass.len = 0;
	for (size_t i = 0; i < list_len; i++)
		if (list[i])
			pass.streams[pass.len++] = list[i];
	pthread_mutex_unlock(&list_mu);
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void note(uint64_t *due, uint64_t time)
{
	if (time < *due)
		*due = time;
}

/* Does s hold unexecuted work that was submitted before time? */
static bool open_before(const struct CUstream_st *s, uint64_t time)
{
	uint64_t i = atomic_load_explicit(&s->executed, memory_order_relaxed);
	return i < atomic_load_explicit(&s->head, memory_order_acquire) && s->ring[i % SIM_RING].submit < time;
}

/* The legacy default stream waits for all earlier work of the context's
 * blocking streams, and they wait for its work. Returns whether all of it has been
 * executed, and moves start past it. */
static bool legacy_ready(const struct CUstream_st *s, uint64_t submit, uint64_t *start)
{
	const struct CUstream_st *null = s->ctx->null_stream;
	if (s->flags & CU_STREAM_NON_BLOCKING)
		return true;
	if (s != null) {
		*start = max(*start, atomic_load_explicit(&null->available, memory_order_relaxed));
		return !open_before(null, submit);
	}
	for (size_t i = 0; i < pass.len; i++) {
		const struct CUstream_st *other = pass.streams[i];
		if (other == s || other->ctx != s->ctx || (other->flags & CU_STREAM_NON_BLOCKING))
			continue;
		if (open_before(other, submit + 1))
			return false;
		*start = max(*start, atomic_load_explicit(&other->available, memory_order_relaxed));
	}
	return true;
}

static bool host_ready(struct sim_host_work *h, uint64_t start)
{
	int step = atomic_load(&h->state);
	if (step == SIM_HOST_NEW) {
		if (start > pass.now)
			note(&pass.ready, start);
		else
			sim_host_start(h);
	}
	return step == SIM_HOST_DONE;
}

/* Nothing announces a change of memory, so it is polled. */
static bool value_ready(const struct sim_value_work *v, uint64_t *start)
{
	uint64_t now = v->wide ? __atomic_load_n((uint64_t *)v->address, __ATOMIC_SEQ_CST)
			       : __atomic_load_n((uint32_t *)v->address, __ATOMIC_SEQ_CST);
	int64_t ahead = v->wide ? (int64_t)(now - v->value) : (int32_t)(now - v->value);
	bool there = v->flags == 0   ? ahead >= 0
		     : v->flags == 1 ? ahead == 0
		     : v->flags == 2 ? (now & v->value) != 0
				     : (now | v->value) != (v->wide ? UINT64_MAX : UINT32_MAX);
	if (there)
		*start = max(*start, pass.now);
	else
		note(&pass.ready, pass.now + VALUE_LOOK);
	return there;
}

/* Sets the earliest start of w. False: not known yet. */
static bool ready(struct CUstream_st *s, struct sim_work *w, uint64_t *start)
{
	*start = max(atomic_load_explicit(&s->available, memory_order_relaxed), w->submit + SIM_LATENCY_NS);
	if (!legacy_ready(s, w->submit, start))
		return false;
	if (w->type == SIM_WAIT) {
		if (atomic_load(&w->event.event->executed) < w->event.version)
			return false;
		*start = max(*start, atomic_load(&w->event.event->time));
	}
	if (w->type == SIM_VALUE && !w->value.write)
		return value_ready(&w->value, start);
	return w->type != SIM_HOST || host_ready(&w->host, *start);
}

static bool execute_one(struct CUstream_st *s)
{
	uint64_t i = atomic_load_explicit(&s->executed, memory_order_relaxed), start;
	if (i == atomic_load_explicit(&s->head, memory_order_acquire))
		return false;
	struct sim_work *w = &s->ring[i % SIM_RING];
	if (!ready(s, w, &start))
		return false;
	uint64_t duration = sim_work_duration(w);
	w->start = start;
	w->end = duration > SIM_NEVER - start ? SIM_NEVER : start + duration;
	if (w->type == SIM_HOST)
		w->end = max(start, pass.now);
	bool asks = w->type == SIM_KERNEL && w->kernel.kernel->ns == SIM_BODY_ENDS;
	if (asks)
		memcpy(w->kernel.args, &start, sizeof start);
	sim_work_perform(w);
	if (asks)
		memcpy(&w->end, w->kernel.args, sizeof w->end);
	atomic_store(&s->available, w->end);
	atomic_store(&s->executed, i + 1);
	return true;
}

static bool reportable(const struct sim_work *w)
{
	bool visible = w->type == SIM_KERNEL || w->type == SIM_COPY || w->type == SIM_SET;
	return w->correlation && !w->reported && visible;
}

static bool retire(struct CUstream_st *s)
{
	const struct sim_client *client = sim_client();
	uint64_t i = atomic_load_explicit(&s->retired, memory_order_relaxed), first = i;
	uint64_t limit = atomic_load_explicit(&s->executed, memory_order_relaxed);
	for (; i < limit; i++) {
		struct sim_work *w = &s->ring[i % SIM_RING];
		if (w->end > pass.now) {
			note(&pass.retire, w->end);
			break;
		}
		if (client && reportable(w))
			client->work(w, false);
		sim_work_clear(w);
	}
	atomic_store_explicit(&s->retired, i, memory_order_release);
	return i != first;
}

static void report_running(struct CUstream_st *s)
{
	const struct sim_client *client = sim_client();
	uint64_t i = atomic_load_explicit(&s->retired, memory_order_relaxed);
	uint64_t limit = atomic_load_explicit(&s->head, memory_order_acquire);
	for (; client && i < limit; i++) {
		struct sim_work *w = &s->ring[i % SIM_RING];
		if (!reportable(w))
			continue;
		struct sim_work now = *w;
		if (w->start > pass.now)
			now.start = 0; /* it has not begun */
		client->work(&now, true);
		w->reported = true;
	}
}

static bool finished(const struct CUstream_st *s)
{
	return atomic_load(&s->closed) && atomic_load(&s->retired) == atomic_load(&s->head);
}

/* Executes ready work until there is none, then retires ended work. */
static void run(bool running)
{
	bool again = true;
	view();
	pass.now = sim_now();
	pass.ready = pass.retire = SIM_NEVER;
	pass.progress = false;
	while (again) {
		again = false;
		for (size_t i = 0; i < pass.len; i++)
			while (execute_one(pass.streams[i]))
				again = pass.progress = true;
	}
	pass.now = sim_now();
	for (size_t i = 0; i < pass.len; i++) {
		if (retire(pass.streams[i]))
			pass.progress = true;
		if (running)
			report_running(pass.streams[i]);
		if (finished(pass.streams[i]))
			drop(pass.streams[i]);
	}
}

/* With mu held: sleeps until time, or until hurried or, when idle, kicked. */
static void sleep_until(uint64_t time)
{
	struct timespec t = sim_timespec(time);
	int r = 0;
	while (!hurry && r == 0)
		r = time == SIM_NEVER ? pthread_cond_wait(&wake, &mu) : pthread_cond_timedwait(&wake, &mu, &t);
	atomic_store(&state, AWAKE);
}

static uint64_t due(uint64_t latest)
{
	uint64_t retire_due = pass.retire == SIM_NEVER ? SIM_NEVER : max(pass.retire, pass.now + RETIRE_DELAY);
	note(&latest, pass.ready);
	note(&latest, rooms ? pass.retire : retire_due);
	return latest;
}

static void *gpu(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "cuda00001400006"); /* as NVIDIA's driver names its threads */
	pthread_mutex_lock(&mu);
	for (;;) {
		uint64_t wanted = drain_wanted;
		bool running = drain_running;
		drain_running = hurry = false;
		pthread_mutex_unlock(&mu);
		run(running);
		pthread_mutex_lock(&mu);
		if (waiters && (pass.progress || drain_done < wanted))
			pthread_cond_broadcast(&done);
		drain_done = wanted;
		if (hurry)
			continue;
		if (pass.progress) {
			atomic_store(&state, NAPPING);
			sleep_until(due(pass.now + NAP));
		} else if (atomic_load(&state) != IDLE) {
			atomic_exchange(&state, IDLE); /* and look again: a submitter may have missed the change */
		} else {
			sleep_until(due(SIM_NEVER));
		}
	}
	return NULL;
}

CUresult sim_engine_start(void)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int r = 0;
	pthread_mutex_lock(&mu);
	if (!started) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&wake, &attr);
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the program's threads */
		r = pthread_create(&thread, NULL, gpu, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		started = r == 0;
	}
	pthread_mutex_unlock(&mu);
	return r ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void wake_up(void)
{
	hurry = true;
	pthread_cond_signal(&wake);
}

void sim_engine_kick(void)
{
	/* Adding nothing orders the new work before the look at state. A fence would, too; gcc's thread sanitizer knows none. */
	if (atomic_fetch_add(&state, 0) != IDLE)
		return;
	pthread_mutex_lock(&mu);
	wake_up();
	pthread_mutex_unlock(&mu);
}

static void wait_counter(_Atomic uint64_t *counter, uint64_t target, unsigned *also)
{
	pthread_mutex_lock(&mu);
	waiters++;
	++*also;
	wake_up(); /* for what has ended already; for the rest the GPU wakes up by itself */
	while (atomic_load(counter) < target)
		pthread_cond_wait(&done, &mu);
	--*also;
	waiters--;
	pthread_mutex_unlock(&mu);
}

void sim_engine_wait(_Atomic uint64_t *counter, uint64_t target)
{
	static unsigned unused;
	if (atomic_load(counter) < target)
		wait_counter(counter, target, &unused);
}

void sim_engine_wait_room(struct CUstream_st *s)
{
	wait_counter(&s->retired, atomic_load(&s->head) - SIM_RING + 1, &rooms);
}

void sim_engine_drain(bool running)
{
	pthread_mutex_lock(&mu);
	if (started && !sim_forked() && !pthread_equal(pthread_self(), thread)) {
		uint64_t wanted = ++drain_wanted;
		drain_running |= running;
		waiters++;
		while (drain_done < wanted) {
			wake_up();
			pthread_cond_wait(&done, &mu);
		}
		waiters--;
	}
	pthread_mutex_unlock(&mu);
}

void sim_sleep_until(uint64_t time)
{
	struct timespec t = sim_timespec(time);
	while (sim_now() < time)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

void sim_engine_hurry(void)
{
	pthread_mutex_lock(&mu);
	wake_up();
	pthread_mutex_unlock(&mu);
}
