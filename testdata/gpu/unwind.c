/*
 * unwind.c: an injected library that finds the callers of CUDA by full unwinding, for
 * comparison with those in a log. The driver loads it by CUDA_INJECTION64_PATH.
 *
 *	gcc -O2 -shared -fPIC -o libunwind-callers.so unwind.c -ldl -lpthread
 *
 * CUPTI asks for the time on the calling thread at the start of each call that has an API
 * record, and the answer is the record's start. So each answer is given once, with the
 * return addresses that the compiler's unwinder finds then, and the record leads back to them.
 *
 * At the program's end the file UNWIND_OUT.PID has a line a chain: the number of calls, the driver's function, and up to
 * eight return addresses above libcuda, innermost first, each as FILE+ADDRESS as the file's ELF headers count. The last
 * line counts the calls that have no chain. UNWIND_CUPTI is the path of libcupti for a program that has not loaded one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

enum { MEMCPY = 1, MEMSET = 2, CONCURRENT_KERNEL = 10, DRIVER = 4 };
enum { DEPTH = 8, INNER = 96, CHAINS = 1 << 16, EVENTS = 1 << 23, CALLS = 4096, MISSES = 512, BUFFER = 4 << 20 };

typedef int (*register_fn)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));

static struct {
	register_fn callbacks;
	int (*enable)(uint32_t), (*flush)(uint32_t), (*driver)(uint32_t, uint8_t);
	int (*next)(uint8_t *, size_t, void **);
	int (*clock)(uint64_t (*)(void));
	int (*name)(uint32_t, uint32_t, const char **);
} cupti;

/* The code of a library: from its first to its last executable byte. */
struct code {
	uintptr_t from, to;
};

struct chain {
	unsigned count;
	uintptr_t address[DEPTH];
	char text[DEPTH][128];
};

/* An answer with its chain, or an API record: a time, and the number of a chain or the call's callback ID. */
struct event {
	uint64_t time;
	uint32_t number;
};

struct events {
	struct event *at;
	atomic_uint count;
};

static struct code cuda_code, cupti_code;
static struct chain *chains; /* a hash table */
static pthread_mutex_t chains_lock = PTHREAD_MUTEX_INITIALIZER;
static struct events answers, records;
static const char *names[CALLS];
static _Atomic uint64_t last_time;

static bool in(struct code c, uintptr_t a)
{
	return a >= c.from && a < c.to;
}

static void add(struct events *e, uint64_t time, uint32_t number)
{
	unsigned i = atomic_fetch_add(&e->count, 1);
	if (i < EVENTS)
		e->at[i] = (struct event){time, number};
}

/* One unwinding. */
struct unwinding {
	bool driver; /* a frame of libcuda was met */
	unsigned frames, count;
	uintptr_t address[DEPTH];
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *arg)
{
	struct unwinding *u = arg;
	uintptr_t a = _Unwind_GetIP(context);
	if (a == 0 || u->frames++ == INNER || u->count == DEPTH)
		return _URC_END_OF_STACK;
	if (u->count == 0 && (in(cuda_code, a) || in(cupti_code, a) || !u->driver)) {
		u->driver |= in(cuda_code, a);
		return _URC_NO_REASON;
	}
	u->address[u->count++] = a;
	return _URC_NO_REASON;
}

/* An address with the text that names it. */
struct place {
	uintptr_t address;
	char *text;
};

static int name_place(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *p = arg;
	char program[256] = "";
	const char *path = info->dlpi_name, *slash;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		if (h->p_type != PT_LOAD || p->address - info->dlpi_addr - h->p_vaddr >= h->p_memsz)
			continue;
		if (!path || !*path) { /* the program itself */
			ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
			path = n > 0 ? program : "?";
		}
		slash = strrchr(path, '/');
		snprintf(p->text, sizeof chains->text[0], "%.100s+%lx", slash ? slash + 1 : path, (unsigned long)(p->address - info->dlpi_addr));
		return 1;
	}
	return 0;
}

/* The number of a chain; 0 when the table is full. */
static uint32_t number(const struct unwinding *u)
{
	uint32_t h = u->count, found = 0;
	for (unsigned i = 0; i < u->count; i++)
		h = (h ^ (uint32_t)(u->address[i] >> 4) ^ (uint32_t)u->address[i]) * 2654435761u;
	pthread_mutex_lock(&chains_lock);
	for (uint32_t i = 0; i < CHAINS && !found; i++) {
		struct chain *c = &chains[(h + i) % CHAINS];
		bool fresh = c->count == 0;
		if (!fresh && (c->count != u->count || memcmp(c->address, u->address, sizeof c->address) != 0))
			continue;
		memcpy(c->address, u->address, sizeof c->address);
		for (unsigned k = 0; fresh && k < u->count; k++) {
			snprintf(c->text[k], sizeof c->text[k], "?+%lx", (unsigned long)u->address[k]);
			dl_iterate_phdr(name_place, &(struct place){u->address[k], c->text[k]});
		}
		c->count = u->count;
		found = (h + i) % CHAINS + 1;
	}
	pthread_mutex_unlock(&chains_lock);
	return found;
}

/* A time that no other call gets. */
static uint64_t own_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, last = atomic_load(&last_time), mine;
	do
		mine = now > last ? now : last + 1;
	while (!atomic_compare_exchange_weak(&last_time, &last, mine));
	return mine;
}

static uint64_t timestamp(void)
{
	struct unwinding u = {0};
	uint64_t time = own_time();
	_Unwind_Backtrace(frame, &u);
	if (u.count > 0)
		add(&answers, time, number(&u));
	return time;
}

static void requested(uint8_t **buffer, size_t *size, size_t *count)
{
	*buffer = aligned_alloc(4096, BUFFER);
	*size = *buffer ? BUFFER : 0;
	*count = 0; /* as many as fit */
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	void *record = NULL;
	(void)context, (void)stream, (void)size;
	while (cupti.next(buffer, valid, &record) == 0) {
		uint32_t kind, cbid;
		uint64_t start;
		memcpy(&kind, record, sizeof kind);
		memcpy(&cbid, (char *)record + 4, sizeof cbid);
		memcpy(&start, (char *)record + 8, sizeof start);
		if (kind == DRIVER)
			add(&records, start, cbid);
	}
	free(buffer);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct event *)a)->time, y = ((const struct event *)b)->time;
	return (x > y) - (x < y);
}

static int by_call(const void *a, const void *b)
{
	int numbers = (int)((const struct event *)a)->number - (int)((const struct event *)b)->number;
	return numbers ? numbers : by_time(a, b);
}

static unsigned sort(struct events *e, int (*order)(const void *, const void *))
{
	unsigned n = atomic_load(&e->count) < EVENTS ? atomic_load(&e->count) : EVENTS;
	qsort(e->at, n, sizeof *e->at, order);
	return n;
}

static void print_call(FILE *f, struct event call, unsigned count)
{
	const struct chain *c = &chains[call.number - 1];
	uint32_t cbid = (uint32_t)call.time;
	fprintf(f, "%u\t%s", count, cbid < CALLS && names[cbid] ? names[cbid] : "?");
	for (unsigned i = 0; i < c->count; i++)
		fprintf(f, "\t%s", c->text[i]);
	fputc('\n', f);
}

/* Replaces each record by its callback ID and its chain; returns the number of records with a chain. */
static unsigned match(void)
{
	unsigned a = 0, kept = 0, answered = sort(&answers, by_time), calls = sort(&records, by_time);
	for (unsigned i = 0; i < calls; i++) {
		struct event r = records.at[i];
		while (a < answered && answers.at[a].time < r.time)
			a++;
		if (a < answered && answers.at[a].time == r.time && answers.at[a].number)
			records.at[kept++] = (struct event){r.number, answers.at[a].number};
	}
	return kept;
}

static void at_end(void)
{
	static atomic_bool done;
	char path[4096];
	const char *out = getenv("UNWIND_OUT");
	if (atomic_exchange(&done, true) || !out)
		return;
	cupti.flush(1);
	snprintf(path, sizeof path, "%s.%d", out, (int)getpid());
	FILE *f = fopen(path, "w");
	if (!f) {
		perror(path);
		return;
	}
	unsigned calls = atomic_load(&records.count), kept = match();
	qsort(records.at, kept, sizeof *records.at, by_call);
	for (unsigned i = 0, n; i < kept; i += n) {
		n = 1;
		while (i + n < kept && by_call(&records.at[i], &records.at[i + n]) == 0)
			n++;
		print_call(f, records.at[i], n);
	}
	fprintf(f, "%u\tno chain\n", calls - kept);
	fclose(f);
}

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct code *c = arg, found = {UINTPTR_MAX, 0};
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + h->p_vaddr;
		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		found.from = from < found.from ? from : found.from;
		found.to = from + h->p_memsz > found.to ? from + h->p_memsz : found.to;
	}
	if (!in(found, c->from))
		return 0;
	*c = found;
	return 1;
}

static void *library(void)
{
	const char *const files[] = {"libcupti.so.13", "libcupti.so.12", getenv("UNWIND_CUPTI"), "libcupti.so.13", "libcupti.so.12",
		"/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
	void *handle = NULL;
	for (unsigned i = 0; !handle && i < sizeof files / sizeof *files; i++)
		if (files[i] && *files[i])
			handle = dlopen(files[i], i < 2 ? RTLD_NOW | RTLD_NOLOAD : RTLD_NOW);
	return handle;
}

static bool load(void)
{
	void *l = library();
	if (!l)
		return false;
	cupti.callbacks = (register_fn)dlsym(l, "cuptiActivityRegisterCallbacks");
	cupti.enable = (int (*)(uint32_t))dlsym(l, "cuptiActivityEnable");
	cupti.flush = (int (*)(uint32_t))dlsym(l, "cuptiActivityFlushAll");
	cupti.next = (int (*)(uint8_t *, size_t, void **))dlsym(l, "cuptiActivityGetNextRecord");
	cupti.driver = (int (*)(uint32_t, uint8_t))dlsym(l, "cuptiActivityEnableDriverApi");
	cupti.clock = (int (*)(uint64_t (*)(void)))dlsym(l, "cuptiActivityRegisterTimestampCallback");
	cupti.name = (int (*)(uint32_t, uint32_t, const char **))dlsym(l, "cuptiGetCallbackName");
	return cupti.callbacks && cupti.enable && cupti.flush && cupti.next && cupti.driver && cupti.clock && cupti.name;
}

/* The calls that record/internal/cupti/inject/calls.c wants. */
static bool creates_work(const char *name)
{
	static const char *const begins[] = {"cuLaunch", "cuMemcpy", "cuMemset", "cuGraphLaunch", "cuMemPrefetch", "cuMemDiscardAndPrefetch"};
	for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return strncmp(name, "cuLaunchHostFunc", 16) != 0;
	return false;
}

static unsigned switch_calls_on(void)
{
	unsigned on = 0, misses = 0;
	for (uint32_t cbid = 1; cbid < CALLS && misses < MISSES; cbid++) {
		const char *name = NULL;
		if (cupti.name(1, cbid, &name) != 0 || !name) {
			misses++;
			continue;
		}
		misses = 0;
		names[cbid] = name;
		on += creates_work(name) && cupti.driver(cbid, 1) == 0;
	}
	return on;
}

static void *memory(size_t size)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

static const char *start(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!load() || !cuda)
		return "no libcupti or no libcuda; set UNWIND_CUPTI";
	cuda_code.from = (uintptr_t)dlsym(cuda, "cuInit");
	cupti_code.from = (uintptr_t)cupti.flush;
	if (!dl_iterate_phdr(find_code, &cuda_code) || !dl_iterate_phdr(find_code, &cupti_code))
		return "the code of libcuda or libcupti was not found";
	chains = memory(CHAINS * sizeof *chains);
	answers.at = memory(EVENTS * sizeof *answers.at);
	records.at = memory(EVENTS * sizeof *records.at);
	if (!chains || !answers.at || !records.at)
		return "no memory";
	if (cupti.clock(timestamp) || cupti.callbacks(requested, completed))
		return "CUPTI takes no callbacks";
	if (cupti.enable(CONCURRENT_KERNEL) || cupti.enable(MEMCPY) || cupti.enable(MEMSET) || !switch_calls_on())
		return "CUPTI makes no records";
	return NULL;
}

int InitializeInjection(void)
{
	const char *failed = start();
	if (failed)
		fprintf(stderr, "unwind: %s\n", failed);
	else
		atexit(at_end);
	return 1;
}

__attribute__((destructor)) static void unloaded(void)
{
	if (cupti.flush && chains)
		at_end();
}
