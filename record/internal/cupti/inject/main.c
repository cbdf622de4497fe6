/*
 * The entry point, the handshake with the recorder and the exit handlers. The driver
 * loads this library during cuInit and calls InitializeInjection, on the thread that
 * called cuInit. Whatever fails here must fail without a word, and the program runs on.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base.h"
#include "calibration.h"
#include "calls.h"
#include "control.h"
#include "enable.h"
#include "flush.h"
#include "link.h"
#include "load.h"
#include "meet.h"
#include "memory.h"
#include "nvtx.h"
#include "pool.h"
#include "queue.h"
#include "range.h"
#include "client.h"
#include "seen.h"
#include "signals.h"
#include "standby.h"
#include "translate.h"
#include "walk.h"
#include "wire.h"

#define MEETING_WAIT (2 * CT_SECOND)
#define LEAST_MEMORY (1u << 20) /* for records */
#define FIXED_MEMORY (2u << 20) /* stacks, tables, chunks beside the queue */

#ifndef CT_SOURCES
#define CT_SOURCES "none"
#endif
/* The SHA-256 of the sources: a test holds it against the sources it finds. */
__attribute__((used, section(".cudatrace"))) static const char sources[] = "sources sha256 " CT_SOURCES;

static struct ct_cupti cupti;
static bool without_lines; /* of Python: see meet.c */
static bool follows; /* a recording of this process by another copy */
static CT_KEPT struct ct_meeting own_meeting;
static CT_KEPT struct ct_meeting *meeting = &own_meeting; /* of an armed process: that of its first copy */

/*
 * The program ends. CUPTI must not be used by our thread meanwhile, and the recorder already counts on the records. No
 * recording begins any more: the next handler may be CUDA's.
 */
static void await_meeting(void)
{
	uint64_t now, deadline = ct_now() + MEETING_WAIT;
	atomic_store(&meeting->exits, 1);
	while (atomic_load(&meeting->busy) && (now = ct_now()) < deadline)
		ct_word_wait(&meeting->busy, 1, deadline - now);
}

static void at_exit(void *unused)
{
	(void)unused;
	if (!ct_ours())
		return;
	await_meeting();
	ct_threads_exit();
}

static void in_quick_exit(void *unused)
{
	(void)unused;
	ct_handover(CT_BYE_QUICK_EXIT, 0, false);
	if (ct_ours())
		ct_handover_last();
}

/*
 * glibc's own names behind atexit and at_quick_exit, which are linked into each library
 * statically. No library handle is given: this library is never unloaded.
 */
int __cxa_atexit(void (*f)(void *), void *arg, void *library);
int __cxa_at_quick_exit(void (*f)(void *), void *library);

static bool register_handlers(void)
{
	static CT_KEPT bool registered;
	if (registered)
		return true;
	return registered = __cxa_atexit(at_exit, NULL, NULL) == 0 && __cxa_at_quick_exit(in_quick_exit, NULL) == 0;
}

static bool say_hello(int fd, uint64_t since, uint64_t deadline)
{
	struct {
		struct ct_frame frame;
		struct ct_hello hello;
	} m = {
		.frame = {.length = sizeof m.hello, .type = CT_MSG_HELLO},
		.hello = {.version = CT_WIRE_VERSION,
			  .since = since,
			  .request = (uint64_t)(uintptr_t)ct_pool_request},
	};
	return ct_send_wait(fd, &m, sizeof m, deadline);
}

static size_t memory_limit; /* the recorder's, or what the address space that is left allows */

static size_t least(uint64_t n)
{
	return n < FIXED_MEMORY + LEAST_MEMORY ? FIXED_MEMORY + LEAST_MEMORY : (size_t)n;
}

static void set_memory_limit(const struct ct_go *go)
{
	memory_limit = least(go->memory_limit);
	while (memory_limit > least(0) && !ct_has_room(memory_limit))
		memory_limit = least(memory_limit / 2);
	memory_limit -= FIXED_MEMORY;
}

static void note_memory(const struct ct_go *go)
{
	char words[160];
	size_t wanted = least(go->memory_limit), is = memory_limit + FIXED_MEMORY;
	if (is == wanted)
		return;
	snprintf(words, sizeof words,
		 "the program's address space is limited (RLIMIT_AS): of --memory-limit %zuM, %zuM are used at most",
		 wanted >> 20, is >> 20);
	ct_queue_note(CT_NOTE_REMARK, words);
}

/* The memory for calls that were seen, and chains: an eighth. */
static size_t memory_for_chains(const struct ct_go *go)
{
	return go->flags & (CT_GO_CALLERS | CT_GO_PYTHON) ? memory_limit / 8 : 0;
}

/* The memory for Python's code objects and stacks: a sixteenth. */
static size_t memory_for_python(const struct ct_go *go)
{
	return go->flags & CT_GO_PYTHON ? memory_limit / 16 : 0;
}

/* The memory for PyTorch's operators: likewise. */
static size_t memory_for_torch(const struct ct_go *go)
{
	return go->flags & CT_GO_TORCH ? memory_limit / 16 : 0;
}

/*
 * The memory for records: of the rest, three eighths each for CUPTI's buffers and the queue, an
 * eighth for names, and as much again for names that wait in the queue.
 */
static size_t memory_for_records(const struct ct_go *go)
{
	return memory_limit - memory_for_chains(go) - memory_for_python(go) - memory_for_torch(go);
}

static bool start_memory(const struct ct_go *go)
{
	size_t memory = memory_for_records(go);
	return ct_queue_start(memory / 8 * 3) && ct_names_start(memory / 8);
}

/* Loads CUPTI; words say what went wrong. Where the program has loaded it long before, a client may be there. */
static bool load_cupti(const struct ct_go *go, const struct ct_candidate *list, unsigned count, const char **words)
{
	bool mapped = (go->flags & CT_GO_LATE) && ct_load_mapped();
	if (!ct_load(&cupti, list, count)) {
		*words = ct_load_error();
		return false;
	}
	if (!mapped || !ct_client_before(&cupti))
		return true;
	*words = "another tool in the program holds it, as PyTorch's profiler does from its first profile on";
	return false;
}

/* Loads CUPTI and switches records on; words say what went wrong. */
static bool start_cupti(const struct ct_go *go, unsigned char *rest, uint32_t left, const char **words)
{
	struct ct_candidate list[CT_CANDIDATES_MAX];
	unsigned count = ct_go_candidates(&rest, &left, go->candidates, list);
	*words = "";
	if (go->flags & CT_GO_NO_CUPTI)
		return false;
	if (!load_cupti(go, list, count, words))
		return false;
	if (!ct_pool_start(memory_for_records(go) / 8 * 3, go->buffer_size, cupti.version >= CUPTI_V13_0)) {
		*words = "there is no memory for CUPTI's buffers";
		return false;
	}
	if (follows) {
		ct_link_switching(true);
		cupti.flush_all(CT_FINISHED); /* what the recording before left, to its callbacks */
		ct_link_switching(false);
	}
	ct_complete_start(&cupti);
	struct ct_wish wish = {
		.records = go->records,
		.flags = go->flags,
		.memory_for_chains = memory_for_chains(go),
		.memory_for_python = memory_for_python(go),
		.memory_for_torch = memory_for_torch(go),
		.python = go->python,
		.calls = {.list = rest, .size = left, .count = go->calls},
	};
	if (go->flags & CT_GO_LATE)
		ct_signals_trap();
	bool on = ct_enable(&cupti, &wish);
	*words = ct_complaints();
	if (!on)
		ct_complete_start(NULL);
	return on;
}

/* The ring is empty yet, and larger than all of this. */
static void send_status(bool on, const char *words)
{
	struct {
		struct ct_frame frame;
		struct ct_status status;
	} m = {
		.frame = {.type = CT_MSG_STATUS},
		.status = {.state = on ? CT_STATUS_ON : CT_STATUS_OFF,
			   .cupti_version = cupti.version,
			   .driver_version = ct_load_driver(),
			   .path_len = (uint32_t)strlen(ct_load_path()),
			   .text_len = (uint32_t)strlen(words)},
	};
	m.status.exit_signal = ct_signals_exit(&m.status.exit_handler);
	m.status.exit_over = ct_handover_over();
	m.frame.length = (uint32_t)sizeof m.status + m.status.path_len + m.status.text_len;
	ct_link_send(&m, sizeof m);
	ct_link_send(ct_load_path(), m.status.path_len);
	ct_link_send(words, m.status.text_len);
}

static void at_range(void)
{
	ct_switch_range(&cupti);
}

static int64_t clock_shift_seconds(void)
{
	int64_t shift = ct_clock_shift(), half = (int64_t)CT_SECOND / 2;
	return (shift + (shift < 0 ? -half : half)) / (int64_t)CT_SECOND;
}

/* A shift that is there once is a thread that waited for a processor between two readings. */
static void note_clock(void)
{
	char words[160];
	int64_t shift = clock_shift_seconds();
	if (shift == 0 || clock_shift_seconds() == 0)
		return;
	snprintf(words, sizeof words,
		 "the program's clock is %lld s %s: a preloaded library shifts it; times here are the kernel's",
		 (long long)(shift < 0 ? -shift : shift), shift < 0 ? "slow" : "fast");
	ct_queue_note(CT_NOTE_REMARK, words);
}

/* From GO on. False: nothing is on. */
static bool record(struct ct_go *go, uint32_t length, bool *nvtx)
{
	const char *words;
	if (!start_memory(go))
		return false;
	note_memory(go);
	if (without_lines && go->flags & CT_GO_PYTHON)
		ct_queue_note(1, "Python lines are not recorded: CUPTI was not taken out behind earlier recordings of the process, "
				 "and each one with lines would keep memory");
	if (without_lines) {
		go->flags &= ~(uint32_t)CT_GO_PYTHON;
		go->python.minor = 0;
	}
	note_clock();
	ct_range_choose(ct_go_range(go, length), go->range_len, go->first_step, go->steps);
	const struct ct_function *functions = (const void *)(go + 1);
	uint32_t left = length - (uint32_t)sizeof *go, of_functions = go->functions * (uint32_t)sizeof *functions;
	if (go->functions > CT_FUNCTIONS_MAX || of_functions > left || !ct_memory_keep(functions, go->functions))
		return false;
	bool on = start_cupti(go, (unsigned char *)(go + 1) + of_functions, left - of_functions, &words);
	struct ct_recording r = {
		.flush_ms = go->flush_ms < 10 ? 10 : go->flush_ms,
		.exit_ms = go->exit_ms,
		.api = on ? &cupti : NULL,
		.watch_clients = (go->flags & CT_GO_WATCH_CLIENTS) != 0,
	};
	*nvtx = on && (go->records & CT_RECORDS_NVTX);
	if (on) {
		ct_signals_start();
		ct_client_start(&cupti);
	}
	send_status(on, words);
	/* for READY, which the control thread takes: the recorder has set its probes by then, and more of them without CUPTI */
	ct_link_await_message(ct_now() + CT_GO_WAIT);
	if (ct_threads_start(&r)) {
		if (on && ct_range_wanted())
			ct_range_tell(at_range);
		return true;
	}
	*nvtx = false;
	ct_signals_end();
	ct_complete_start(NULL);
	if (on) {
		ct_memory_end();
		ct_disable(&cupti, false);
	}
	return false;
}

/* Goes on in the memory that came with GO, and leaves the socket. */
static bool go_on_in_memory(int fd, const int passed[CT_LINK_MEMORIES], const struct ct_go *go, uint64_t deadline)
{
	static const struct ct_frame mapped = {.type = CT_MSG_MAPPED};
	size_t seen = ct_seen_size(memory_for_chains(go));
	struct ct_shared *memory = ct_link_start(passed, &seen);
	if (!memory || !ct_send_wait(fd, &mapped, sizeof mapped, deadline))
		return false;
	ct_open_start(memory, seen > 0);
	return true;
}

/*
 * Meets the recorder within a time. False when there is none, or none that wants this process. An armed process may begin
 * to exit meanwhile, and does not wait for GO.
 */
static bool meet(int fd, struct ct_meeting *armed, uint64_t since, uint64_t wait, bool *nvtx)
{
	uint64_t deadline = since + wait;
	*nvtx = false;
	if (fd < 0)
		return false;
	uint32_t length = 0;
	int passed[CT_LINK_MEMORIES];
	bool said = say_hello(fd, since, deadline);
	struct ct_go *go = said ? ct_go_receive(fd, &length, passed, CT_LINK_MEMORIES, &deadline) : NULL;
	bool linked = false, answered = go != NULL;
	if (answered) {
		set_memory_limit(go);
		linked = go_on_in_memory(fd, passed, go, deadline);
	}
	close(fd);
	bool wanted = linked && (!armed || ct_meeting_begin(armed));
	if (linked && !(wanted && register_handlers() && record(go, length, nvtx)))
		ct_link_end();
	if (armed)
		ct_meeting_end(armed);
	ct_free(go, length);
	return answered;
}

static bool prepare(void)
{
	ct_calibration_start();
	return ct_fork_watch(ct_nvtx_forked) && ct_fork_watch(ct_threads_forked) && ct_fork_watch(ct_walk_forked);
}

/* True when NVTX is to be recorded. */
static bool begin(void)
{
	bool nvtx;
	uint64_t since = ct_now();
	meet(ct_rehearsed() ? ct_connect(since + CT_GO_WAIT) : -1, NULL, since, CT_GO_WAIT, &nvtx);
	return nvtx;
}

/*
 * Meets a recorder from a thread of an armed process, long after CUDA's start. Once answered, this library records the
 * process, or never does. The recorder has checked for a sandbox: nothing can be rehearsed here, since a child would copy
 * all of the process's memory.
 */
static bool begin_late(struct ct_meeting *of_process, const struct ct_pool_before *before, ct_give_fn give, bool lines)
{
	bool nvtx;
	const uint64_t since = ct_now(), wait = CT_GO_MOST_MS * CT_MS; /* nothing of the program waits */
	ct_fork_begin(); /* in a copy */
	ct_enable_given(give);
	without_lines = !lines;
	follows = before != NULL;
	if (follows)
		ct_pool_after(before);
	meeting = of_process;
	ct_graphs_of(&meeting->graphs);
	return prepare() && meet(ct_connect(since + wait), of_process, since, wait, &nvtx);
}

/* The end of such a recording. A program that exits meanwhile has its exit handler wait for it. */
static bool end_late(uint64_t deadline)
{
	if (!ct_threads_over(deadline))
		return false;
	ct_meeting_begin(meeting);
	ct_client_end();
	ct_pool_end();
	if (ct_finalized())
		ct_pool_forget();
	ct_link_forget();
	ct_meeting_end(meeting);
	return true;
}

/* Threads of the program and PyTorch may have addresses where callers were looked for, unless CUPTI was finalized. */
static bool start_anew(void)
{
	return (ct_finalized() || !ct_seen_used()) && ct_start_anew();
}

extern const struct ct_copy cudatrace_copy;
__attribute__((visibility("default"))) const struct ct_copy cudatrace_copy = {
	begin_late, ct_standby_give, end_late, ct_finalized, start_anew, {ct_pool_scratch, ct_pool_release}, &own_meeting,
};

__attribute__((visibility("default"))) int InitializeInjection(void);

int InitializeInjection(void)
{
	if (getauxval(AT_SECURE) || !ct_fork_begin())
		return 1;
	if (ct_armed()) {
		if (register_handlers()) /* before a recorder comes: it may come while they run */
			ct_armed_start(&cudatrace_copy);
		return 1;
	}
	if (!prepare())
		return 1;
	ct_nvtx_begin();
	ct_nvtx_end(begin());
	return 1;
}
