/* The private interface between the simulated libraries. libcuda.so.1 exports one
 * symbol, cudasim_hook; libcupti.so.13 puts a sim_client into it while
 * anything is switched on, and libcudart announces its calls through it.
 * Without a client an API call costs one load and one branch. */
#ifndef SIM_HOOK_H
#define SIM_HOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "image.h"

#define SIM_HOOK_SYMBOL "cudasim_hook"
#define SIM_HOOK_VERSION 3u

enum sim_domain { SIM_DRIVER = 1, SIM_RUNTIME = 2 };

/* One API call in progress, on its caller's stack. */
struct sim_frame {
	struct sim_frame *up; /* the call that made this one, or NULL */
	uint32_t domain, cbid;
	uint32_t correlation; /* correlation id of the outermost call */
	bool live;            /* a client saw it enter */
	bool counted;         /* as inside */
	bool covered;         /* an outer call is recorded: this one gets no record */
	bool recorded;        /* set by the client: this call gets the record */
	uint64_t start;       /* client's, on the client's clock */
	uint64_t data;        /* client's */
	const char *symbol;   /* kernel that the call launches, for callbacks */
	const void *arguments; /* of a function that allocates or frees, likewise: a struct of them */
};

enum sim_work_type { SIM_KERNEL, SIM_COPY, SIM_SET, SIM_EVENT, SIM_WAIT, SIM_HOST, SIM_FREE, SIM_VALUE };

#define SIM_INLINE_ARGS 96

struct sim_kernel_work {
	const struct sim_kernel *kernel;
	struct sim_launch launch;
	bool cooperative;
	void *args;                          /* inline_args, or malloc'd where they are larger */
	char inline_args[SIM_INLINE_ARGS];
};

struct sim_copy_work {
	void *dst;
	const void *src;
	size_t width, height, depth;  /* bytes, rows, slices; height 1 for a flat copy */
	size_t dst_pitch, src_pitch;  /* bytes from row to row */
	size_t dst_slice, src_slice;  /* bytes from slice to slice */
	uint8_t kind, src_kind, dst_kind;           /* CUPTI's numbers */
	bool peer;
	bool async;
	uint32_t src_device, dst_device, src_context, dst_context;
};

struct sim_set_work {
	void *dst;
	size_t width, height, pitch; /* elements, rows, bytes */
	uint32_t value, unit;        /* unit: bytes of an element */
	uint8_t kind;
	bool async;
};

struct sim_event_work {
	struct CUevent_st *event;
	uint64_t version; /* which recording of the event */
};

/* A value that the stream waits for in memory, or writes there. */
struct sim_value_work {
	void *address;
	uint64_t value;
	bool wide, write; /* 64 bits; writes instead of waiting */
	unsigned flags;   /* comparison of a wait, CUDA's number */
};

struct sim_host_work {
	void (*fn)(void *);
	void *data;
	_Atomic int state;
};

/* A piece of GPU work. Times are nanoseconds of CLOCK_MONOTONIC. */
struct sim_work {
	enum sim_work_type type;
	uint32_t correlation; /* 0: submitted while no client listened */
	uint32_t device, context, stream;
	uint32_t graph; /* 0: not launched by a graph */
	uint64_t graph_node;
	uint64_t submit, start, end;
	bool reported; /* a forced flush delivered it while it ran */
	union {
		struct sim_kernel_work kernel;
		struct sim_copy_work copy;
		struct sim_set_work set;
		struct sim_event_work event;
		struct sim_host_work host;
		struct sim_value_work value;
		void *free;
	};
};

/* CUPTI's numbers for operations on memory pools. */
enum sim_pool_op { SIM_POOL_CREATED = 1, SIM_POOL_DESTROYED = 2, SIM_POOL_TRIMMED = 3 };

struct sim_pool_info {
	enum sim_pool_op op;
	uint32_t correlation, device;
	uint64_t address, size, threshold, used, keep; /* bytes */
};

struct sim_device_info {
	uint32_t id;
	const char *name;
	uint8_t uuid[16];
	uint64_t memory, bandwidth; /* bytes, kB/s */
	uint32_t multiprocessors, major, minor;
};

struct sim_context_info {
	uint32_t id, device, null_stream;
};

/* CUPTI's numbers for kinds of stream. */
enum sim_stream_kind { SIM_STREAM_DEFAULT = 1, SIM_STREAM_NON_BLOCKING = 2, SIM_STREAM_NULL = 3 };

struct sim_stream_info {
	uint32_t id, context, kind, correlation;
	int priority;
};

/* The functions that libcupti implements. The GPU's thread calls work and running. */
struct sim_client {
	void (*enter)(struct sim_frame *frame);
	void (*exit)(struct sim_frame *frame, int result);
	void (*work)(const struct sim_work *work, bool running);
	void (*context)(const struct sim_context_info *info);
	void (*stream)(const struct sim_stream_info *info);
	void (*pool)(const struct sim_pool_info *info);
};

struct sim_hook {
	uint32_t version, size;
	_Atomic(const struct sim_client *) client;
	void (*enter)(struct sim_frame *frame);
	void (*exit)(struct sim_frame *frame, int result);
	/* Hand every finished piece of work to the client; with running, also the work that
	 * runs now. Returns when that is done. */
	void (*drain)(bool running);
	/* Announce the existing objects. */
	int (*device)(int ordinal, struct sim_device_info *info);
	void (*contexts)(void (*each)(const struct sim_context_info *));
	void (*streams)(void (*each)(const struct sim_stream_info *));
	uint32_t (*context_id)(const void *handle); /* 0: no such context; NULL: the current one */
	uint32_t (*stream_id)(const void *handle);  /* 0: no such stream */
	uint32_t (*correlation)(void);               /* of the call that this thread is in, or 0 */
	bool (*started)(void);                       /* cuInit has returned */
	bool (*forked)(void);                        /* this is a forked child of the process that began */
	_Atomic uint32_t finalized; /* calls of cuptiFinalize */
	bool counts;         /* calls are counted, as CUDASIM_FINALIZE_CHECK and CUDASIM_CUPTI_STARVES need */
	_Atomic int inside;  /* calls in progress */
	_Atomic uint64_t entered; /* calls so far */
};

static inline void sim_frame_enter(struct sim_hook *hook, struct sim_frame *f, uint32_t domain, uint32_t cbid)
{
	f->live = false;
	f->counted = hook && hook->counts;
	if (f->counted) {
		atomic_fetch_add(&hook->entered, 1);
		atomic_fetch_add(&hook->inside, 1);
	}
	if (__builtin_expect(hook && atomic_load_explicit(&hook->client, memory_order_acquire) != NULL, 0)) {
		f->domain = domain;
		f->cbid = cbid;
		hook->enter(f);
	}
}

static inline int sim_frame_exit(struct sim_hook *hook, struct sim_frame *f, int result)
{
	if (__builtin_expect(f->live, 0))
		hook->exit(f, result);
	if (f->counted)
		atomic_fetch_sub(&hook->inside, 1);
	return result;
}

#endif
