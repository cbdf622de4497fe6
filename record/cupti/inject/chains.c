/*
 * The table of chains: the return addresses above a call, innermost first. Each different
 * chain has a number, which API records hold in its place, and is sent once. walk.c asks
 * for numbers inside CUDA calls: nothing there may wait or allocate. match.c has chains sent
 * before the first record with their number, and those sooner that are known to be of calls.
 *
 * How many addresses of a chain tell anything depends on its innermost one: the recorder
 * finds out and says so, since the rest only makes more chains.
 */
#include "chains.h"

#include <stdatomic.h>
#include <string.h>

#include "mem.h"
#include "queue.h"

#define PROBES 32  /* places in a table where an entry may be */
#define DEPTHS 4096u
#define DEPTH_SHIFT 56 /* above all bits of an address */
#define ADDRESS_BITS ((1ull << DEPTH_SHIFT) - 1)

struct chain {
	_Atomic uint64_t hash; /* of epoch and addresses; 0 marks a free entry */
	uint32_t epoch;
	_Atomic uint16_t count; /* of addresses; 0 until they are there */
	atomic_bool due;        /* to be sent soon */
	uint64_t address[CT_CHAIN_MAX];
};

static struct chain *chains; /* number N is chains[N] */
static _Atomic uint64_t *depths; /* by innermost address, in the upper bits; 0 marks a free entry */
static _Atomic uint32_t epoch = 1;
static atomic_bool any_due;
static bool sent[CT_CHAINS];

bool ct_chains_start(void)
{
	chains = ct_alloc(CT_CHAINS * sizeof *chains);
	depths = ct_alloc(DEPTHS * sizeof *depths);
	return chains && depths;
}

/* The epoch of chains that are found now. */
uint32_t ct_chain_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_relaxed);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

static uint64_t hash(uint32_t e, const uint64_t *addresses, uint32_t count)
{
	uint64_t h = mix(e, count);
	for (uint32_t i = 0; i < count; i++)
		h = mix(h, addresses[i]);
	h = mix(h, h >> 32);
	return h ? h : 1;
}

/*
 * The number of a chain, 0 when the table is full. Equal hashes stand for equal chains: among as
 * many as the table holds, two different ones meet once in 10^11 runs.
 */
uint32_t ct_chain_number(const uint64_t *addresses, uint32_t count, bool *fresh)
{
	uint32_t e = atomic_load_explicit(&epoch, memory_order_relaxed);
	uint64_t h = hash(e, addresses, count);
	*fresh = false;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t number = (uint32_t)(h + i) & (CT_CHAINS - 1);
		struct chain *c = &chains[number];
		uint64_t there = atomic_load_explicit(&c->hash, memory_order_relaxed);
		if (number == 0)
			continue;
		if (there == 0 && atomic_compare_exchange_strong(&c->hash, &there, h)) {
			c->epoch = e;
			memcpy(c->address, addresses, count * sizeof *addresses);
			atomic_store_explicit(&c->count, (uint16_t)count, memory_order_release);
			*fresh = true;
			return number;
		}
		if (there == h)
			return number;
	}
	return 0;
}

/* Has a chain sent, if it has not been; false when it is not complete yet, or there is no memory. */
bool ct_chain_send(uint32_t number)
{
	struct {
		struct ct_chain chain;
		uint64_t address[CT_CHAIN_MAX];
	} m = {.chain = {.head = {.kind = CT_REC_CALLER}, .id = number}};
	struct chain *c = &chains[number & (CT_CHAINS - 1)];
	if (sent[number & (CT_CHAINS - 1)])
		return true;
	m.chain.count = atomic_load_explicit(&c->count, memory_order_acquire);
	if (m.chain.count == 0)
		return false;
	size_t size = sizeof m.chain + m.chain.count * sizeof m.address[0];
	m.chain.head.size = (uint16_t)size;
	m.chain.epoch = c->epoch;
	memcpy(m.address, c->address, m.chain.count * sizeof m.address[0]);
	if (!ct_queue_definition(&m, size))
		return false;
	sent[number] = true;
	return true;
}

/* A chain that is to be sent soon; for every thread, inside CUDA calls. */
void ct_chain_due(uint32_t number)
{
	atomic_store_explicit(&chains[number].due, true, memory_order_relaxed);
	atomic_store_explicit(&any_due, true, memory_order_release);
}

/* Has the chains sent that are due. */
void ct_chains_send(void)
{
	if (!atomic_exchange(&any_due, false))
		return;
	for (uint32_t number = 1; number < CT_CHAINS; number++)
		if (atomic_exchange_explicit(&chains[number].due, false, memory_order_relaxed) && !ct_chain_send(number))
			ct_chain_due(number);
}

static uint32_t depth_slot(uint64_t innermost, uint32_t i)
{
	return (uint32_t)((mix(0, innermost) >> 32) + i) & (DEPTHS - 1);
}

/* How many addresses above and with this innermost one are of use; 0 when that is not known. */
uint32_t ct_chain_depth(uint64_t innermost)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t there = atomic_load_explicit(&depths[depth_slot(innermost, i)], memory_order_relaxed);
		if (there == 0)
			return 0;
		if ((there & ADDRESS_BITS) == innermost)
			return (uint32_t)(there >> DEPTH_SHIFT);
	}
	return 0;
}

void ct_chain_set_depth(uint64_t innermost, uint32_t depth)
{
	if (depth == 0 || depth > CT_CHAIN_MAX || innermost == 0 || innermost > ADDRESS_BITS)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		_Atomic uint64_t *at = &depths[depth_slot(innermost, i)];
		uint64_t there = atomic_load(at);
		if (there != 0 && (there & ADDRESS_BITS) != innermost)
			continue;
		atomic_store(at, (uint64_t)depth << DEPTH_SHIFT | innermost);
		return;
	}
}

/* The program has unloaded a library: from now on an address may mean another function. */
void ct_chains_unloaded(void)
{
	atomic_fetch_add(&epoch, 1);
}
