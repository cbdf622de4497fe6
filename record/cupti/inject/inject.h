/*
 * The parts of the injected library and what they owe each other.
 *
 *   main.c      entry point, handshake, exit
 *   sock.c      bounded socket calls
 *   load.c      finding libcupti
 *   enable.c    which records are made, and switching them on and off
 *   switch.c    when they are on
 *   client.c    noticing another CUPTI client
 *   nvtx.c      NVTX, through libcupti
 *   calls.c     which calls create GPU work, and names of calls
 *   pool.c      the buffers that CUPTI fills
 *   complete.c  what happens to a filled buffer
 *   translate.c CUPTI records to wire records
 *   strings.c   each name sent once
 *   clock.c     CUPTI's clock against CLOCK_MONOTONIC
 *   queue.c     messages on their way out, and the count of what was lost
 *   threads.c   the sender thread and the control thread
 *   gather.c    the last flushes before an end
 *   handover.c  handing over before an end without exit handlers
 *   signals.c   the signals that bring such an end
 *   mem.c       memory
 *
 * Rules that hold everywhere: no lock is held while CUPTI is called; the lock of
 * queue.c may be taken under that of strings.c, no others are nested; nothing is
 * done in a forked child; nothing is printed.
 */
#ifndef CT_INJECT_H
#define CT_INJECT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cupti_abi.h"
#include "wire.h"

#define CT_MS 1000000ull
#define CT_SECOND 1000000000ull

/* mem.c: zeroed, 8-byte aligned memory that is not the program's heap. */
void *ct_alloc(size_t size);
void ct_free(void *p, size_t size);

/* sock.c */
int ct_connect(uint64_t deadline);
bool ct_readable(int fd, uint64_t deadline);
uint64_t ct_cookie(int fd);
bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline);
bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline);

/* clock.c */
uint64_t ct_now(void);
void ct_clock_start(void);
void ct_clock_begin(const struct ct_cupti *api, bool callback);
void ct_clock_recalibrate(const struct ct_cupti *api);
uint64_t ct_clock_fix(uint64_t time, uint64_t now, bool *bad);
void ct_clock_kernel(uint64_t start);
uint64_t ct_timestamp(void);

/* load.c */
struct ct_candidate {
	const char *path;
	uint32_t major; /* 0 when not known */
};
bool ct_load_mapped(char *path, size_t size);
bool ct_load(struct ct_cupti *api, const struct ct_candidate *list, unsigned count);
void *ct_load_symbol(const char *name);
void *ct_load_early(const char *name, const struct ct_candidate *list, unsigned count);
uint32_t ct_load_driver(void);
bool ct_load_count_devices(void);
const char *ct_load_path(void);
const char *ct_load_error(void);

/* calls.c */
struct ct_calls {
	const unsigned char *list; /* count times {u32 length, name} as GO has them */
	uint32_t size;             /* of the list, bytes */
	uint32_t count;            /* 0: the calls that create GPU work */
};
bool ct_call_wanted(const char *name, const struct ct_calls *calls);
bool ct_call_creates_work(const char *name);
size_t ct_call_name(const char *name, char *out, size_t size);
size_t ct_call_base(const char *name);
struct ct_known_call {
	uint32_t domain, cbid;
	const char *name;
};
extern const struct ct_known_call ct_known_calls[];

/* enable.c */
#define CT_CBID_MAX 4096u
struct ct_wish {
	uint32_t records; /* CT_RECORDS_* */
	uint32_t flags;   /* CT_GO_* */
	struct ct_calls calls;
};
bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish);
bool ct_enable_work(const struct ct_cupti *api);
void ct_disable_work(const struct ct_cupti *api, bool linger);
void ct_disable(const struct ct_cupti *api, bool linger);
void ct_enable_say(const char *what, const char *more);
void ct_enable_complain(const struct ct_cupti *api, const char *what, const char *which, ct_result r);
uint32_t ct_enable_count(void);
const char *ct_enable_text(void);
uint32_t ct_enable_name(uint32_t domain, uint32_t cbid);
bool ct_enable_creates_work(uint32_t domain, uint32_t cbid);
bool ct_enable_began_in_time(uint64_t start);

/* switch.c */
bool ct_switch_start(const struct ct_cupti *api, const struct ct_wish *wish);
bool ct_switch_is_on(void);
void ct_switch_pause(const struct ct_cupti *api, bool paused);
void ct_switch_stop(const struct ct_cupti *api, bool linger);
void ct_switch_leave(void);

/* client.c */
bool ct_client_taken(const struct ct_cupti *api);

/* nvtx.c */
void ct_nvtx_forked(void);
void ct_nvtx_begin(void);
void ct_nvtx_end(bool wanted);

/* pool.c */
bool ct_pool_start(size_t memory, size_t buffer_size, bool null_allowed);
void ct_pool_request(uint8_t **buffer, size_t *size, size_t *max_records);
bool ct_pool_scratch(const uint8_t *buffer);
void ct_pool_release(uint8_t *buffer);
uint64_t ct_pool_requests(void);

/* queue.c */
#define CT_CHUNK_SIZE (64u << 10)
struct ct_chunk {
	struct ct_chunk *next;
	uint32_t used;    /* bytes of data */
	uint32_t counted; /* 1 when it counts against the queue's limit */
	struct ct_frame frame;
	unsigned char data[];
};
#define CT_CHUNK_DATA (CT_CHUNK_SIZE - sizeof(struct ct_chunk))
_Static_assert(offsetof(struct ct_chunk, data) == offsetof(struct ct_chunk, frame) + sizeof(struct ct_frame),
	       "frame and data are sent in one piece");

struct ct_loss {
	uint64_t count, from, to;
};
struct ct_counts {
	uint64_t kernels, copies, sets, apis, objects, extras, others;
};
bool ct_queue_start(size_t memory);
struct ct_chunk *ct_queue_chunk(void);
void ct_queue_push(struct ct_chunk *c);
void ct_queue_recycle(struct ct_chunk *c);
void ct_queue_message(uint16_t type, const void *head, size_t head_size, const char *text, size_t text_size);
bool ct_queue_string(uint32_t id, const char *text, uint32_t length);
void ct_queue_flushed(uint64_t until);
void ct_queue_clock(const struct ct_clock *clock);
bool ct_queue_wait_sent(uint64_t deadline, uint64_t stall);
void ct_queue_end(void);
void ct_queue_lost(enum ct_lost_cause cause, const struct ct_loss *add);
void ct_loss_add(struct ct_loss *to, const struct ct_loss *add);
void ct_queue_count(const struct ct_counts *add);
struct ct_counts ct_queue_counts(void);
struct ct_chunk *ct_queue_take(void);
void ct_queue_finish(void);

/* strings.c */
bool ct_strings_start(size_t memory);
uint32_t ct_strings_id(const char *text);

/* translate.c: one record of CUPTI into a wire record. */
struct ct_batch {
	struct ct_chunk *chunk;
	struct ct_counts counts;
	uint64_t now;
	uint64_t last;    /* when the latest record with a time began, or the last buffer came */
	uint32_t version; /* of CUPTI */
	uint32_t newest_call, newest_work; /* largest correlation: of a call that makes work, of work */
	uint32_t target, awaited; /* work of calls up to this correlation, and how much of it came */
	struct ct_loss lost[CT_LOST_CAUSES];
	struct {
		const char *text;
		uint32_t id;
	} names[64]; /* numbers of names seen in this buffer, by pointer */
};
void ct_batch_lost(struct ct_batch *b, enum ct_lost_cause cause, uint64_t time);
void ct_translate(struct ct_batch *b, const unsigned char *record, size_t left);
void ct_batch_end(struct ct_batch *b);

/* complete.c */
void ct_complete_start(const struct ct_cupti *api);
void ct_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
uint64_t ct_complete_count(void);
uint64_t ct_complete_last(void);

/* gather.c */
void ct_gather_note(const struct ct_batch *b);
uint32_t ct_gather_target(void);
bool ct_gather_forces(void);
uint64_t ct_gather(bool at_exit, bool final);
void ct_gather_calls(void);

/* handover.c */
bool ct_handover(uint32_t reason, uint32_t detail, bool may_leave); /* safe in a signal handler */
bool ct_handover_wanted(void);
void ct_handover_answer(void);
void ct_handover_end(void);

/* signals.c */
void ct_signals_block(sigset_t *before);
void ct_signals_restore(const sigset_t *before);
void ct_signals_start(void);
void ct_signals_end(void);
void ct_signals_through(void);
uint32_t ct_signals_exit(uint64_t *handler);

/* threads.c */
#define CT_STALL (1500 * CT_MS) /* at the end: longest time in which nothing moves */
struct ct_session {
	int fd;
	uint64_t cookie; /* tells our socket from another that got its number */
	uint32_t flush_ms;
	uint32_t exit_ms;
	const struct ct_cupti *api; /* NULL when no records are made */
	bool watch; /* for another CUPTI client */
};
bool ct_threads_start(const struct ct_session *s);
void ct_threads_wake(void);
void ct_threads_exit(void);
void ct_threads_forked(void);
uint32_t ct_threads_control(void); /* the control thread's tid */
void ct_threads_flush_now(uint32_t forced);
bool ct_threads_flush(uint32_t forced, bool at_exit);
struct ct_bye ct_threads_bye(uint32_t reason, uint32_t detail, uint64_t until);
uint32_t ct_threads_exiting(void); /* the tid that runs the exit handler, 0 without */
uint64_t ct_threads_patience(void);
bool ct_threads_tell(void);  /* safe in a signal handler, as the next */
bool ct_threads_stuck(uint64_t time);

/* main.c */
bool ct_ours(void); /* false in a forked child; safe in a signal handler */
bool ct_forked(void); /* true in a forked child of a recorded process */
bool ct_watch_forks(void);
#define CT_CANDIDATES 64
unsigned char *ct_wait_for_go(int fd, uint32_t *length, uint64_t deadline);
unsigned ct_read_candidates(unsigned char **at, uint32_t *left, uint32_t count, struct ct_candidate *list);

#endif
