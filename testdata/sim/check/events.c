/* The rules between records of NVTX, memory and CUPTI's own costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define MANY 65536

static struct {
	uint32_t id, flags, tid;
	uint64_t time;
	const char *name, *domain;
} markers[MANY];

static struct {
	uint32_t op, correlation;
	uint64_t address, bytes;
} memory[MANY];

static size_t marker_count, memory_count, marks, ranges, overhead_kinds[16];

static void keep_marker(const CUptiMarker *m)
{
	if (m->objectKind != CUPTI_OBJECT_THREAD || m->object.id[0] != (uint32_t)getpid())
		fail("a marker of no thread of this process", m->id);
	if ((m->flags == CUPTI_MARKER_END) != (m->name == NULL))
		fail("a marker's name, flags", m->flags);
	marks += m->flags == CUPTI_MARKER_INSTANT;
	ranges += m->flags == CUPTI_MARKER_START;
	if (marker_count == MANY)
		return;
	markers[marker_count].id = m->id;
	markers[marker_count].flags = m->flags;
	markers[marker_count].time = m->timestamp;
	markers[marker_count].domain = m->domain;
	markers[marker_count++].name = m->name;
}

static void keep_memory(const CUptiMemory *m)
{
	if (memory_count == MANY)
		return;
	memory[memory_count].op = m->memoryOperationType;
	memory[memory_count].correlation = m->correlationId;
	memory[memory_count].address = m->address;
	memory[memory_count++].bytes = m->bytes;
	if (m->isAsync != (m->streamId != UINT32_MAX) || (m->isAsync && !m->pool.type))
		fail("memory in stream order, or not", m->address);
}

void events_keep(const uint32_t *record)
{
	const void *r = record;
	const CUptiOverhead *o = r;
	const CUptiName *n = r;
	switch (*record) {
	case CUPTI_KIND_MARKER:
		keep_marker(r);
		break;
	case CUPTI_KIND_MEMORY2:
		keep_memory(r);
		break;
	case CUPTI_KIND_NAME:
		if (!n->name || !*n->name)
			fail("a name that is none, object kind", n->objectKind);
		break;
	case CUPTI_KIND_OVERHEAD:
		overhead_kinds[o->overheadKind >> 16 & 15]++;
		if (o->start > o->end || !o->start || !o->object.id[1])
			fail("an overhead's times or thread", o->overheadKind);
		break;
	default:
		break;
	}
}

/* The start of a range comes before the end, with the same id and domain. */
static size_t check_markers(void)
{
	size_t open = 0;
	for (size_t i = 0; i < marker_count; i++) {
		size_t ends = 0, starts = 0;
		for (size_t k = 0; k < marker_count; k++) {
			if (markers[k].id != markers[i].id)
				continue;
			starts += markers[k].flags == CUPTI_MARKER_START;
			ends += markers[k].flags == CUPTI_MARKER_END;
			if (markers[k].flags == CUPTI_MARKER_END && markers[i].flags == CUPTI_MARKER_START &&
			    (markers[k].time < markers[i].time || markers[k].domain != markers[i].domain))
				fail("a range that ends before it starts, or in another domain", markers[i].id);
		}
		if (markers[i].flags != CUPTI_MARKER_INSTANT && (starts != 1 || ends > 1))
			fail("a range without one start and an end, id", markers[i].id);
		open += markers[i].flags == CUPTI_MARKER_START && !ends;
	}
	return open;
}

/* Released memory was allocated before, with as many bytes. */
static void check_memory(bool (*has_call)(uint32_t))
{
	for (size_t i = 0; i < memory_count; i++) {
		if (!has_call(memory[i].correlation))
			fail("memory without a call", memory[i].correlation);
		if (memory[i].op != 2)
			continue;
		size_t k = i;
		while (k-- > 0 && (memory[k].op != 1 || memory[k].address != memory[i].address))
			;
		if (k == SIZE_MAX || memory[k].bytes != memory[i].bytes)
			fail("memory released that was not allocated", memory[i].address);
	}
}

void events_check(bool (*has_call)(uint32_t correlation), const size_t *counts)
{
	size_t open = check_markers();
	if (counts[CUPTI_KIND_DRIVER] && counts[CUPTI_KIND_MEMORY2])
		check_memory(has_call);
	printf("events ranges=%zu marks=%zu open=%zu data=%zu names=%zu memory=%zu pools=%zu requests=%zu\n",
	       ranges, marks, open, counts[CUPTI_KIND_MARKER_DATA], counts[CUPTI_KIND_NAME], counts[CUPTI_KIND_MEMORY2],
	       counts[CUPTI_KIND_MEMORY_POOL], overhead_kinds[7]);
}
