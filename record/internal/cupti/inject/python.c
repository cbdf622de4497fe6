/*
 * The Python frames above a call, as a number: each different stack has one, which API records hold, and is sent once.
 * walk.c asks for numbers inside CUDA calls, on the calling thread and without the GIL. A thread's frames don't
 * change while it is inside C, so they are read as they are: the recorder has found the interpreter and says where it
 * keeps them (struct ct_python).
 *
 * All of this is somebody else's memory. So nothing of Python's is called but the function that returns the
 * thread's own state, and nothing is believed:
 * - a frame is read where it must be mapped: in a chunk of the thread's data stack, or on the thread's own C stack above
 *   us. For any other place the kernel is asked whether it can be read, as stack.c does. Where the walk before has found a frame, and
 *   other frames still lead there, it is alive;
 * - each read is one by guard.h. A fault ends the reading of frames for good;
 * - a frame counts only if its code is a code object, and its instruction is within that code;
 * - a code object is known by more than its address, which may be used again: by its first line and its version or, before
 *   3.12, by its texts, its size, and what its name and its line table say. These are looked at in each walk. Two code
 *   objects of one place that differ in the middle of a line table of more than 64 bytes alone are taken for one;
 * - an interpreter that ends frees frames of other threads: its flag is looked at again at each frame.
 *
 * The tables have a fixed size. Threads write to them without a lock: who sets an entry's key first has the entry, and
 * it counts when it is complete. walk.c has stacks sent before the first record with their number.
 */
#include "python.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "guard.h"
#include "load.h"
#include "queue.h"

#define PROBES 32u        /* places in a table where an entry may be */
#define STEPS 512u        /* frames that are looked at, those of the interpreter's own included */
#define CHUNKS 64u        /* of a thread's data stack */
#define CODE_PAGES 4096u  /* a power of two, as the next */
#define HINTS 4096u
#define CHUNK_MOST (1ull << 32)
#define FRAME_SIZE 120u   /* bytes of a frame that are read */
#define CODE_SIZE 208u    /* of a code object */
#define OWNED_BY_THREAD 0 /* who has a frame's memory; generators 1, frame objects 2 */
#define OWNED_BY_C 3      /* a frame of the interpreter's own; 4 is one, too */
#define OWNERS 5
#define CODE_TAG 3ull     /* bits that 3.14 and later may set in a frame's pointer to its code */
#define OBJECT_TYPE 8     /* offsets that all versions share */
#define OBJECT_SIZE 16
#define TEXT_LENGTH 16
#define TEXT_HASH 24
#define TEXT_STATE 32
#define BYTES_DATA 32
#define CODE_SHIFT 32     /* of the number of a code object in a frame's key */
#define MULTIPLIER 0x9e3779b97f4a7c15ull
#define RATIO 0xd6e8feb86659fd93ull /* of the factors of frames in a stack's hash: the innermost one's is 1 */

_Static_assert(CT_CODES_MAX <= UINT16_MAX, "a code object's number fits in a hint");

enum { FILLING, COMPLETE, UNUSABLE };

/* What a code object is known by. */
struct identity {
	uint64_t address, name, file, table; /* pointers */
	uint64_t own;                        /* what known_of says or, without a version, what contents says */
	uint32_t size, first_line;           /* instructions */
};

struct code {
	_Atomic uint64_t key; /* a hash of what it is known by; 0 marks a free entry */
	struct identity is;
	uint32_t record; /* where its CODE is in texts, bytes */
	_Atomic uint8_t state;
	bool sent;
};

_Static_assert(sizeof(struct code) == 64, "a code object is in one line of the cache");

struct stack {
	_Atomic uint64_t hash; /* of its frames; 0 marks a free entry */
	uint64_t frame;        /* its innermost one */
	uint32_t parent;
	atomic_bool complete;
	bool sent;
};

static _Atomic uintptr_t code_pages[CODE_PAGES]; /* have held a code object, and could be read */
static _Atomic uint16_t hints[HINTS];             /* the code object that was seen last at such an address */
static struct code *codes; /* number N is codes[N], as of stacks */
static struct stack *stacks;
static uint32_t code_mask, stack_mask;
static unsigned char *texts; /* CODEs, as they are sent */
static size_t texts_size;
static _Atomic size_t texts_used;

/* Where frames and code objects have what each walk looks at. */
struct shape {
	int32_t code, previous, instruction, unit, first_line, version;
};

static struct ct_python layout;
static struct shape shape;
static int32_t own_owner; /* where a frame has its owner; -1 where the interpreter has no frames of its own */
static const struct shape common = {0, 8, 56, 0, 68, 92}; /* 3.12 and later: numbers that the compiler knows are faster */
static bool is_common;
static void *(*gil_state)(void);
static atomic_bool on;
static _Atomic(const char *) ended; /* why frames are no longer read; not yet said */
static const char two_interpreters[] = "Python lines are no longer recorded: the process has more than one Python interpreter";

static bool twice_fits(size_t entries, size_t size, size_t memory)
{
	return entries * 2 * size <= memory;
}

/* Called once, before the timestamp callback; false when there can be no frames. */
bool ct_python_start(size_t memory)
{
	size_t n = 64, m = 64;
	while (m < CT_STACKS_MAX && twice_fits(m, sizeof *stacks, memory / 2))
		m *= 2;
	while (n < CT_CODES_MAX && twice_fits(n, sizeof *codes, memory / 4))
		n *= 2;
	if (memory < m * sizeof *stacks + n * sizeof *codes + 2 * CT_PYTHON_TABLE_MAX)
		return false;
	texts_size = memory - m * sizeof *stacks - n * sizeof *codes;
	stack_mask = (uint32_t)m - 1;
	code_mask = (uint32_t)n - 1;
	stacks = ct_alloc(m * sizeof *stacks);
	codes = ct_alloc(n * sizeof *codes);
	texts = ct_alloc(texts_size);
	return stacks && codes && texts;
}

/* Frames are read no longer; the recorder hears why. */
void ct_python_end(const char *why)
{
	if (atomic_exchange(&on, false))
		atomic_store(&ended, why);
}

bool ct_python_on(void)
{
	return atomic_load_explicit(&on, memory_order_acquire);
}

/*
 * The interpreter that the recorder has found; minor 0 says that there is a second one. True when frames are read from now
 * on. For one thread at a time.
 */
bool ct_python_use(const struct ct_python *p)
{
	if (p->minor == 0)
		ct_python_end(two_interpreters);
	if (p->minor == 0 || !texts || layout.minor != 0)
		return false;
	layout = *p;
	shape = (struct shape){p->frame_code, p->frame_previous, p->frame_instruction, p->instruction_unit,
			       p->code_first_line, p->code_version};
	own_owner = p->minor < 12 ? -1 : p->frame_owner;
	is_common = memcmp(&shape, &common, sizeof shape) == 0;
	uintptr_t f = (uintptr_t)p->gil_state;
	memcpy(&gil_state, &f, sizeof gil_state);
	ct_load_keep((void *)f, NULL);
	atomic_store(&on, true);
	return true;
}

/* As ct_walk_poll, which calls it. */
void ct_python_poll(void)
{
	const char *why = atomic_exchange(&ended, NULL);
	if (why)
		ct_queue_note(1, why);
}

/* A walk that is going on. */
struct walk {
	struct ct_python_thread *thread;
	uintptr_t stack_from, stack_to; /* frames are in there on the C stack above us; empty on another stack than the thread's own */
	uintptr_t state;                /* the thread's */
	uintptr_t chunk, chunk_end;     /* of the data stack: frames are in there, the last one was; empty as long as none was looked for */
	uint32_t bad;                   /* a read has faulted */
	/* Of the thread's frames: */
	uint32_t before; /* those of the walk before that may still be there */
	uint32_t fresh;  /* new ones */
	uint32_t kept;   /* those of before that are there */
	uint32_t same;   /* of these the outermost ones, which have not moved on */
};

static uint64_t word(struct walk *w, uintptr_t at)
{
	return ct_guarded8(at, &w->bad);
}

/* What runs for each frame of each call: it keeps in a register whether a read has faulted. */
#define HOT static inline __attribute__((always_inline))

/* Where something is not 0 while the interpreter ends. */
HOT const volatile uint64_t *finalizing_at(void)
{
	return (const volatile uint64_t *)(uintptr_t)(layout.runtime + (uint64_t)layout.finalizing);
}

static bool is_finalizing(void)
{
	return *finalizing_at() != 0;
}

/* The interpreter's state; 0 where there is none, or where it is not the only one. */
static uint64_t only_interpreter(void)
{
	const volatile uint64_t *all = (const volatile uint64_t *)(uintptr_t)(layout.runtime + (uint64_t)layout.interpreters);
	uint64_t newest = all[0], first = all[1];
	if (newest == first)
		return first;
	if (newest != 0 && first != 0)
		ct_python_end(two_interpreters);
	return 0;
}

/* Whether a page can be read. A page that held a frame of the thread's is asked about once: a live frame keeps it. */
static bool page_readable(struct walk *w, uintptr_t at)
{
	uintptr_t page = at >> 12, *known = &w->thread->pages[(page ^ page >> 6) % CT_PYTHON_PAGES];
	if (*known == page && page != 0)
		return true;
	if (!ct_readable(at))
		return false;
	*known = page;
	return true;
}

/* Whether a few bytes can be read, of what the thread's state leads to. */
static bool can_read(struct walk *w, uintptr_t at, uint32_t size)
{
	return at % 8 == 0 && at <= UINTPTR_MAX - size && page_readable(w, at) && page_readable(w, at + size - 1);
}

/* The bytes of a chunk of the data stack; 0 when it cannot be one. */
static uint64_t chunk_size(struct walk *w, uintptr_t chunk)
{
	uint64_t size = chunk != 0 && can_read(w, chunk, 16) ? word(w, chunk + 8) : 0;
	return size >= FRAME_SIZE && size <= CHUNK_MOST ? size : 0;
}

/* Moves to an older chunk of the data stack, with an address; false when none has it. */
static bool in_older_chunk(struct walk *w, uintptr_t at)
{
	uintptr_t chunk = w->chunk;
	for (uint32_t i = 0; i < CHUNKS; i++) {
		chunk = (uintptr_t)word(w, chunk ? chunk : w->state + (uintptr_t)layout.thread_chunk);
		uint64_t size = chunk_size(w, chunk);
		if (size == 0)
			return false;
		if (at - chunk >= size - FRAME_SIZE)
			continue;
		w->chunk = chunk;
		w->chunk_end = chunk + (uintptr_t)size - FRAME_SIZE;
		return true;
	}
	return false;
}

/* Whether a frame at an address is on the C stack. */
HOT bool on_stack(const struct walk *w, uintptr_t frame)
{
	return frame - w->stack_from < w->stack_to - w->stack_from && frame % 8 == 0;
}

/* Whether a frame may be read at an address, outside of the chunk that had the last one. */
__attribute__((noinline)) static bool reaches_elsewhere(struct walk *w, uintptr_t frame)
{
	if (on_stack(w, frame))
		return true;
	if (layout.thread_chunk >= 0 && in_older_chunk(w, frame))
		return true;
	return can_read(w, frame, FRAME_SIZE);
}

/* Whether a frame may be read at an address. */
HOT bool reaches(struct walk *w, uintptr_t frame)
{
	if (frame % 8 != 0 || frame > UINTPTR_MAX - FRAME_SIZE)
		return false;
	return frame - w->chunk < w->chunk_end - w->chunk || reaches_elsewhere(w, frame);
}

/* Whether all pages of some bytes can be read. */
static bool all_readable(uintptr_t at, uint64_t size)
{
	if (size > CHUNK_MOST || at > UINTPTR_MAX - size)
		return false;
	for (uintptr_t page = at & ~(uintptr_t)4095; page < at + size; page += 4096)
		if (!ct_readable(page))
			return false;
	return true;
}

#define TABLE_WORDS 8u /* of a line table that are looked at */

/*
 * Hashes a code object without a version: its name and line table (of a long one the ends and the length). Equal
 * contents mean the same code object. The factors differ so that the processor multiplies all words at once.
 */
HOT uint64_t contents(const struct identity *is, uint32_t *bad)
{
	static const uint64_t factors[TABLE_WORDS] = {
		0xd6e8feb86659fd93ull, 0xbf58476d1ce4e5b9ull, 0x94d049bb133111ebull, 0xff51afd7ed558ccdull,
		0xc4ceb9fe1a85ec53ull, 0x87c37b91114253d5ull, 0x4cf5ad432745937full, 0x52dce729a7d1c1a5ull,
	};
	uintptr_t table = (uintptr_t)is->table + BYTES_DATA;
	uint64_t size = ct_guarded8((uintptr_t)is->table + OBJECT_SIZE, bad);
	uint64_t h = ct_guarded8((uintptr_t)is->name + TEXT_HASH, bad) * MULTIPLIER ^ size;
	if (__builtin_expect(size < 8, 0)) /* what follows a shorter one is not its own */
		return h ^ (ct_guarded8(table, bad) & ((1ull << size * 8) - 1)) * factors[0];
	if (size > TABLE_WORDS * 8) {
#pragma GCC unroll 4
		for (uint32_t i = 0; i < TABLE_WORDS / 2; i++) {
			h += ct_guarded8(table + i * 8, bad) * factors[i];
			h += ct_guarded8(table + (uintptr_t)size - 8 - i * 8, bad) * factors[TABLE_WORDS / 2 + i];
		}
		return h;
	}
	for (uint32_t i = 0; i * 8 + 8 < size; i++)
		h += ct_guarded8(table + i * 8, bad) * factors[i];
	return h + ct_guarded8(table + (uintptr_t)size - 8, bad) * factors[TABLE_WORDS - 1];
}

#define NOT_KNOWN UINT64_MAX

/* Version and first line of a code object, NOT_KNOWN if it has no version. */
HOT uint64_t known_of(uintptr_t code, const struct shape *s, uint32_t *bad)
{
	if (s->version < 0)
		return NOT_KNOWN;
	uint64_t version = ct_guarded4(code + (uintptr_t)s->version, bad);
	uint64_t line = ct_guarded4(code + (uintptr_t)s->first_line, bad);
	return version != 0 && version != UINT32_MAX ? version << 32 | line : NOT_KNOWN;
}

static struct identity identify(struct walk *w, uintptr_t code)
{
	struct identity is = {
		.address = code,
		.name = word(w, code + (uintptr_t)layout.code_name),
		.file = word(w, code + (uintptr_t)layout.code_file),
		.table = word(w, code + (uintptr_t)layout.code_line_table),
		.own = known_of(code, &shape, &w->bad),
		.size = layout.code_first >= 0 ? ct_guarded4(code + OBJECT_SIZE, &w->bad) : 0,
		.first_line = ct_guarded4(code + (uintptr_t)layout.code_first_line, &w->bad),
	};
	if (is.own == NOT_KNOWN && all_readable((uintptr_t)is.name, TEXT_STATE) && all_readable((uintptr_t)is.table, BYTES_DATA + 8))
		is.own = contents(&is, &w->bad);
	return is;
}

/*
 * Whether a code object is the same as one before, of which known_of says the same. No two of an interpreter have the same version, and
 * what has that version and that line where the other one had it is that one: more need not be read.
 */
HOT bool is_same(uintptr_t code, const struct identity *is, uint64_t known, uint32_t *bad)
{
	if (known != NOT_KNOWN)
		return known == is->own;
	uint64_t differ = ct_guarded8(code + OBJECT_TYPE, bad) ^ layout.code_type;
	differ |= ct_guarded4(code + (uintptr_t)layout.code_first_line, bad) ^ is->first_line;
	differ |= ct_guarded8(code + (uintptr_t)layout.code_name, bad) ^ is->name;
	differ |= ct_guarded8(code + (uintptr_t)layout.code_file, bad) ^ is->file;
	differ |= ct_guarded8(code + (uintptr_t)layout.code_line_table, bad) ^ is->table;
	if (layout.code_first >= 0)
		differ |= ct_guarded4(code + OBJECT_SIZE, bad) ^ is->size;
	return differ == 0 && contents(is, bad) == is->own;
}

/* Equal keys stand for the same code, as in seen.c. */
static uint64_t key_of(const struct identity *is)
{
	uint64_t h = is->address * MULTIPLIER;
	h = (h ^ h >> 29 ^ is->name) * RATIO;
	h = (h ^ h >> 29 ^ is->file) * MULTIPLIER;
	h = (h ^ h >> 29 ^ is->table) * RATIO;
	h = (h ^ h >> 29 ^ is->own) * MULTIPLIER;
	h = (h ^ h >> 29 ^ (uint64_t)is->size << 32 ^ is->first_line) * RATIO;
	return (h ^ h >> 31) | 1;
}

/* Copies bytes that can be read. */
static void copy(struct walk *w, unsigned char *to, uintptr_t from, size_t size)
{
	for (; size >= 8; size -= 8, from += 8, to += 8) {
		uint64_t v = word(w, from);
		memcpy(to, &v, 8);
	}
	for (; size > 0; size--)
		*to++ = ct_guarded1(from++, &w->bad);
}

/* A str: where its characters are, and how many. */
struct text {
	uintptr_t at;
	uint64_t size; /* bytes */
	uint8_t width; /* bytes of a character */
};

/* Reads what a str says of itself; false when it is none, or its characters cannot be read. Of a long one an end is left out. */
static bool find_text(struct walk *w, uintptr_t object, uint64_t most, bool keep_end, struct text *t)
{
	if (object % 8 != 0 || !all_readable(object, TEXT_STATE + 8))
		return false;
	uint64_t length = word(w, object + TEXT_LENGTH), skipped = 0;
	uint32_t state = ct_guarded4(object + TEXT_STATE, &w->bad);
	uint8_t width = state >> 2 & 7;
	bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
	if (!compact || (width != 1 && width != 2 && width != 4) || length > 1u << 30)
		return false;
	if (length > most && keep_end)
		skipped = length - most;
	if (length > most)
		length = most;
	t->width = width;
	t->size = length * width;
	t->at = object + (uintptr_t)(ascii ? layout.text_ascii : layout.text_compact) + skipped * width;
	return all_readable(t->at, t->size);
}

/* Room in texts; NULL when they are full. */
static unsigned char *take_text(size_t size)
{
	size_t at = atomic_load_explicit(&texts_used, memory_order_relaxed);
	do {
		if (size > texts_size - at)
			return NULL;
	} while (!atomic_compare_exchange_weak(&texts_used, &at, at + size));
	return texts + at;
}

/* Copies what the recorder needs of a code object that is alive now. False without room, and when it cannot be read. */
static bool record_code(struct walk *w, const struct identity *is, uint32_t number, struct code *c)
{
	struct text name, file;
	uintptr_t table = (uintptr_t)is->table;
	if (!find_text(w, (uintptr_t)is->name, CT_PYTHON_NAME_MAX, false, &name) ||
	    !find_text(w, (uintptr_t)is->file, CT_PYTHON_FILE_MAX, true, &file) || !all_readable(table, BYTES_DATA))
		return false;
	uint64_t size = word(w, table + OBJECT_SIZE);
	bool no_table = size > CT_PYTHON_TABLE_MAX;
	if (no_table)
		size = 0;
	if (!all_readable(table + BYTES_DATA, size))
		return false;
	struct ct_code r = {
		.head = {.kind = CT_REC_PYTHON_FRAME},
		.id = number,
		.first_line = (int32_t)is->first_line,
		.name_size = (uint32_t)name.size,
		.file_size = (uint32_t)file.size,
		.table_size = (uint32_t)size,
		.name_width = name.width,
		.file_width = file.width,
		.no_table = no_table,
	};
	size_t whole = (sizeof r + name.size + file.size + size + 7) & ~(size_t)7;
	unsigned char *to = take_text(whole);
	if (!to)
		return false;
	r.head.size = (uint16_t)whole;
	c->record = (uint32_t)(to - texts);
	memcpy(to, &r, sizeof r);
	copy(w, to + sizeof r, name.at, name.size);
	copy(w, to + sizeof r + name.size, file.at, file.size);
	copy(w, to + sizeof r + name.size + file.size, table + BYTES_DATA, size);
	return !w->bad;
}

/* Whether an address is that of a code object. Of a page that has held one the kernel is not asked again. */
static bool is_code(struct walk *w, uintptr_t code)
{
	uintptr_t page = code >> 12;
	_Atomic uintptr_t *known = &code_pages[page % CODE_PAGES];
	if (atomic_load_explicit(known, memory_order_relaxed) != page || page == 0 || (code & 4095) > 4096 - CODE_SIZE) {
		if (!all_readable(code, CODE_SIZE))
			return false;
		atomic_store_explicit(known, page, memory_order_relaxed);
	}
	return word(w, code + OBJECT_TYPE) == layout.code_type;
}

/* The number of a code object that is new, perhaps; 0 when there is none for it. */
static uint32_t code_number(struct walk *w, const struct identity *is)
{
	uint64_t key = key_of(is);
	for (uint32_t i = 0; i < PROBES && !w->bad; i++) {
		uint32_t number = (uint32_t)((key >> 32) + i) & code_mask;
		struct code *c = &codes[number];
		uint64_t there = atomic_load_explicit(&c->key, memory_order_relaxed);
		if (number == 0)
			continue;
		if (there == 0 && atomic_compare_exchange_strong(&c->key, &there, key)) {
			c->is = *is;
			bool done = record_code(w, is, number, c);
			atomic_store_explicit(&c->state, done ? COMPLETE : UNUSABLE, memory_order_release);
			return done ? number : 0;
		}
		if (there == key) /* while another thread writes it, it has no number */
			return atomic_load_explicit(&c->state, memory_order_acquire) == COMPLETE ? number : 0;
	}
	return 0;
}

enum found { FRAME, NO_CODE, CUT, DEEP, LOST, ENDED };

/* Finds the number of the code object at an address, and how many instructions it has. */
__attribute__((noinline)) static enum found find_code(struct walk *w, uintptr_t code, _Atomic uint16_t *hint, uint32_t *number)
{
	if (code % 8 != 0 || !is_code(w, code))
		return CUT;
	struct identity is = identify(w, code);
	*number = code_number(w, &is);
	atomic_store_explicit(hint, (uint16_t)*number, memory_order_relaxed);
	return *number ? FRAME : LOST;
}

/* The same, at little cost for a code object that was seen before. Where one has been, memory has been, too. */
HOT enum found known_code(struct walk *w, uintptr_t code, uint32_t *number)
{
	_Atomic uint16_t *hint = &hints[(code >> 4 ^ code >> 16) % HINTS];
	*number = atomic_load_explicit(hint, memory_order_relaxed);
	const struct code *c = &codes[*number];
	if (atomic_load_explicit(&c->state, memory_order_acquire) == COMPLETE && c->is.address == code &&
	    is_same(code, &c->is, known_of(code, &shape, &w->bad), &w->bad))
		return FRAME;
	return find_code(w, code, hint, number);
}

/* A frame as the hash of a stack has it. */
static uint64_t mixed(uint64_t frame)
{
	uint64_t h = frame * MULTIPLIER;
	return (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull | 1;
}

/* The entry of a stack, found or made; 0 when there is no room. Equal hashes stand for equal stacks, as in seen.c. */
static uint32_t stack_entry(uint64_t hash, uint32_t parent, uint64_t frame, bool make)
{
	uint32_t slot = (uint32_t)(hash >> 40);
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t number = (slot + i) & stack_mask;
		struct stack *s = &stacks[number];
		uint64_t there = atomic_load_explicit(&s->hash, memory_order_acquire);
		if (number == 0)
			continue;
		if (there == hash)
			return number;
		if (there != 0)
			continue;
		if (!make)
			return 0;
		if (atomic_compare_exchange_strong(&s->hash, &there, hash)) {
			s->parent = parent;
			s->frame = frame;
			atomic_store_explicit(&s->complete, true, memory_order_release);
			return number;
		}
		if (there == hash)
			return number;
	}
	return 0;
}

/* What stands for the frames that are left out, as the hash of a stack has it. */
static uint64_t left_out_hash(uint32_t left_out)
{
	return left_out ? mixed(left_out) : 0;
}

/* The number of a stack that is new, perhaps: from its outermost frame on. */
static uint32_t add_stack(const struct ct_python_thread *t, uint32_t count, uint32_t left_out)
{
	uint64_t hash = left_out_hash(left_out);
	uint32_t number = left_out ? stack_entry(hash, 0, left_out, true) : 0;
	if (left_out && number == 0)
		return CT_PYTHON_LOST;
	for (uint32_t i = 1; i <= count; i++) {
		hash = t->numbers[i].hash;
		number = stack_entry(hash ? hash : 1, number, t->numbers[i].key, true);
		if (number == 0)
			return CT_PYTHON_LOST;
	}
	return number;
}

/* The instruction that a frame is at, as the frame has it. */
HOT uint64_t instruction_of(uintptr_t frame, const struct shape *s, uint32_t *bad)
{
	uintptr_t at = frame + (uintptr_t)s->instruction;
	return s->unit > 0 ? ct_guarded4(at, bad) : ct_guarded8(at, bad);
}

/* The same as an offset in its code; false when it is not in there. */
static bool find_offset(const struct ct_python_frame *f, uint64_t instructions, uint32_t *offset)
{
	int64_t found = (int64_t)(f->instruction - (f->code + (uint64_t)layout.code_first));
	if (layout.instruction_unit > 0) {
		found = (int64_t)(int32_t)f->instruction * layout.instruction_unit;
		instructions = 1u << 28;
	}
	if (found < -2 || found > (int64_t)(instructions * 2))
		return false;
	*offset = found < 0 ? 0 : (uint32_t)found;
	return true;
}

/* What the frame at f->at is; key is the frame as stacks have it. */
static enum found look_at(struct walk *w, struct ct_python_frame *f, uint64_t *key)
{
	uint32_t number, offset;
	enum found found;
	if (layout.frame_owner >= 0) {
		uint8_t owner = ct_guarded1(f->at + (uintptr_t)layout.frame_owner, &w->bad);
		if (owner >= OWNERS)
			return CUT;
		if (owner >= OWNED_BY_C && layout.minor >= 12)
			return NO_CODE;
	}
	f->code = word(w, f->at + (uintptr_t)shape.code) & ~CODE_TAG;
	f->instruction = instruction_of(f->at, &shape, &w->bad);
	if ((found = known_code(w, f->code, &number)) != FRAME)
		return found;
	if (!find_offset(f, codes[number].is.size, &offset))
		return CUT;
	f->version = (uint32_t)(known_of(f->code, &shape, &w->bad) >> 32);
	*key = (uint64_t)number << CODE_SHIFT | offset;
	return FRAME;
}

/* Where in a thread's frames the one at an address may be. */
static uint8_t *place(struct ct_python_thread *t, uintptr_t frame)
{
	return &t->places[(frame >> 4 ^ frame >> 12) % CT_PYTHON_PLACES];
}

/* The same of the walk before; 0 when it was not there. */
static uint32_t find_place(struct walk *w, uintptr_t frame)
{
	uint32_t i = *place(w->thread, frame);
	return i <= w->before && w->thread->frames[i].at == frame ? i : 0;
}

/* A frame is where it was, but has moved on, or is another one. */
__attribute__((noinline)) static enum found look_again(struct walk *w, uint32_t i)
{
	if (is_finalizing())
		return ENDED;
	w->same = i - 1;
	return look_at(w, &w->thread->frames[i], &w->thread->numbers[i].key);
}

/* The same elsewhere than on the C stack. */
__attribute__((noinline)) static bool may_be_own(struct walk *w, uintptr_t frame)
{
	return frame != 0 && reaches(w, frame);
}

/* The frame behind one of the interpreter's own, if it is one. */
HOT uintptr_t behind_own(struct walk *w, uintptr_t frame, const struct shape *s, uint32_t *bad)
{
	if (own_owner < 0 || !(on_stack(w, frame) || may_be_own(w, frame)) ||
	    ct_guarded1(frame + (uintptr_t)own_owner, bad) < OWNED_BY_C)
		return frame;
	return (uintptr_t)ct_guarded8(frame + (uintptr_t)s->previous, bad);
}

/* Whether the code that a frame had in the walk before is the one that is there now. */
HOT bool is_same_code(const struct ct_python_thread *t, const struct ct_python_frame *f, const struct shape *s, uint32_t *bad)
{
	if (s->version >= 0 && ct_guarded4((uintptr_t)f->code + (uintptr_t)s->version, bad) == f->version)
		return true;
	return f->version == UINT32_MAX && is_same((uintptr_t)f->code, &codes[t->numbers[f - t->frames].key >> CODE_SHIFT].is, NOT_KNOWN, bad);
}

/*
 * Follows frames that are where they were in the walk before, from frames[*at] on. Each one's address is known before it is
 * read, so the processor reads many at once. Behind those that are, *at is next, and *frame is what is there now.
 */
HOT enum found confirm(struct walk *w, uint32_t *at, uintptr_t *frame, const struct shape *s)
{
	const struct ct_python_frame *first = w->thread->frames, *f = first + *at;
	const volatile uint64_t *ends = finalizing_at();
	uint32_t bad = 0;
	enum found found = FRAME;
	uintptr_t next;
	do {
		uintptr_t code = (uintptr_t)(ct_guarded8((uintptr_t)f->at + (uintptr_t)s->code, &bad) & ~CODE_TAG);
		uint64_t in = instruction_of((uintptr_t)f->at, s, &bad);
		next = (uintptr_t)ct_guarded8((uintptr_t)f->at + (uintptr_t)s->previous, &bad);
		if (__builtin_expect(code != f->code || in != f->instruction || *ends != 0 || !is_same_code(w->thread, f, s, &bad), 0) &&
		    (found = look_again(w, (uint32_t)(f - first))) != FRAME)
			break;
		f--;
	} while ((next == f->at || (next = behind_own(w, next, s, &bad)) == f->at) && f > first);
	*frame = next;
	*at = (uint32_t)(f - first);
	w->bad |= bad;
	return found;
}

/* Adds a new frame; false when there is no room. Those of the walk before give way. */
static bool add_frame(struct walk *w, const struct ct_python_frame *f, uint64_t key)
{
	if (w->fresh == CT_PYTHON_DEPTH)
		return false;
	if (w->fresh + w->before >= CT_PYTHON_DEPTH)
		w->before = 0;
	uint32_t i = CT_PYTHON_DEPTH - w->fresh++;
	w->thread->frames[i] = *f;
	w->thread->numbers[i].key = key;
	return true;
}

/* Moves frames of a thread to another place. */
static void move(struct ct_python_thread *t, uint32_t to, uint32_t from, uint32_t count)
{
	memmove(&t->frames[to], &t->frames[from], count * sizeof t->frames[0]);
	memmove(&t->numbers[to], &t->numbers[from], count * sizeof t->numbers[0]);
}

/* Finds the thread's frames. At the end, frame is the one that could not be taken. */
static enum found collect(struct walk *w, uintptr_t *frame)
{
	struct ct_python_thread *t = w->thread;
	uintptr_t seen = 0; /* a frame of before: frames that repeat have no end */
	for (uint32_t step = 1; *frame != 0 && !w->bad; step++) {
		struct ct_python_frame f = {.at = *frame};
		uint64_t key = 0;
		enum found found = CUT;
		uint32_t from = find_place(w, *frame), to = from;
		if (from != 0) {
			found = is_common ? confirm(w, &to, frame, &common) : confirm(w, &to, frame, &shape);
			if (found == FRAME && to == 0 && *frame == t->frames[0].at) {
				w->kept = from;
				return FRAME;
			}
			w->before = t->left_out ? 0 : to;
			move(t, CT_PYTHON_DEPTH + 1 - w->fresh - (from - to), to + 1, from - to);
			w->fresh += from - to;
			if (found > NO_CODE)
				return found;
			continue;
		}
		if (*frame == seen || step > STEPS || !reaches(w, *frame))
			return CUT;
		found = look_at(w, &f, &key);
		if (is_finalizing())
			return ENDED;
		if (found > NO_CODE)
			return found;
		if (found == FRAME && !add_frame(w, &f, key))
			return DEEP;
		if ((step & (step - 1)) == 0)
			seen = *frame;
		*frame = (uintptr_t)word(w, *frame + (uintptr_t)shape.previous);
	}
	return FRAME;
}

/* Numbers the frames that were collected. */
static uint32_t number_frames(struct walk *w, uint32_t left_out)
{
	struct ct_python_thread *t = w->thread;
	uint32_t count = w->kept + w->fresh, same = w->same < w->kept ? w->same : w->kept;
	if (count != 0 && same == count && count == t->count && left_out == t->left_out)
		return t->number;
	move(t, w->kept + 1, CT_PYTHON_DEPTH + 1 - w->fresh, w->fresh);
	for (uint32_t i = w->kept + 1; i <= count; i++)
		*place(t, t->frames[i].at) = (uint8_t)i;
	uint64_t hash = same ? t->numbers[same].hash : left_out_hash(left_out);
	for (uint32_t i = same + 1; i <= count; i++)
		hash = t->numbers[i].hash = mixed(t->numbers[i].key) + RATIO * hash;
	if (count == 0 && !left_out)
		return CT_PYTHON_NONE;
	uint32_t number = stack_entry(hash ? hash : 1, 0, 0, false);
	return number ? number : add_stack(t, count, left_out);
}

/* The number of the stack whose innermost frame is given. */
static uint32_t number_of(struct walk *w, uintptr_t frame)
{
	struct ct_python_thread *t = w->thread;
	uint32_t number = CT_PYTHON_NONE;
	w->before = t->left_out && t->frames[t->count].at != frame ? 0 : t->count;
	enum found found = collect(w, &frame);
	uint32_t left_out = found == DEEP ? CT_LEFT_OUT_DEEP : found == CUT ? CT_LEFT_OUT_CUT : w->kept ? t->left_out : 0;
	if (w->bad)
		ct_python_end("Python lines are no longer recorded: reading them failed");
	else if (found == LOST)
		number = CT_PYTHON_LOST;
	else if (found != ENDED)
		number = number_frames(w, left_out);
	t->count = w->bad || number == CT_PYTHON_LOST || found == LOST || found == ENDED || found == CUT ? 0 : w->kept + w->fresh;
	t->number = number;
	t->left_out = t->count ? left_out : 0;
	if (w->kept == 0)
		t->frames[0].at = t->left_out ? frame : 0;
	return number;
}

/*
 * The number of the Python frames of the calling thread. inner is a frame of ours: the thread's stack is in use from there
 * on.
 */
uint32_t ct_python_number(struct ct_python_thread *t, const struct ct_home *home, uintptr_t inner)
{
	struct walk w = {.thread = t, .same = UINT32_MAX};
	if (!ct_python_on() || !ct_here() || is_finalizing())
		return CT_PYTHON_NONE;
	uint64_t interpreter = only_interpreter();
	uintptr_t state = interpreter ? (uintptr_t)gil_state() : 0;
	if (state == 0 || word(&w, state + (uintptr_t)layout.thread_interpreter) != interpreter ||
	    word(&w, state + (uintptr_t)layout.thread_id) != (uint64_t)pthread_self())
		return CT_PYTHON_NONE;
	w.state = state;
	if (inner >= home->low && inner < home->high - FRAME_SIZE) {
		w.stack_from = inner;
		w.stack_to = home->high - FRAME_SIZE;
	}
	uintptr_t frame = (uintptr_t)word(&w, state + (uintptr_t)layout.thread_frame);
	if (layout.thread_cframe >= 0 && frame != 0) {
		frame += (uintptr_t)layout.thread_cframe;
		if (!on_stack(&w, frame) && !can_read(&w, frame, 8))
			return CT_PYTHON_NONE;
		frame = (uintptr_t)word(&w, frame);
	}
	return number_of(&w, frame);
}

static bool send_code(uint32_t number)
{
	struct code *c = &codes[number & code_mask];
	struct ct_head head;
	if (number == 0 || c->sent)
		return true;
	memcpy(&head, texts + c->record, sizeof head);
	c->sent = ct_queue_definition(texts + c->record, head.size, "", 0);
	return c->sent;
}

static bool send_one(uint32_t number)
{
	struct stack *s = &stacks[number];
	struct ct_stack r = {
		.head = {CT_REC_PYTHON_STACK, sizeof r},
		.id = number,
		.parent = s->parent,
		.code = (uint32_t)(s->frame >> CODE_SHIFT),
		.offset = (int32_t)(uint32_t)s->frame,
	};
	s->sent = send_code(r.code) && ct_queue_definition(&r, sizeof r, "", 0);
	return s->sent;
}

/* Has a stack sent, and what it consists of; false when it is not complete yet, or there is no memory. */
bool ct_python_send(uint32_t number)
{
	static uint32_t unsent[CT_PYTHON_DEPTH + 1];
	uint32_t count = 0;
	while (number != 0 && !stacks[number & stack_mask].sent) {
		if (count > CT_PYTHON_DEPTH || !atomic_load_explicit(&stacks[number].complete, memory_order_acquire))
			return false;
		unsent[count++] = number;
		number = stacks[number].parent;
	}
	while (count > 0)
		if (!send_one(unsent[--count]))
			return false;
	return true;
}
