/* Declarations that the files of the simulated driver share. */
#ifndef SIM_DRIVER_INTERNAL_H
#define SIM_DRIVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../api/cbid.h"
#include "../common/clock.h"
#include "../common/config.h"
#include "../include/cuda_sim.h"
#include "../include/hook.h"

/* An exported function: announces itself to the hook around call, which yields
 * the result. sim_frame_ is the call's frame. */
#define DRIVER(name, params, call) \
	SIM_EXPORT CUresult name params; \
	SIM_EXPORT CUresult name params \
	{ \
		struct sim_frame sim_frame_; \
		sim_frame_enter(&cudasim_hook, &sim_frame_, SIM_DRIVER, CBID_##name); \
		return sim_frame_exit(&cudasim_hook, &sim_frame_, (call)); \
	}

/* What CUPTI's callbacks show as the arguments of a call: a struct with a member for each. */
#define SIM_MEMBER1(a) __typeof__(a) a##_;
#define SIM_MEMBER2(a, ...) SIM_MEMBER1(a) SIM_MEMBER1(__VA_ARGS__)
#define SIM_MEMBER3(a, ...) SIM_MEMBER1(a) SIM_MEMBER2(__VA_ARGS__)
#define SIM_MEMBER4(a, ...) SIM_MEMBER1(a) SIM_MEMBER3(__VA_ARGS__)
#define SIM_MEMBER5(a, ...) SIM_MEMBER1(a) SIM_MEMBER4(__VA_ARGS__)
#define SIM_MEMBER6(a, ...) SIM_MEMBER1(a) SIM_MEMBER5(__VA_ARGS__)
#define SIM_SEVENTH(a, b, c, d, e, f, n, ...) n
#define SIM_MEMBERS(...) \
	SIM_SEVENTH(__VA_ARGS__, SIM_MEMBER6, SIM_MEMBER5, SIM_MEMBER4, SIM_MEMBER3, SIM_MEMBER2, SIM_MEMBER1, )(__VA_ARGS__)
#define SIM_ARGUMENTS(...) &(struct {SIM_MEMBERS(__VA_ARGS__)}){__VA_ARGS__}

/* A function that allocates or frees, with its arguments once more. */
#define DRIVER_SHOWN(name, params, arguments_, call) \
	DRIVER(name, params, (sim_frame_.arguments = SIM_ARGUMENTS arguments_, (call)))
#define DRIVER_SHOWN_PTSZ(name, params, arguments_, call) \
	DRIVER_PTSZ(name, params, (sim_frame_.arguments = SIM_ARGUMENTS arguments_, (call)))

/* Defines both spellings: `which` tells call what the default stream is. */
#define DRIVER_AS(name, params, meant, call) \
	SIM_EXPORT CUresult name params; \
	SIM_EXPORT CUresult name params \
	{ \
		const enum sim_default_stream which = meant; \
		struct sim_frame sim_frame_; \
		sim_frame_enter(&cudasim_hook, &sim_frame_, SIM_DRIVER, CBID_##name); \
		return sim_frame_exit(&cudasim_hook, &sim_frame_, (call)); \
	}
#define DRIVER_PTSZ(name, params, call) \
	DRIVER_AS(name, params, SIM_LEGACY, call) DRIVER_AS(name##_ptsz, params, SIM_PTDS, call)
#define DRIVER_PTDS(name, params, call) \
	DRIVER_AS(name, params, SIM_LEGACY, call) DRIVER_AS(name##_ptds, params, SIM_PTDS, call)

extern struct sim_hook cudasim_hook;

/* handle.c: handles live in slabs, so that any value can be checked safely. */
struct sim_slab {
	const size_t slot;
	const uint32_t max;
	_Atomic(char *) base;
	uint32_t used;
	void *free;
	pthread_mutex_t mu;
};

struct sim_handle {
	_Atomic bool live;
	void *next;
};

#define SIM_SLAB(type, count) {.slot = sizeof(type), .max = (count), .mu = PTHREAD_MUTEX_INITIALIZER}

void *sim_slab_get(struct sim_slab *slab); /* zeroed but for its handle; NULL when full */
void sim_slab_put(struct sim_slab *slab, void *slot);

/* Is p a live handle of the slab, whose slots have this size? */
static inline bool sim_slab_holds(struct sim_slab *slab, const void *p, size_t size)
{
	uintptr_t base = (uintptr_t)atomic_load_explicit(&slab->base, memory_order_acquire);
	uintptr_t offset = (uintptr_t)p - base;
	if (!base || offset >= size * slab->max || offset % size)
		return false;
	return atomic_load_explicit(&((struct sim_handle *)(uintptr_t)p)->live, memory_order_acquire);
}

#define sim_slab_has(slab, p) sim_slab_holds((slab), (p), sizeof *(p))

/* init.c */
bool sim_ready(void);
bool sim_started(void); /* cuInit was done, in this process */
bool sim_forked(void);
CUresult sim_init(unsigned flags);

/* hook.c */
uint32_t sim_correlation(void);
void sim_note_kernel(const char *name); /* the kernel that this call launches, for callbacks */
struct sim_block;
struct CUstream_st;
void sim_report_pool(enum sim_pool_op op, CUmemoryPool pool, uint64_t keep);
static inline const struct sim_client *sim_client(void)
{
	return atomic_load_explicit(&cudasim_hook.client, memory_order_acquire);
}

/* device.c, context.c */
struct CUctx_st {
	struct sim_handle handle;
	uint32_t id;
	CUdevice device;
	struct CUstream_st *null_stream;
};

extern struct sim_slab sim_contexts;
int sim_device_info(int ordinal, struct sim_device_info *info);
CUcontext sim_context_current(void);
CUresult sim_context_new(CUdevice device, CUcontext *out);
CUresult sim_context_wait(CUcontext ctx); /* for all its work */
bool sim_context_valid(CUcontext ctx);
void sim_each_context(void (*each)(const struct sim_context_info *));
uint32_t sim_context_id(const void *handle);

/* memory.c */
enum sim_memory { /* CUPTI's numbers */
	SIM_PAGEABLE = 1,
	SIM_PINNED = 2,
	SIM_DEVICE_MEMORY = 3,
	SIM_ARRAY = 4,
	SIM_MANAGED = 5,
};
struct sim_block {
	char *start;
	size_t size, mapped; /* mapped 0: the pages belong to somebody else */
	enum sim_memory kind;
	CUdevice device;
	CUcontext context;
	CUmemoryPool pool; /* NULL: not from a pool */
	unsigned flags;    /* of the call that made it */
};

static inline bool sim_on_device(uint8_t kind)
{
	return kind == SIM_DEVICE_MEMORY || kind == SIM_ARRAY || kind == SIM_MANAGED;
}

CUresult sim_memory_new(size_t size, enum sim_memory kind, CUmemoryPool pool, unsigned flags, void **out);
CUresult sim_memory_free(void *p, enum sim_memory kind);
CUresult sim_memory_drop(void *p); /* of any kind, from the GPU's thread */
bool sim_memory_find(const void *p, struct sim_block *out);
CUresult sim_memory_adopt(void *p, size_t size, enum sim_memory kind, unsigned flags); /* pages of others */
CUresult sim_memory_disown(void *p);
CUresult sim_memory_share(void *p, size_t *size, int *fd); /* moves a block's pages into a file */

/* pool.c */
struct CUmemPoolHandle_st {
	struct sim_handle handle;
	CUdevice device;
	char *base; /* its address */
	_Atomic uint64_t reserved, used, reserved_high, used_high, threshold;
	bool own; /* not a device's first */
};

void sim_pool_gives_back(CUmemoryPool pool, size_t size);

/* module.c */
struct CUfunc_st {
	struct sim_handle handle;
	const struct sim_kernel *kernel;
	struct CUmod_st *module;
	int dynamic_shared, carveout; /* set attributes */
	struct sim_launch shape;      /* for cuLaunch and cuLaunchGrid */
	char legacy_params[256];
};

bool sim_function_valid(CUfunction f);

/* stream.c */
#define SIM_RING 1024u /* outstanding work of a stream, as on a GPU: a launch waits for room */

struct CUstream_st {
	struct sim_handle handle;
	uint32_t id;
	unsigned flags;
	int priority;
	CUcontext ctx;
	pthread_mutex_t mu;           /* submitters */
	struct sim_work *ring;        /* SIM_RING slots */
	_Atomic uint64_t head;        /* next to submit */
	_Atomic uint64_t executed;    /* next to execute: GPU thread */
	_Atomic uint64_t retired;     /* next to retire: GPU thread */
	_Atomic uint64_t available;   /* simulated time at which all executed work has ended */
	_Atomic bool closed;          /* destroyed; freed when empty and unused */
	unsigned users;               /* threads in sim_engine_each; under the lock of the list of streams */
	struct CUgraph_st *capture;   /* graph that records instead of the GPU; under mu */
	bool capture_origin;
};

enum sim_default_stream { SIM_LEGACY, SIM_PTDS };

CUresult sim_stream_resolve(CUstream handle, enum sim_default_stream which, struct CUstream_st **out);
CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, uint32_t id, CUstream *out);
CUresult sim_stream_wait(struct CUstream_st *s);
void sim_stream_release(struct CUstream_st *s); /* by the GPU thread, when closed and empty */
void sim_stream_announce(const struct CUstream_st *s);
void sim_each_stream(void (*each)(const struct sim_stream_info *));
uint32_t sim_stream_id(const void *handle);

/* Submission: begin gives the slot to fill and holds the stream until commit. */
CUresult sim_submit_begin(struct CUstream_st *s, enum sim_work_type type, struct sim_work **out);
void sim_submit_commit(struct CUstream_st *s);
void sim_submit_abandon(struct CUstream_st *s); /* instead of commit */

/* event.c */
struct CUevent_st {
	struct sim_handle handle;
	unsigned flags;
	pthread_mutex_t mu;
	_Atomic uint64_t recorded, executed; /* number of recordings submitted and done */
	_Atomic uint64_t time;
	_Atomic(struct CUgraph_st *) capture;
	_Atomic bool closed;
	_Atomic uint32_t users; /* work in flight that names it */
};

void sim_event_executed(const struct sim_event_work *w, uint64_t time);
void sim_event_put(struct CUevent_st *e);
bool sim_event_valid(CUevent e);

/* set.c */
CUresult sim_set_describe(struct sim_set_work *w, const CUDA_MEMSET_NODE_PARAMS *p);

/* array.c */
struct CUarray_st {
	struct sim_handle handle;
	char *base;
	size_t width, height, depth; /* bytes, rows, slices */
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
};

bool sim_array_valid(CUarray a);

/* graph.c */
enum sim_node { /* CUDA's numbers */
	SIM_NODE_KERNEL, SIM_NODE_MEMCPY, SIM_NODE_MEMSET, SIM_NODE_HOST, SIM_NODE_GRAPH,
	SIM_NODE_WAIT = 6, SIM_NODE_RECORD, SIM_NODE_FREE = 11, SIM_NODE_VALUES,
};

struct CUgraphNode_st {
	struct sim_handle handle;
	struct CUgraph_st *graph;
	enum sim_node type;
	struct sim_work work;
	struct CUgraph_st *child;
	CUgraphNode *dependencies;
	size_t dependency_count;
	struct CUgraphNode_st *origin; /* of a clone's node */
};

struct CUgraph_st {
	struct sim_handle handle;
	uint32_t id;
	struct CUgraphNode_st **nodes; /* in an order that the dependencies allow */
	size_t count, room;
};

struct sim_exec_node {
	CUgraphNode from;
	struct sim_work work; /* points into itself: never moved */
};

struct CUgraphExec_st {
	struct sim_handle handle;
	uint32_t id;
	struct sim_exec_node **nodes;
	size_t count, room;
	uint32_t traced; /* 1 + calls of cuptiFinalize before its last launch with CUPTI; 0 without one */
};

CUresult sim_graph_new(CUgraph *out);
CUresult sim_graph_destroy(CUgraph g);
CUresult sim_graph_clone(CUgraph *out, CUgraph g);
bool sim_graph_valid(CUgraph g);
bool sim_node_valid(CUgraphNode n);
bool sim_exec_valid(CUgraphExec e);
CUresult sim_node_copy(struct sim_work *to, const struct sim_work *from);
/* A new node that depends on count others; on the last one where dependencies is NULL and count 1. */
CUgraphNode sim_graph_node(CUgraph g, enum sim_node type, const CUgraphNode *dependencies, size_t count);
struct sim_work *sim_graph_append(struct CUgraph_st *g, enum sim_work_type type);
void sim_graph_pop(struct CUgraph_st *g); /* takes the last node back */

/* launch.c */
CUresult sim_kernel_fill(struct sim_kernel_work *w, const struct sim_kernel *kernel, const struct sim_launch *launch,
			 void **params, void **extra);
CUresult sim_launch_check(CUfunction f, const struct sim_launch *l);
CUresult sim_kernel_copy(struct sim_kernel_work *to, const struct sim_kernel_work *from);
void sim_work_clear(struct sim_work *w); /* frees what the work owns */

/* engine.c */
CUresult sim_engine_start(void);
void sim_engine_add(struct CUstream_st *s);
void sim_engine_kick(void);   /* new work; cheap while the GPU thread is awake */
void sim_engine_hurry(void);  /* look at the streams now */
void sim_engine_drain(bool running);
/* Waits until counter >= target, hurrying the GPU thread. */
void sim_engine_wait(_Atomic uint64_t *counter, uint64_t target);
void sim_engine_wait_room(struct CUstream_st *s);
void sim_engine_each(void (*fn)(struct CUstream_st *, void *), void *arg);
void sim_sleep_until(uint64_t time);

/* perform.c */
uint64_t sim_work_duration(const struct sim_work *w);
void sim_work_perform(struct sim_work *w);

/* hostfn.c: host functions run on a thread of their own. */
enum { SIM_HOST_NEW, SIM_HOST_RUNNING, SIM_HOST_DONE };
void sim_host_start(struct sim_host_work *w);
CUresult sim_host_submit(CUstream stream, CUhostFn fn, void *data, enum sim_default_stream which);

#endif
