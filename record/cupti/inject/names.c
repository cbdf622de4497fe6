/*
 * The table of names: each is sent once and has a number, which records hold in its
 * place. translate.c and wanted.c ask for numbers, on any thread. CUPTI's pointers must
 * not stand for names, since an unloaded module's memory is used again: contents are
 * compared.
 */
#include "names.h"

#include <string.h>

#include "clock.h"
#include "lock.h"
#include "mem.h"
#include "queue.h"

#define BLOCK (64u << 10)

struct entry {
	uint64_t hash;
	const char *text;
	uint32_t length;
	uint32_t id; /* 0 marks a free entry */
};

static struct ct_lock lock;
static struct entry *table;
static uint32_t slots; /* a power of two */
static uint32_t last_id;
static char *block;
static size_t block_left, copies_left; /* bytes */

/* The table takes an eighth of memory, copies of the names the rest. */
bool ct_names_start(size_t memory)
{
	slots = 64;
	while (slots * 2 * sizeof *table <= memory / 8 && slots < CT_NAMES_MAX)
		slots *= 2;
	table = ct_alloc(slots * sizeof *table);
	copies_left = memory - memory / 8;
	return table != NULL;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

static uint64_t hash(const char *text, uint32_t length)
{
	uint64_t h = length, v;
	for (; length >= 8; length -= 8, text += 8) {
		memcpy(&v, text, 8);
		h = mix(h, v);
	}
	v = 0;
	memcpy(&v, text, length);
	return mix(h, v);
}

/* The entry of this content, or the free one where it belongs. */
static struct entry *find(const char *text, uint32_t length, uint64_t h)
{
	for (uint32_t i = (uint32_t)h & (slots - 1);; i = (i + 1) & (slots - 1)) {
		struct entry *e = &table[i];
		if (e->id == 0)
			return e;
		if (e->hash == h && e->length == length && memcmp(e->text, text, length) == 0)
			return e;
	}
}

/* Keeps a copy of text; NULL when there is no more room for names. */
static const char *keep(const char *text, uint32_t length)
{
	if (length > block_left) {
		if (copies_left < BLOCK)
			return NULL;
		char *fresh = ct_alloc(BLOCK);
		if (!fresh)
			return NULL;
		copies_left -= BLOCK;
		block = fresh;
		block_left = BLOCK;
	}
	char *copy = block;
	memcpy(copy, text, length);
	block += length;
	block_left -= length;
	return copy;
}

static bool add(struct entry *e, const char *text, uint32_t length, uint64_t h)
{
	if (last_id >= slots / 4 * 3)
		return false;
	const char *copy = keep(text, length);
	if (!copy || !ct_queue_string(last_id + 1, text, length))
		return false;
	e->hash = h;
	e->text = copy;
	e->length = length;
	e->id = ++last_id;
	return true;
}

/* The number of a name; 0 for no name, and for one that found no room. */
uint32_t ct_name_number(const char *text)
{
	if (!text)
		return 0;
	uint32_t length = (uint32_t)strnlen(text, CT_NAME_MAX);
	uint64_t h = hash(text, length);
	ct_lock(&lock);
	struct entry *e = find(text, length, h);
	if (e->id == 0 && add(e, text, length, h) && length == CT_NAME_MAX && text[length]) {
		uint64_t now = ct_now();
		ct_queue_lost(CT_LOST_CUT, &(struct ct_loss){.count = 1, .from = now, .to = now});
	}
	uint32_t id = e->id;
	ct_unlock(&lock);
	return id;
}
