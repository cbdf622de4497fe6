/*
 * Threads that begin and end ranges without pause, while recordings begin and end: each must get every range that is open
 * when it begins, once, and every end of a range that it has the beginning of. The threads fork and end, too. Prints how long
 * a range takes, ns, and exits with 1 if something is wrong. Arguments: recordings, threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "standby.c"

static __thread uint32_t own_tid;
static _Atomic uint32_t tids = 1;
static atomic_bool forked, ends;

uint32_t ct_tid(void) { return own_tid ? own_tid : (own_tid = atomic_fetch_add(&tids, 1)); }
bool ct_here(void) { return !atomic_load_explicit(&forked, memory_order_relaxed); }
bool ct_has_room(size_t size) { return size > 0; }
void *ct_alloc(size_t size) { return calloc(1, size); }
void ct_free(void *p, size_t size) { (void)size, free(p); }
void ct_pause(uint64_t ns) { usleep((useconds_t)(ns / 1000)); }
void ct_sigmask_block(sigset_t *before) { (void)before; }
void ct_sigmask_restore(const sigset_t *before) { (void)before; }
bool ct_visit(struct ct_visit *v) { return v->in = true; }
void ct_visit_end(const struct ct_visit *v) { (void)v; }
void ct_lock(struct ct_lock *l) { while (atomic_exchange(&l->state, 1)) usleep(1); }
void ct_unlock(struct ct_lock *l) { atomic_store(&l->state, 0); }
uint32_t ct_name_number(const char *text) { return text != NULL; }
void ct_queue_record(const void *r, size_t n, const char *t, size_t l, uint64_t *at) { (void)r, (void)n, (void)t, (void)l, (void)at; }
void ct_queue_lost(enum ct_lost_cause cause, const struct ct_loss *add) { (void)cause, (void)add; }
uint64_t ct_now(void) { return 0; }
void ct_nccl_send(const char *name, const struct nvtx_payload *p) { (void)name, (void)p; }
void ct_nccl_pass(void (*to)(const char *, const struct nvtx_payload *)) { (void)to; }

#define fail(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* A recording: how far each range has come, by its place. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint32_t begun, ended; /* its ID, 0 for none */
	unsigned nth;	       /* of those that were announced */
} got[RANGES];
static unsigned outer[THREADS], crossed, before; /* the outermost ranges that were announced, by thread */
static unsigned long marks;

static int recording_now;

static void take(int recording_of, uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length)
{
	pthread_mutex_lock(&mutex);
	unsigned at = id % RANGES;
	if (recording_of != recording_now) { /* it is late: the recording before is over */
		pthread_mutex_unlock(&mutex);
		return;
	}
	if (flags & CT_MARKER_START) {
		if (got[at].begun == id)
			fail("range %u begins twice", id);
		got[at].begun = id;
		crossed += got[at].ended == id;
		if (length < 2 || text[0] != (domain ? 'd' : 's'))
			fail("a range is called %.*s in the domain %s", (int)length, text, domain ? domain : "");
		if (flags & CT_MARKER_BEFORE)
			got[at].nth = ++before;
		if (length == 12 && !memcmp(text, "stays always", 12))
			outer[tid]++;
	} else if (flags & CT_MARKER_END) {
		if (got[at].ended == id)
			fail("range %u ends twice", id);
		got[at].ended = id;
	} else {
		marks++;
	}
	pthread_mutex_unlock(&mutex);
}

static void take_even(uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length)
{
	take(0, flags, id, tid, domain, text, length);
}

static void take_odd(uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length)
{
	take(1, flags, id, tid, domain, text, length);
}

static _Atomic unsigned lost[CT_LOST_CAUSES];

static void count_loss(enum ct_lost_cause cause)
{
	atomic_fetch_add(&lost[cause], 1);
}

static const struct ct_taker recorders[] = {{take_even, count_loss, ct_nccl_send}, {take_odd, count_loss, ct_nccl_send}};

static void begin_recording(int number)
{
	pthread_mutex_lock(&mutex);
	memset(outer, 0, sizeof outer), memset(got, 0, sizeof got);
	recording_now = number % 2;
	pthread_mutex_unlock(&mutex);
	ct_standby_give(&recorders[number % 2]);
}

static void *domain;
static pthread_barrier_t ready;

static void *work(void *arg)
{
	struct name n;
	narrow(&n, "dregistered");
	void *string = keep(&n);
	unsigned char a[NVTX_ATTRIBUTES_MIN] = {0};
	uint16_t size = sizeof a;
	int32_t type = NVTX_REGISTERED;
	memcpy(a + NVTX_SIZE_OF, &size, sizeof size);
	memcpy(a + NVTX_MESSAGE_TYPE, &type, sizeof type);
	memcpy(a + NVTX_MESSAGE, &string, sizeof string);
	if (arg) {
		on_RangePushA("stays always");
		pthread_barrier_wait(&ready);
	}
	for (unsigned i = 0; !atomic_load(&ends) && (arg || i < 100); i++) {
		on_RangePushW(L"s\u00e9\u6c34\U0001f642 and a name that is longer than what is kept of it while it waits for a recorder, so that it is cut");
		uint64_t id = on_DomainRangeStartEx(domain, a);
		on_DomainRangePushEx(domain, a);
		on_RangePop(); /* the one of the other domain */
		on_DomainRangePop(domain);
		on_DomainRangePop(domain); /* none */
		on_MarkA("s mark");
		on_DomainRangeEnd(domain, id);
		on_RangeEnd(id); /* again */
	}
	if (!arg)
		on_RangePushA("s left open");
	return NULL;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check_forked(void)
{
	uint64_t parents = on_RangeStartA("s");
	pid_t pid = fork();
	if (pid == 0) {
		atomic_store(&forked, true);
		ct_standby_forked();
		on_RangePushA("some");
		on_RangePop();
		atomic_store(&forked, false);
		on_RangePop();
		on_RangePushA("s of the child");
		on_RangeEnd(parents);
		before = 0;
		begin_recording(0);
		_exit(before == 1 ? 0 : 2);
	}
	int status;
	on_RangeEnd(parents);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("the child ended with %x", status);
}

static void *on_thread(void *(*f)(void *))
{
	pthread_t t;
	void *result = NULL;
	pthread_create(&t, NULL, f, NULL);
	pthread_join(t, &result);
	return result;
}

#define LEFT 999999 /* a TID */

static void *open_range(void *arg)
{
	(void)arg;
	own_tid = LEFT;
	return (void *)(uintptr_t)on_RangeStartA("some");
}

/* NVTX is used behind thread_ends. */
static void *leave_place(void *arg)
{
	own_tid = LEFT;
	on_RangePushA("some");
	pthread_setspecific(key, NULL);
	return arg;
}

static void expect(unsigned ranges_lost, unsigned cut_texts, const char *what)
{
	if (lost[CT_LOST_RANGE] != ranges_lost || lost[CT_LOST_CUT] != cut_texts)
		fail("%s: lost %u ranges and %u texts", what, lost[CT_LOST_RANGE], lost[CT_LOST_CUT]);
	lost[CT_LOST_RANGE] = lost[CT_LOST_CUT] = 0;
}

/* All places are taken, the first half of the ranges by this thread. They are announced in order, and soon. */
static void check_announced(const uint64_t *numbers)
{
	struct timespec from, to;
	before = 0;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	begin_recording(1);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
	if (before != RANGES || ms > 200)
		fail("%u of %u ranges were announced, in %.0f ms", before, RANGES, ms);
	for (int i = 1; i < RANGES / 2; i++)
		if (got[numbers[i] % RANGES].nth <= got[numbers[i - 1] % RANGES].nth)
			fail("range %d is announced before the one around it", i);
	begin_recording(0);
	before = 0;
}

/* What has no room is counted, and nothing else is left out. */
static void check_losses(void)
{
	static uint64_t numbers[RANGES];
	static char text[CT_NAME_MAX + 2];
	begin_recording(0);
	for (int i = 0; i < RANGES / 2; i++)
		numbers[i] = on_RangeStartA("some");
	for (int i = RANGES / 2; i < RANGES; i++)
		if ((numbers[i] = (uintptr_t)on_thread(open_range)) == 0)
			i--; /* its thread looked where all are taken */
	on_RangeEnd(numbers[0]); /* the last one gets the place of the first */
	memmove(numbers, numbers + 1, (RANGES / 2 - 1) * sizeof *numbers);
	while ((numbers[RANGES / 2 - 1] = on_RangeStartA("some")) == 0)
		;
	unsigned missed = lost[CT_LOST_RANGE];
	on_RangeStartA("some");
	expect(missed + 1, 0, "all places");
	check_announced(numbers);
	for (int i = 0; i < RANGES; i++)
		on_RangeEnd(numbers[i]);
	for (int i = 0; i < LEVELS + 2; i++)
		on_RangePushA("some");
	for (int i = 0; i < LEVELS + 2; i++)
		on_RangePop();
	expect(2, 0, "levels");
	on_thread(leave_place);
	on_RangeEnd((uintptr_t)on_thread(open_range));
	expect(0, 0, "a place that was left");
	memset(text, 's', CT_NAME_MAX);
	on_MarkA(text);
	text[CT_NAME_MAX] = 's';
	on_MarkA(text);
	expect(0, 1, "a long text");
	uint64_t shared = on_RangeStartA("some");
	for (int i = 0; i < THREADS; i++)
		if (owners[i] == 0)
			owners[i] = LEFT + 1;
	if (on_thread(open_range))
		fail("there is a thread more than places");
	expect(1, 0, "threads");
	ct_standby_give(NULL);
	for (int i = 0; i < THREADS; i++)
		if (owners[i] == LEFT + 1)
			owners[i] = 0;
	on_RangeEnd(shared);
}

int main(int argc, char **argv)
{
	int recordings = argc > 1 ? atoi(argv[1]) : 100, count = argc > 2 ? atoi(argv[2]) : 4;
	pthread_t list[64], passing;
	struct name n;
	if (!ct_standby_start())
		return 1;
	narrow(&n, "domain");
	domain = keep(&n);
	check_forked();
	check_losses();
	double from = now();
	for (int i = 0; i < 100000; i++) {
		on_RangePushA("forward");
		on_RangePop();
	}
	printf("%.0f\n", (now() - from) / 1e5);
	pthread_barrier_init(&ready, NULL, (unsigned)count + 1);
	for (int i = 0; i < count; i++)
		pthread_create(&list[i], NULL, work, "stays");
	pthread_barrier_wait(&ready);
	for (int r = 0; r < recordings; r++) {
		pthread_create(&passing, NULL, work, NULL);
		begin_recording(r);
		pthread_join(passing, NULL);
		ct_standby_give(NULL);
		pthread_mutex_lock(&mutex);
		unsigned stayed = 0;
		for (int i = 0; i < THREADS; i++) {
			if (outer[i] > 1)
				fail("the outermost range of a thread was announced %u times", outer[i]);
			stayed += outer[i];
		}
		if (stayed != (unsigned)count)
			fail("recording %d has %u outermost ranges of %d", r, stayed, count);
		pthread_mutex_unlock(&mutex);
	}
	atomic_store(&ends, true);
	for (int i = 0; i < count; i++)
		pthread_join(list[i], NULL);
	for (int i = 0; i < RANGES; i++)
		if (atomic_load(&ranges[i].state) % STATES != FREE)
			fail("range %d is open behind the end of its thread", i);
	fprintf(stderr, "%u announced, %u of them behind their end, %lu marks\n", before, crossed, marks);
	return before < (unsigned)(recordings * count) || marks == 0;
}
