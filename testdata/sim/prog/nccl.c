/*
 * Collectives as NCCL makes them: ranges of the NVTX domain "NCCL" with registered names and extended payloads, kernels
 * that are launched in the call, or at the end of a group. In each round
 *
 *   an all-reduce of 1 MiB; a group of two all-gathers of 2 MiB; a group of an all-reduce of 4 MiB and, of another
 *   communicator, a broadcast of 8 MiB, each with a kernel; a send and a receive of 16 MiB, one kernel
 *
 * Payloads are those of NCCL since 2.26, or (-f 1) before, or (-f 2) with a count of calls, or (-f 3) nothing that NCCL
 * would write. All processes have the same two communicators; RANK and WORLD_SIZE tell the place in them.
 * -x N registers so many other names first. -s N makes N rounds more, of an all-reduce of the other communicator on the
 * same stream and one of the first communicator on another stream. -w FILE then opens FILE, which may take its time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels.h"

#define WORK_KERNEL "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"
#include "nvtx_sim.h"
#include "options.h"
#include "work.h"

enum form { HASH, OLD, COUNT, BROKEN };

#define WORLD 0xfe0b4ef3716d7af0u
#define PART 0xccd1b5f98467a3b9u
#define MIB ((uint64_t)1 << 20)

struct payload {
	uint64_t schema;
	size_t size;
	const void *data;
};

static enum form form;
static nvtxDomainHandle_t domain, other;
static struct work work, beside;
static long calls; /* with a payload */

static nvtxStringHandle_t registered(const char *name)
{
	static struct {
		const char *name;
		nvtxStringHandle_t handle;
	} all[16];
	size_t i = 0;
	while (all[i].name && strcmp(all[i].name, name) != 0)
		i++;
	if (!all[i].name) {
		all[i].handle = nvtxDomainRegisterStringA(domain, name);
		all[i].name = name;
	}
	return all[i].handle;
}

static nvtxEventAttributes_t named(const char *name)
{
	return (nvtxEventAttributes_t){
		.version = 3, .size = sizeof(nvtxEventAttributes_t), .messageType = NVTX_MESSAGE_REGISTERED,
		.message.registered = registered(name),
	};
}

static void push(const char *name, const void *data, size_t size)
{
	struct payload p = {16777221, size, data};
	nvtxEventAttributes_t a = named(name);
	a.payloadType = (int32_t)0xDFBD0009;
	a.reserved0 = 1;
	a.payload.ullValue = (uint64_t)(uintptr_t)&p;
	nvtxDomainRangePushEx(other, &a); /* not NCCL's */
	nvtxDomainRangePop(other);
	nvtxDomainRangePushEx(domain, &a);
	calls++;
}

/* Pushes with what must not be read. */
static void push_broken(const char *name)
{
	static const uint64_t words[3] = {WORLD, MIB, 0};
	static const struct payload odd[] = {
		{0, 0, words}, {0, 4, words}, {0, 12, words}, {0, 65, words}, {0, SIZE_MAX, (void *)8}, {0, 24, NULL},
	};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		nvtxEventAttributes_t a = named(name);
		a.payloadType = (int32_t)0xDFBD0009;
		a.reserved0 = 1;
		a.payload.ullValue = (uint64_t)(uintptr_t)&odd[i];
		nvtxDomainRangePushEx(domain, &a);
		nvtxDomainRangePop(domain);
		a.reserved0 = 2;
		nvtxDomainRangePushEx(domain, &a);
		nvtxDomainRangePop(domain);
	}
	nvtxEventAttributes_t a = named(name);
	a.payloadType = (int32_t)0xDFBD0009;
	a.reserved0 = 1;
	a.payload.ullValue = 1; /* no address */
	nvtxDomainRangePushEx(domain, &a);
}

/* A call's range begins. number is a root, a peer or an operation; of a call without one, -1. */
static void begin(const char *name, uint64_t communicator, uint64_t bytes, int number)
{
	static uint64_t count;
	uint64_t since[3] = {communicator, bytes, (uint64_t)(uint32_t)number | (uint64_t)0xdead << 32};
	uint64_t before[2] = {bytes, since[2]}, counted[3] = {count++, bytes, since[2]};
	size_t more = number < 0 ? 0 : sizeof since[0];
	if (form == HASH)
		push(name, since, 16 + more);
	else if (form == OLD)
		push(name, before, 8 + more);
	else if (form == COUNT)
		push(name, counted, 16 + more);
	else
		push_broken(name);
}

static void call(const char *name, uint64_t communicator, uint64_t bytes, int number)
{
	begin(name, communicator, bytes, number);
	nvtxDomainRangePop(domain);
}

static void group_starts(void)
{
	nvtxEventAttributes_t a = named("ncclGroupStart");
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
}

static void group_ends(long launches)
{
	nvtxEventAttributes_t a = named("ncclGroupEnd");
	nvtxDomainRangePushEx(domain, &a);
	work_launch(&work, launches);
	nvtxDomainRangePop(domain);
}

static void round_of_calls(void)
{
	begin("ncclAllReduce", WORLD, MIB, 0);
	work_launch(&work, 1);
	nvtxDomainRangePop(domain);

	group_starts();
	call("ncclAllGather", WORLD, 2 * MIB, -1);
	call("ncclAllGather", WORLD, 2 * MIB, -1);
	group_ends(1);

	group_starts();
	call("ncclAllReduce", WORLD, 4 * MIB, 0);
	call("ncclBroadcast", PART, 8 * MIB, 0);
	group_ends(2);

	group_starts();
	call("ncclSend", WORLD, 16 * MIB, 1);
	call("ncclRecv", WORLD, 16 * MIB, 1);
	group_ends(1);
}

static void all_reduce(struct work *on, uint64_t communicator)
{
	begin("ncclAllReduce", communicator, MIB, 0);
	work_launch(on, 1);
	nvtxDomainRangePop(domain);
}

static int shared_rounds(long n)
{
	if (n == 0)
		return 0;
	work_begin(&beside);
	for (long i = 0; i < n; i++) {
		all_reduce(&work, PART);
		all_reduce(&beside, WORLD);
	}
	return work_end(&beside);
}

static void destroy(uint64_t communicator, int ranks, int rank)
{
	struct {
		uint64_t hash;
		int ranks, rank, device;
	} since = {communicator, ranks, rank, 0};
	const int before[3] = {rank, ranks, 0};
	if (form == HASH)
		push("ncclCommDestroy", &since, sizeof since);
	else
		push("ncclCommDestroy", before, sizeof before);
	nvtxDomainRangePop(domain);
}

static int environment(const char *name, int without)
{
	const char *value = getenv(name);
	return value ? atoi(value) : without;
}

int main(int argc, char **argv)
{
	form = (enum form)option_number(argc, argv, "-f", HASH, 0);
	long n = option_number(argc, argv, "-n", 10, 1);
	int rank = environment("RANK", 0), ranks = environment("WORLD_SIZE", 2);
	domain = nvtxDomainCreateA("NCCL");
	other = nvtxDomainCreateA("NCCL too");
	for (long i = option_number(argc, argv, "-x", 0, 0); i > 0; i--) {
		char name[32];
		snprintf(name, sizeof name, "ncclOther%ld", i);
		nvtxDomainRegisterStringA(domain, name);
	}
	work_begin(&work);
	for (long i = 0; i < n; i++)
		round_of_calls();
	int bad = shared_rounds(option_number(argc, argv, "-s", 0, 0));
	const char *awaited = option_text(argc, argv, "-w", NULL);
	if (awaited) {
		int fd = open(awaited, O_RDONLY);
		bad += fd < 0 || close(fd) != 0;
	}
	bad += work_end(&work);
	destroy(PART, ranks, rank);
	destroy(WORLD, ranks, rank);
	counts_print("counts", counts_add(work.issued, beside.issued));
	printf("nccl calls=%ld\n", calls);
	return bad != 0;
}
