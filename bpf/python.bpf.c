//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Python frames of a thread, read at a sample of it: the program runs in the sampled thread, when its perf event fires.
 * It reads the interpreter's frames by the layout that user space gives for the thread (record/internal/pyframes). No read takes
 * a page fault. Names are left to user space, which reads them later, and takes them only from a code object that still
 * has the identity that it had here.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_FRAMES 64
#define MAX_SKIPPED 64 /* frames of the interpreter's own in a stack */
#define MAX_STATES 256 /* threads of an interpreter that are looked through */
#define NONE 0xffffffffu
#define OWNER_C 3
#define PTHREAD_TID 720 /* in glibc's struct pthread */
#define STR_LENGTH 16 /* and the hash behind it */
#define BYTES_SIZE 16
#define BYTES_DATA 32
#define TABLE_END 32 /* bytes of a line table that are compared at each end */

/* A thread that is sampled. Places are offsets in bytes; NONE is a field that the version lacks. */
struct python_thread {
	u64 runtime; /* _PyRuntime; 0: no interpreter is known */
	u64 code_type;
	u64 state; /* the thread's state at the last sample, 0 if unknown */
	u32 tid;   /* in the process's own PID namespace */
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

struct work {
	struct python_sample sample;
	u8 bytes[256 + 8]; /* a frame or a code object; a load of 8 bytes at the last place stays inside */
	u64 table[TABLE_END / 8];
};

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1); /* user space sets it */
	MAP_KEY(u32);
	MAP_VALUE(struct python_thread);
} python_threads SEC(".maps");

struct {
	MAP_TYPE(MAP_PERCPU_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(struct work);
} python_work SEC(".maps");

struct {
	MAP_TYPE(MAP_RINGBUF);
	MAP_ENTRIES(1 << 20);
} python_samples SEC(".maps");

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

INLINE struct python_thread *thread_at(u32 index)
{
	return map_lookup(&python_threads, &index);
}

INLINE struct work *work(void)
{
	u32 zero = 0;

	return map_lookup(&python_work, &zero);
}

/* The state of the thread: 0 if it has none, FAILED if that cannot be read. */
GLOBAL u64 find_state(u32 index)
{
	struct python_thread *t = thread_at(index);
	u64 at;
	u32 i;

	if (!t)
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
		if (thread_of(t, at) == t->tid)
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

#define NO_CODE 0 /* what a frame has is no code object */

/* What tells a code object from others, also from one that later lies where it was; see Walker.identity in record/internal/pyframes. */
GLOBAL u64 identify(u32 index, u64 code)
{
	struct python_thread *t = thread_at(index);
	struct work *w = work();
	u64 text[2], file, name, table, size, sum;
	u32 i;

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
	if (read_user(text, sizeof(text), (void *)(file + STR_LENGTH)))
		return FAILED;
	sum = mix(mix(sum, text[0]), text[1]);
	if (read_user(text, sizeof(text), (void *)(name + STR_LENGTH)))
		return FAILED;
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
	return sum;
}

/* Adds the frame at an address to the sample, unless it has no code. It returns the address of its caller's. */
GLOBAL u64 add_frame(u32 index, u64 at)
{
	struct python_thread *t = thread_at(index);
	struct work *w = work();
	u64 code, instruction, previous, identity;
	struct python_frame *f;

	if (!t || !w || read_user(w->bytes, t->frame_size & 255, (void *)at))
		return FAILED;
	code = FIELD64(w->bytes, t->code);
	instruction = FIELD64(w->bytes, t->instruction);
	previous = FIELD64(w->bytes, t->previous);
	if (t->owner != NONE && w->bytes[t->owner & 255] == OWNER_C)
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

SEC("perf_event")
int read_python(void *ctx)
{
	u32 index = attach_cookie(ctx), n;
	struct python_thread *t = thread_at(index);
	struct work *w = work();
	u64 at = 0;

	if (!t || !w || !t->runtime)
		return 1; /* the sample stays */
	w->sample.time = ktime_ns();
	w->sample.thread = index;
	w->sample.count = w->sample.cut = w->sample.failed = 0;
	if (t->state && thread_of(t, t->state) == t->tid)
		at = innermost(t, t->state);
	if (!at || at == FAILED) { /* it may have got another state */
		at = find_state(index);
		t->state = at == FAILED ? 0 : at;
		if (at && at != FAILED)
			at = innermost(t, at);
	}
	if (!walk(index, w, at))
		w->sample.failed = 1;
	n = w->sample.failed ? 0 : w->sample.count;
	w->sample.count = n;
	if (n > MAX_FRAMES)
		n = MAX_FRAMES;
	ringbuf_output(&python_samples, &w->sample, HEAD + n * sizeof(struct python_frame), RINGBUF_NO_WAKEUP);
	return 1;
}
