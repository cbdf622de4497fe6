//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Python frames of a thread, read at a sample of it, or where PyTorch's allocator hands out memory: the programs run in
 * that thread, when its perf event fires, or at a probe. They read the interpreter's frames by the layout that user space
 * gives for the thread or its process (record/internal/pyframes). No read takes a page fault. Names are left to user
 * space, which reads them later, and takes them only from a code object that still has the identity that it had here.
 */
#include "ids.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_FRAMES 64
#define MAX_SKIPPED 64 /* frames of the interpreter's own in a stack */
#define MAX_STATES 256 /* threads of an interpreter that are looked through */
#define NONE 0xffffffffu
#define OWNER_C 3 /* and above */
#define CODE_TAG 3ull /* bits that CPython 3.14 and later may set in a frame's pointer to its code */
#ifdef __TARGET_ARCH_arm64
#define PTHREAD_TID 208 /* in glibc's struct pthread */
#else
#define PTHREAD_TID 720
#endif
#define STR_LENGTH 16 /* and the hash behind it */
#define BYTES_SIZE 16
#define BYTES_DATA 32
#define TABLE_END 32 /* bytes of a line table that are compared at each end */

/* A thread that is sampled, or a process whose allocator is probed. Places are offsets in bytes; NONE is a field that the version lacks. */
struct python_thread {
	u64 runtime; /* _PyRuntime; 0: no interpreter is known */
	u64 code_type;
	u64 state; /* the thread's state at the last sample, 0 if unknown */
	u32 tid;   /* in the process's own PID namespace; of a process its PID, as the recorder sees it */
	u32 finalizing, interpreters, threads;
	u32 next, id, native_id, frame, cframe;
	u32 code, previous, instruction, unit, owner, frame_size;
	u32 first, file, name, line_table, first_line, version, code_size;
};

struct python_frame {
	u64 code;
	u64 identity;
	u64 offset; /* of the instruction, bytes */
};

/* A sample. Only count frames of it are sent. */
struct python_sample {
	u64 time; /* ns, CLOCK_MONOTONIC */
	u32 thread;
	u16 count;
	u8 cut;	   /* there are more frames */
	u8 failed; /* the frames could not be read */
	struct python_frame frames[MAX_FRAMES];
};
#define HEAD __builtin_offsetof(struct python_sample, frames)

/*
 * What PyTorch's allocator reports: a block that it hands out or takes back, or that it found no memory. A sample of the
 * thread follows, whose Python frames are those of the moment: none where it takes a block back.
 */
struct torch_event {
	u64 time; /* ns, CLOCK_MONOTONIC */
	u64 address, bytes, allocated, reserved;
	u32 pid, tid; /* in the recorder's PID namespace */
	u32 device;
	u32 out_of_memory;
};

struct work {
	struct torch_event torch;
	struct python_sample sample; /* right behind it */
	u64 busy;
	u32 tid; /* of the thread that is read: here, since the kernel checks a loop that compares with an argument for long */
	u8 bytes[256 + 8]; /* a frame or a code object; a load of 8 bytes at the last place stays inside */
	u64 table[TABLE_END / 8];
};

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1); /* user space sets it */
	MAP_KEY(u32);
	MAP_VALUE(struct python_thread);
} python_threads SEC(".maps");

/*
 * A sample is taken in an interrupt, which may come while a probe reads frames. The kernel may also let another thread
 * run meanwhile. So the first one is for samples, and a probe takes one of the others.
 */
#define WORKS 4
struct {
	MAP_TYPE(MAP_PERCPU_ARRAY);
	MAP_ENTRIES(WORKS);
	MAP_KEY(u32);
	MAP_VALUE(struct work);
} python_work SEC(".maps");

struct {
	MAP_TYPE(MAP_RINGBUF);
	MAP_ENTRIES(1 << 20);
} python_samples SEC(".maps");

struct {
	MAP_TYPE(MAP_RINGBUF);
	MAP_ENTRIES(1 << 22);
} torch_events SEC(".maps");

/* Events for which torch_events had no room. */
struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(u64);
} torch_lost SEC(".maps");

/* States of the threads of processes: addresses, by slot << 32 | thread. They are looked at before they are believed. */
struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(4096);
	MAP_KEY(u64);
	MAP_VALUE(u64);
} python_states SEC(".maps");

/*
 * Identities of code objects, by slot << 48 ^ address, for probes, which are hit often. What a code object itself has
 * tells it from others, but for one whose parts lie where its own were.
 */
struct known_code {
	u64 own, identity;
};

struct {
	MAP_TYPE(MAP_LRU_HASH);
	MAP_ENTRIES(1 << 14);
	MAP_KEY(u64);
	MAP_VALUE(struct known_code);
} python_codes SEC(".maps");

static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

#define FAILED (~0ull)

/* The word at an address, FAILED if it cannot be read. */
INLINE u64 word(u64 at)
{
	u64 value;

	return read_user(&value, sizeof(value), (void *)at) ? FAILED : value;
}

/* Fields of what was read into bytes. */
#define FIELD64(bytes, at) (*(u64 *)((bytes) + ((at) & 255)))
#define FIELD32(bytes, at) (*(u32 *)((bytes) + ((at) & 255)))

INLINE u32 thread_of(struct python_thread *t, u64 state)
{
	u64 id;

	if (t->native_id != NONE)
		return word(state + t->native_id);
	id = word(state + t->id);
	return id == FAILED ? NONE : word(id + PTHREAD_TID);
}

/* An index has the slot of a thread or a process and, above, the number of the work. */
#define WORK_AT 16

INLINE struct python_thread *thread_at(u32 index)
{
	index &= (1 << WORK_AT) - 1;
	return map_lookup(&python_threads, &index);
}

INLINE struct work *work(u32 index)
{
	index >>= WORK_AT;
	return map_lookup(&python_work, &index);
}

/* The state of the thread: 0 if it has none, FAILED if that cannot be read. */
GLOBAL u64 find_state(u32 index)
{
	struct python_thread *t = thread_at(index);
	struct work *w = work(index);
	u64 at;
	u32 i;

	if (!t || !w)
		return FAILED;
	at = word(t->runtime + t->finalizing);
	if (at)
		return at == FAILED ? FAILED : 0;
	at = word(t->runtime + t->interpreters + 8); /* the first one */
	if (!at || at == FAILED)
		return at;
	at = word(at + t->threads);
	BOUNDED
	for (i = 0; i < MAX_STATES; i++) {
		if (!at || at == FAILED)
			return at;
		if (thread_of(t, at) == w->tid)
			return at;
		at = word(at + t->next);
	}
	return FAILED;
}

INLINE u64 innermost(struct python_thread *t, u64 state)
{
	u64 at = word(state + t->frame);

	if (at && at != FAILED && t->cframe != NONE)
		at = word(at + t->cframe);
	return at;
}

INLINE u64 mix(u64 sum, u64 value)
{
	sum = (sum ^ value) * 0x9e3779b97f4a7c15ull;
	return sum ^ sum >> 32;
}

#define NOT_HASHED (~0ull) /* the hash of a text that nobody has hashed yet: it changes the identity when somebody does */
#define NO_CODE 0 /* what a frame has is no code object */

/* What tells a code object from others, also from one that later lies where it was; see Walker.identity in record/internal/pyframes. */
GLOBAL u64 identify(u32 index, u64 code)
{
	struct python_thread *t = thread_at(index);
	struct work *w = work(index);
	u64 text[2], file, name, table, size, sum, key = (u64)index << 48 ^ code;
	struct known_code *known, now;
	u32 i, hashed;

	if (!t || !w || read_user(w->bytes, t->code_size & 255, (void *)code))
		return FAILED;
	if (FIELD64(w->bytes, 8) != t->code_type)
		return NO_CODE;
	file = FIELD64(w->bytes, t->file);
	name = FIELD64(w->bytes, t->name);
	table = FIELD64(w->bytes, t->line_table);
	sum = mix(mix(mix(0, file), name), table);
	size = FIELD32(w->bytes, t->first_line);
	if (t->version != NONE)
		size |= (u64)FIELD32(w->bytes, t->version) << 32;
	sum = mix(sum, size);
	known = index >> WORK_AT ? map_lookup(&python_codes, &key) : 0;
	if (known && known->own == sum)
		return known->identity;
	now.own = sum;
	if (read_user(text, sizeof(text), (void *)(file + STR_LENGTH)))
		return FAILED;
	hashed = text[1] != NOT_HASHED;
	sum = mix(mix(sum, text[0]), text[1]);
	if (read_user(text, sizeof(text), (void *)(name + STR_LENGTH)))
		return FAILED;
	hashed = hashed && text[1] != NOT_HASHED;
	sum = mix(mix(sum, text[0]), text[1]);
	size = word(table + BYTES_SIZE);
	sum = mix(sum, size);
	BOUNDED
	for (i = 0; i < TABLE_END / 8; i++)
		w->table[i] = 0;
	if (read_user(w->table, size < TABLE_END ? size & (TABLE_END - 1) : TABLE_END, (void *)(table + BYTES_DATA)))
		return FAILED;
	BOUNDED
	for (i = 0; i < TABLE_END / 8; i++)
		sum = mix(sum, w->table[i]);
	if (size > TABLE_END) {
		if (read_user(w->table, TABLE_END, (void *)(table + BYTES_DATA + size - TABLE_END)))
			return FAILED;
		BOUNDED
		for (i = 0; i < TABLE_END / 8; i++)
			sum = mix(sum, w->table[i]);
	}
	now.identity = sum;
	if (index >> WORK_AT && hashed)
		map_update(&python_codes, &key, &now, 0); /* without it the next one reads all again */
	return sum;
}

/* Adds the frame at an address to the sample, unless it has no code. It returns the address of its caller's. */
GLOBAL u64 add_frame(u32 index, u64 at)
{
	struct python_thread *t = thread_at(index);
	struct work *w = work(index);
	u64 code, instruction, previous, identity;
	struct python_frame *f;

	if (!t || !w || read_user(w->bytes, t->frame_size & 255, (void *)at))
		return FAILED;
	code = FIELD64(w->bytes, t->code) & ~CODE_TAG;
	instruction = FIELD64(w->bytes, t->instruction);
	previous = FIELD64(w->bytes, t->previous);
	if (t->owner != NONE && w->bytes[t->owner & 255] >= OWNER_C)
		return previous;
	identity = identify(index, code);
	if (identity == FAILED)
		return FAILED;
	if (identity == NO_CODE)
		return previous;
	f = &w->sample.frames[w->sample.count++ & (MAX_FRAMES - 1)];
	f->code = code;
	f->identity = identity;
	if (t->unit)
		f->offset = (s32)instruction > 0 ? (u64)(u32)instruction * t->unit : 0;
	else
		f->offset = instruction > code + t->first ? instruction - code - t->first : 0;
	return previous;
}

/* Reads the frames from the innermost one on. It reports whether they could be read. */
INLINE int walk(u32 index, struct work *w, u64 at)
{
	u32 i;

	BOUNDED
	for (i = 0; i < MAX_FRAMES + MAX_SKIPPED; i++) {
		if (!at || at == FAILED)
			return !at;
		if (w->sample.count >= MAX_FRAMES) {
			w->sample.cut = 1;
			return 1;
		}
		at = add_frame(index, at);
	}
	return 0;
}

/*
 * Reads the frames of a thread, whose state was at an address at the last time, 0 if unknown. It returns where the state
 * is now.
 */
INLINE u64 read_frames(u32 index, struct python_thread *t, struct work *w, u32 tid, u64 state)
{
	u64 at = 0;

	w->tid = tid;
	if (state && thread_of(t, state) == tid)
		at = innermost(t, state);
	if (!at || at == FAILED) { /* it may have got another state */
		at = find_state(index);
		state = at == FAILED ? 0 : at;
		if (at && at != FAILED)
			at = innermost(t, at);
	}
	if (!walk(index, w, at)) {
		w->sample.failed = 1;
		w->sample.count = 0;
	}
	return state;
}

INLINE void begin_sample(struct python_sample *s, u32 slot)
{
	s->time = ktime_ns();
	s->thread = slot;
	s->count = s->cut = s->failed = 0;
}

/* The bytes of the frames of a sample. */
INLINE u32 frames_size(struct python_sample *s)
{
	u32 n = s->count;

	return (n > MAX_FRAMES ? MAX_FRAMES : n) * sizeof(struct python_frame);
}

SEC("perf_event")
int read_python(void *ctx)
{
	u32 index = attach_cookie(ctx);
	struct python_thread *t = thread_at(index);
	struct work *w = work(0);

	if (!t || !w || !t->runtime)
		return 1; /* the sample stays */
	begin_sample(&w->sample, index);
	t->state = read_frames(index, t, w, t->tid, t->state);
	ringbuf_output(&python_samples, &w->sample, HEAD + frames_size(&w->sample), RINGBUF_NO_WAKEUP);
	return 1;
}

/* The cookie of a probe is the slot of the process, with this bit at c10::reportOutOfMemoryToProfiler. */
#define TORCH_OUT_OF_MEMORY (1ull << 32)
#define TORCH_CUDA 1 /* c10::DeviceType */

INLINE void send_torch(void *event, u32 size)
{
	u32 zero = 0;
	u64 *lost;

	if (ringbuf_output(&torch_events, event, size, RINGBUF_NO_WAKEUP) == 0)
		return;
	lost = map_lookup(&torch_lost, &zero);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* The arguments of c10::reportMemoryUsageToProfiler or c10::reportOutOfMemoryToProfiler. It reports whether it is of a GPU. */
INLINE int read_torch(struct pt_regs *ctx, u64 cookie, struct torch_event *e)
{
	u64 args[8], device;

	LOAD_LESS_REGISTERS(args, ctx);
	LOAD_MORE_REGISTERS(args, ctx);
	e->out_of_memory = cookie >> 32;
	if (e->out_of_memory) {
		e->address = 0;
		e->bytes = args[0];
		e->allocated = args[1];
		e->reserved = args[2];
		device = args[3];
	} else {
		e->address = args[0];
		e->bytes = args[1];
		e->allocated = args[2];
		e->reserved = args[3];
		device = args[4];
	}
	e->device = device >> 8 & 0xff;
	return (device & 0xff) == TORCH_CUDA;
}

INLINE int report_torch(struct pt_regs *ctx)
{
	u64 cookie = attach_cookie(ctx), id = current_id(), key, state, *known;
	struct {
		struct torch_event torch;
		u64 time;
		u32 thread, none; /* of a sample without frames */
	} plain;
	struct python_thread *t = thread_at(cookie);
	struct work *w = 0;
	u32 index, tid, i;

	if (!read_torch(ctx, cookie, &plain.torch) || !t || t->tid != id >> 32)
		return 0;
	plain.torch.time = plain.time = ktime_ns();
	plain.torch.pid = id >> 32;
	plain.torch.tid = id;
	plain.thread = cookie;
	plain.none = 0;
	index = (u32)cookie & ((1 << WORK_AT) - 1);
	if (t->runtime && (plain.torch.out_of_memory || (plain.torch.bytes && !(plain.torch.bytes >> 63)))) {
		BOUNDED
		for (i = 1; i < WORKS; i++) {
			w = work(i << WORK_AT);
			if (!w || !__sync_lock_test_and_set(&w->busy, 1))
				break;
			w = 0;
		}
		plain.none = w ? 0 : 1u << 24; /* failed */
		index |= i << WORK_AT;
	}
	if (!w) {
		send_torch(&plain, sizeof(plain));
		return 0;
	}
	tid = namespace_tid();
	key = cookie << 32 | tid;
	known = map_lookup(&python_states, &key);
	w->torch = plain.torch;
	begin_sample(&w->sample, cookie);
	state = read_frames(index, t, w, tid, known ? *known : 0);
	if (state && (!known || *known != state))
		map_update(&python_states, &key, &state, 0); /* without room it is looked for again */
	send_torch(&w->torch, sizeof(w->torch) + HEAD + frames_size(&w->sample));
	BARRIER;
	*(volatile u64 *)&w->busy = 0;
	return 0;
}

SEC("uprobe.multi")
int torch_multi(struct pt_regs *ctx)
{
	return report_torch(ctx);
}

SEC("uprobe")
int torch_single(struct pt_regs *ctx)
{
	return report_torch(ctx);
}
