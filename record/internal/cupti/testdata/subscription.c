/* A profiler wants the subscription while a thread of ours takes it, which lasts: it is not given back under that one. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory.c"

static atomic_bool there, wrong, enabling;
static int one;

bool ct_here(void) { return true; }
bool ct_come_in(void) { return true; }
void ct_go_out(void) {}
bool ct_visit(struct ct_visit *v) { return v->in = true; }
void ct_visit_end(const struct ct_visit *v) { (void)v; }
uint64_t ct_now(void) { return 1; }
uint32_t ct_tid(void) { return 1; }
bool ct_switch_is_on(void) { return true; }
bool ct_switched_late(void) { return true; }
bool ct_graph_call(uint32_t domain, uint32_t cbid) { return domain == DOMAIN_DRIVER && cbid == 7; }
void ct_graph_seen(void) {}
void ct_link_switching(bool begins) { (void)begins; }
void *ct_alloc(size_t size) { return calloc(1, size); }
void ct_queue_record(const void *r, size_t n, const char *t, size_t l, uint64_t *at)
{
	(void)r, (void)n, (void)t, (void)l, (void)at;
}

void ct_queue_lost(enum ct_lost_cause cause, const struct ct_loss *add) { (void)cause, (void)add; }
void ct_queue_note(uint32_t severity, const char *text) { (void)severity, (void)text; }
void ct_unlock(struct ct_lock *l) { atomic_store(&l->state, 0); }

bool ct_lock_within(struct ct_lock *l, uint64_t ns)
{
	for (uint64_t waited = 0; atomic_exchange(&l->state, 1); waited += CT_MS, usleep(1000))
		if (waited > ns / 10)
			return false;
	return true;
}

void ct_lock(struct ct_lock *l) { ct_lock_within(l, UINT64_MAX); }

static ct_result subscribe(void **s, ct_callback_fn f, void *user)
{
	(void)f, (void)user;
	*s = &one;
	there = true;
	return 0;
}

static ct_result give_up(void *s)
{
	wrong = wrong || enabling || s != &one;
	there = false;
	return 0;
}

static ct_result enable(uint32_t on, void *s, uint32_t domain, uint32_t cbid)
{
	(void)on, (void)domain, (void)cbid;
	enabling = true;
	usleep(400000); /* longer than a profiler waits here */
	wrong = wrong || !there || s != &one;
	enabling = false;
	return 0;
}

static const struct ct_cupti api = {.subscribe = subscribe, .unsubscribe = give_up, .enable_callback = enable};

static void *takes(void *arg)
{
	ct_lock(&subscribing);
	take();
	ct_unlock(&subscribing);
	return arg;
}

int main(void)
{
	pthread_t t;
	cupti = &api;
	numbers[7] = 1;
	pthread_create(&t, NULL, takes, NULL);
	while (!enabling)
		usleep(1000);
	ct_memory_leave(false);
	pthread_join(t, NULL);
	if (wrong || !there)
		return 1;
	ct_memory_leave(false);
	return wrong || there ? 2 : 0;
}
