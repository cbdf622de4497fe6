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
void ct_pause(uint64_t ns) { usleep((useconds_t)(ns / 1000)); }
void ct_sigmask_block(sigset_t *before) { (void)before; }
void ct_sigmask_restore(const sigset_t *before) { (void)before; }
bool ct_come_in(void) { return true; }
void ct_go_out(void) {}
void ct_lock(struct ct_lock *l) { while (atomic_exchange(&l->state, 1)) usleep(1); }
void ct_unlock(struct ct_lock *l) { atomic_store(&l->state, 0); }
uint32_t ct_name_number(const char *text) { return text != NULL; }
void ct_queue_record(const void *r, size_t n, const char *t, size_t l, uint64_t *at) { (void)r, (void)n, (void)t, (void)l, (void)at; }
void ct_nccl_send(const char *name, const struct nvtx_payload *p) { (void)name, (void)p; }
void ct_nccl_pass(void (*to)(const char *, const struct nvtx_payload *)) { (void)to; }

#define fail(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* A recording: how far each range has come, by its place. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint32_t begun, ended; /* its ID, 0 for none */
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
		before += (flags & CT_MARKER_BEFORE) != 0;
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

static const struct ct_taker recorders[] = {{take_even, ct_nccl_send}, {take_odd, ct_nccl_send}};

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
	pid_t pid = fork();
	if (pid == 0) {
		atomic_store(&forked, true);
		ct_standby_forked();
		on_RangePushA("s");
		on_RangePop();
		atomic_store(&forked, false);
		on_RangePop();
		on_RangePushA("s of the child");
		before = 0;
		begin_recording(0);
		_exit(before == 1 ? 0 : 2);
	}
	int status;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("the child ended with %x", status);
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
