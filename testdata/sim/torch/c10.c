/*
 * What of libc10 tells of memory, under PyTorch's exported names and with its binary interface, and a caching allocator
 * that calls it as PyTorch's does: a block comes from a segment that the allocator has, or from a new one. It keeps its
 * segments. Sizes are rounded up to 512 bytes. There is memory for SIM_C10_BYTES bytes of segments of each device, 1 GiB
 * without.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))

enum { CPU, CUDA };
#define DEVICES 4
#define BLOCKS 65536
#define SEGMENT (2 << 20)

/* c10::Device. */
struct device {
	int8_t type, index;
};

API __attribute__((noinline)) void sim_c10_usage(void *block, int64_t bytes, size_t allocated, size_t reserved,
	struct device device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
API __attribute__((noinline)) void sim_c10_usage(void *block, int64_t bytes, size_t allocated, size_t reserved,
	struct device device)
{
	__asm__ volatile("" : : "r"(block), "r"(bytes), "r"(allocated), "r"(reserved), "r"((int)device.type) : "memory");
}

API __attribute__((noinline)) void sim_c10_out_of_memory(int64_t bytes, size_t allocated, size_t reserved,
	struct device device) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
API __attribute__((noinline)) void sim_c10_out_of_memory(int64_t bytes, size_t allocated, size_t reserved,
	struct device device)
{
	__asm__ volatile("" : : "r"(bytes), "r"(allocated), "r"(reserved), "r"((int)device.type) : "memory");
}

struct block {
	uint64_t address, bytes;
	int held;
};

static struct allocator {
	struct block blocks[BLOCKS];
	unsigned count;
	uint64_t allocated, reserved, next;
} allocators[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t limit(void)
{
	const char *said = getenv("SIM_C10_BYTES");
	return said ? strtoull(said, NULL, 10) : 1ull << 30;
}

/* The smallest free block of enough bytes, which is split; a new segment if there is none. */
static struct block *find(struct allocator *a, uint64_t bytes, int device)
{
	struct block *best = NULL;
	for (unsigned i = 0; i < a->count; i++) {
		struct block *b = &a->blocks[i];
		if (!b->held && b->bytes >= bytes && (!best || b->bytes < best->bytes))
			best = b;
	}
	if (!best) {
		uint64_t segment = (bytes + SEGMENT - 1) / SEGMENT * SEGMENT;
		if (a->reserved + segment > limit() || a->count == BLOCKS)
			return NULL;
		best = &a->blocks[a->count++];
		best->address = 0x700000000000 + ((uint64_t)device << 40) + a->next;
		best->bytes = segment;
		a->next += segment;
		a->reserved += segment;
	}
	if (best->bytes > bytes && a->count < BLOCKS) {
		a->blocks[a->count++] = (struct block){best->address + bytes, best->bytes - bytes, 0};
		best->bytes = bytes;
	}
	return best;
}

/* Hands out a block, 0 without memory. */
API uint64_t sim_c10_malloc(uint64_t bytes, int device);
API uint64_t sim_c10_malloc(uint64_t bytes, int device)
{
	struct allocator *a = &allocators[device];
	struct device d = {CUDA, (int8_t)device};
	uint64_t address = 0;
	bytes = (bytes + 511) / 512 * 512;
	pthread_mutex_lock(&lock);
	struct block *b = find(a, bytes, device);
	if (b) {
		b->held = 1;
		address = b->address;
		a->allocated += b->bytes;
		sim_c10_usage((void *)address, (int64_t)b->bytes, a->allocated, a->reserved, d);
	} else {
		sim_c10_out_of_memory((int64_t)bytes, a->allocated, a->reserved, d);
	}
	pthread_mutex_unlock(&lock);
	return address;
}

/* Takes a block back. */
API void sim_c10_free(uint64_t address, int device);
API void sim_c10_free(uint64_t address, int device)
{
	struct allocator *a = &allocators[device];
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < a->count; i++) {
		struct block *b = &a->blocks[i];
		if (b->held && b->address == address) {
			b->held = 0;
			a->allocated -= b->bytes;
			sim_c10_usage((void *)address, -(int64_t)b->bytes, a->allocated, a->reserved,
				(struct device){CUDA, (int8_t)device});
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

/* Memory of the host, which PyTorch's allocator of the CPU reports. */
API void sim_c10_host(uint64_t address, int64_t bytes);
API void sim_c10_host(uint64_t address, int64_t bytes)
{
	sim_c10_usage((void *)address, bytes, (uint64_t)bytes, 0, (struct device){CPU, -1});
}

/* What a device's allocator has handed out, and has of the device. */
API uint64_t sim_c10_allocated(int device);
API uint64_t sim_c10_allocated(int device)
{
	return allocators[device].allocated;
}

API uint64_t sim_c10_reserved(int device);
API uint64_t sim_c10_reserved(int device)
{
	return allocators[device].reserved;
}
