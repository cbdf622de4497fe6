#include "gpu.h"

#include <stddef.h>

#include "board.h"
#include "clock.h"
#include "gpm.h"
#include "nvml.h"
#include "out.h"
#include "power.h"

/* Ticks between two readings. */
#define GPM_TICKS (200 / GS_TICK_MS)
#define PROCESS_TICKS (2000 / GS_TICK_MS)
#define POWER_TICKS (1600 / GS_TICK_MS) /* the driver keeps 119 powers, 2.4 s; to read them takes a millisecond */

/* Numbers of a GPU's sets. */
#define SETS 4
#define SET_BOARD 0
#define SET_POWER 1
#define SET_GPM 2

static struct gpu {
	nvml_device device;
	bool usable, sampled;
	uint32_t ticks;
	struct gs_board board;
	struct gs_power power;
	struct gs_gpm gpm;
} gpus[GS_DEVICES_MAX];

static uint32_t count, sampled;

static void report(uint32_t index)
{
	struct gpu *g = &gpus[index];
	struct gs_device m = {.device = index};
	unsigned mig = 0, pending;
	if (gs_nvml.nvmlDeviceGetHandleByIndex_v2(index, &g->device) != 0 ||
	    gs_nvml.nvmlDeviceGetUUID(g->device, m.uuid, sizeof m.uuid) != 0)
		return; /* it is another user's, or has failed */
	m.uuid[sizeof m.uuid - 1] = 0;
	if (gs_nvml.nvmlDeviceGetMigMode && gs_nvml.nvmlDeviceGetMigMode(g->device, &mig, &pending) == 0 && mig)
		m.flags = GS_DEVICE_MIG;
	g->usable = !m.flags;
	gs_send(&m, GS_DEVICE, sizeof m);
}

void gs_gpus_report(void)
{
	struct gs_ready m = {.version = GS_VERSION};
	unsigned n;
	if (gs_nvml.nvmlDeviceGetCount_v2(&n) != 0)
		n = 0;
	count = m.devices = n < GS_DEVICES_MAX ? n : GS_DEVICES_MAX;
	gs_send(&m, GS_READY, sizeof m);
	for (uint32_t i = 0; i < count; i++)
		report(i);
}

/* Reports the processes that have a context on a GPU. Without the list nothing is reported. */
static void report_processes(uint32_t index)
{
	static struct nvml_process list[GS_PIDS_MAX];
	struct gs_processes m = {.device = index};
	unsigned n = GS_PIDS_MAX;
	if (!gs_nvml.nvmlDeviceGetComputeRunningProcesses_v3)
		return;
	nvml_return r = gs_nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpus[index].device, &n, list);
	if ((r != 0 && r != NVML_INSUFFICIENT_SIZE) || (r == 0 && n > GS_PIDS_MAX))
		return;
	m.count = r == 0 ? n : 0;
	for (uint32_t i = 0; i < m.count; i++) {
		m.list[i].pid = list[i].pid;
		m.list[i].memory = list[i].memory == NVML_NOT_KNOWN ? 0 : list[i].memory;
	}
	if (m.count > 0)
		gs_send(&m, GS_PROCESSES, (uint32_t)(offsetof(struct gs_processes, list) + m.count * sizeof m.list[0]));
}

void gs_gpu_start(uint32_t index)
{
	if (index >= count || !gpus[index].usable || gpus[index].sampled)
		return;
	struct gpu *g = &gpus[index];
	uint64_t now = gs_now();
	uint32_t set = index * SETS;
	bool history = gs_power_begin(&g->power, set + SET_POWER, index, g->device, now);
	gs_board_begin(&g->board, set + SET_BOARD, index, g->device, !history, now);
	gs_gpm_begin(&g->gpm, set + SET_GPM, index, g->device);
	report_processes(index);
	g->ticks = 0;
	g->sampled = true;
	sampled++;
}

void gs_gpu_stop(uint32_t index)
{
	if (index >= count || !gpus[index].sampled)
		return;
	struct gpu *g = &gpus[index];
	gs_board_end(&g->board);
	gs_power_end(&g->power);
	gs_gpm_end(&g->gpm);
	report_processes(index);
	g->sampled = false;
	sampled--;
}

void gs_gpus_stop(void)
{
	for (uint32_t i = 0; i < count; i++)
		gs_gpu_stop(i);
}

uint32_t gs_gpus_sampled(void)
{
	return sampled;
}

static void tick(uint32_t index)
{
	struct gpu *g = &gpus[index];
	g->ticks++;
	gs_board_read(&g->board);
	if (g->ticks % GPM_TICKS == 0)
		gs_gpm_read(&g->gpm);
	if (g->ticks % POWER_TICKS == 0)
		gs_power_read(&g->power);
	if (g->ticks % PROCESS_TICKS == 0)
		report_processes(index);
}

void gs_gpus_tick(void)
{
	for (uint32_t i = 0; i < count; i++)
		if (gpus[i].sampled)
			tick(i);
}
