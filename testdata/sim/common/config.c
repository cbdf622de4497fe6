#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct sim_config config;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
	const char *name;
	uint64_t *field;
	uint64_t value;
} variables[] = {
	{"CUDASIM_DEVICES", &config.devices, 1},
	{"CUDASIM_KERNEL_NS", &config.kernel_ns, 2000},
	{"CUDASIM_RETURN_NS", &config.return_ns, 0},
	{"CUDASIM_HOST_MB_S", &config.host_mb_s, 25000},
	{"CUDASIM_HANG_AFTER", &config.hang_after, 0},
	{"CUDASIM_CUPTI_VERSION", &config.cupti_version, 130001},
	{"CUDASIM_CUPTI_IGNORE_CALLBACK", &config.no_callback, 0},
	{"CUDASIM_CUPTI_GPU_REALTIME", &config.ignore_for_gpu, 0},
	{"CUDASIM_CUPTI_STARVES", &config.starves, 0},
	{"CUDASIM_FINALIZE_CHECK", &config.finalize_check, 0},
	{"CUDASIM_CUPTI_SLOW_FLUSH_MS", &config.slow_flush_ms, 0},
	{"CUDASIM_CUPTI_DROP_EVERY", &config.drop_every, 0},
	{"CUDASIM_CUPTI_ZERO_EVERY", &config.zero_every, 0},
	{"CUDASIM_CUPTI_NULL_ABORTS", &config.null_aborts, 0},
	{"CUDASIM_CUPTI_CALLBACK_ERROR", &config.callback_error, 0},
	{"CUDASIM_CUPTI_CALLBACK_CALLS", &config.callback_calls, 0},
	{"CUDASIM_CUPTI_CALLBACK_SKIP", &config.callback_skip, 0},
	{"CUDASIM_NVML_INIT_ERROR", &config.nvml_init_error, 0},
	{"CUDASIM_NVML_MIG", &config.nvml_mig, 0},
	{"CUDASIM_NVML_NO_GPM", &config.nvml_no_gpm, 0},
	{"CUDASIM_NVML_NO_HISTORY", &config.nvml_no_history, 0},
	{"CUDASIM_NVML_NVLINK", &config.nvml_nvlink, 0},
	{"CUDASIM_NVML_UTILIZATION", &config.nvml_utilization, 37},
	{"CUDASIM_NVML_PID", &config.nvml_pid, 0},
	{"CUDASIM_NVML_OTHER_PID", &config.nvml_other_pid, 0},
	{"CUDASIM_NVML_FAIL", &config.nvml_fail, 0},
	{"CUDASIM_NVML_FAIL_FROM", &config.nvml_fail_from, 0},
	{"CUDASIM_PM_INIT_ERROR", &config.pm_init_error, 0},
	{"CUDASIM_PM_ENABLE_ERROR", &config.pm_enable_error, 0},
	{"CUDASIM_PM_BUSY", &config.pm_busy, 0},
	{"CUDASIM_PM_IMAGE", &config.pm_image, 0},
	{"CUDASIM_PM_STRANGE", &config.pm_strange, 0},
	{"CUDASIM_PM_BUFFER", &config.pm_buffer, 0},
	{"CUDASIM_PM_OVERFLOW", &config.pm_overflow, 0},
};

static void load(void)
{
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *text = getenv(variables[i].name);
		char *end = NULL;
		*variables[i].field = variables[i].value;
		if (!text || !*text)
			continue;
		uint64_t value = strtoull(text, &end, 0);
		if (*end)
			fprintf(stderr, "cudasim: %s=%s is not a number: ignored\n", variables[i].name, text);
		else
			*variables[i].field = value;
	}
	if (config.devices > 16)
		config.devices = 16;
	if (config.host_mb_s == 0)
		config.host_mb_s = 1;
}

const struct sim_config *sim_config(void)
{
	pthread_once(&once, load);
	return &config;
}
