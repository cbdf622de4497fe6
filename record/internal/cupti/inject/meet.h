#ifndef CT_MEET_H
#define CT_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "load.h"
#include "wire.h"

/* The socket. */
bool ct_rehearsed(void);
int ct_connect(uint64_t deadline);
bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline);

/* The answer, GO. */
#define CT_GO_WAIT (CT_GO_WAIT_MS * CT_MS)

struct ct_go *ct_go_receive(int fd, uint32_t *length, int *passed, unsigned count, uint64_t *deadline);
unsigned ct_go_candidates(unsigned char **at, uint32_t *left, uint32_t count, struct ct_candidate *list);
const char *ct_go_range(const struct ct_go *go, uint32_t length);

/* The pool of the recording before, from which CUPTI may still hold buffers. */
struct ct_pool_before {
	bool (*scratch)(const uint8_t *buffer);
	void (*release)(uint8_t *buffer);
};

/* Gives marks and ranges of NVTX to a recording (standby.h); NULL: to none. */
struct ct_taker;
typedef void (*ct_give_fn)(const struct ct_taker *to);

/* Of a process, whichever copy records it. */
struct ct_meeting {
	_Atomic uint32_t busy;	/* a futex: 1 while a thread of an armed process begins to record, or ends that */
	_Atomic uint32_t exits; /* 1: exit handlers run */
	_Atomic bool graphs;	/* see ct_graphs */
};

bool ct_meeting_begin(struct ct_meeting *m); /* false: exit handlers run */
void ct_meeting_end(struct ct_meeting *m);

/*
 * A process that waits for a recorder. What a recording knows is in variables, so each one but the first is that of a
 * copy of this library.
 */
struct ct_copy {
	/* Begins a recording, which has the first copy give it NVTX; false when there is no recorder. lines: it may have Python lines. */
	bool (*meet)(struct ct_meeting *of_process, const struct ct_pool_before *before, ct_give_fn give, bool lines);
	ct_give_fn give;
	bool (*over)(uint64_t deadline);                   /* waits for its end, and leaves as little behind as it can */
	bool (*finalized)(void); /* whether CUPTI has been, behind it: it holds no buffers */
	bool (*anew)(void);      /* makes it as it was when it was loaded, for another recording; false when that cannot be */
	struct ct_pool_before pool;
	struct ct_meeting *meeting;
};

#define CT_COPY_SYMBOL "cudatrace_copy"

bool ct_armed(void);
void ct_armed_start(const struct ct_copy *own);
bool ct_start_anew(void);

#endif
