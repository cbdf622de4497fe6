/* The CUDASIM_* environment variables. Each library reads them once. */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdint.h>

#define SIM_MEMORY ((uint64_t)143771 << 20) /* of a GPU, bytes */
#define SIM_LATENCY_NS 1000	/* from a call to the earliest start of its work */
#define SIM_COPY_NS 1000	/* fixed part of a copy's or memset's duration */
#define SIM_DEVICE_MB_S 2000000 /* copies on and between devices, and memsets */

struct sim_config {
	uint64_t devices;       /* CUDASIM_DEVICES: number of GPUs, at most 16; 0: cuInit returns 100 */
	uint64_t kernel_ns;     /* CUDASIM_KERNEL_NS: duration of a kernel that sets none */
	uint64_t return_ns;     /* CUDASIM_RETURN_NS: time from the submission of work to the return of its call */
	uint64_t host_mb_s;     /* CUDASIM_HOST_MB_S: copies between host and device */
	uint64_t hang_after;    /* CUDASIM_HANG_AFTER: the kernel of this number (from 1) never ends; 0: none */
	uint64_t cupti_version; /* CUDASIM_CUPTI_VERSION */
	uint64_t no_callback;   /* CUDASIM_CUPTI_IGNORE_CALLBACK: all times stay on CLOCK_REALTIME */
	uint64_t ignore_for_gpu; /* CUDASIM_CUPTI_GPU_REALTIME: API times by the callback, GPU times on CLOCK_REALTIME */
	uint64_t zero_every;    /* CUDASIM_CUPTI_ZERO_EVERY: one GPU record in this many has no times; 0: none */
	uint64_t starves;       /* CUDASIM_CUPTI_STARVES: late switching waits until nobody was inside CUDA for so many us */
	uint64_t finalize_check; /* CUDASIM_FINALIZE_CHECK: cuptiFinalize aborts while a thread is inside CUDA */
	uint64_t slow_flush_ms; /* CUDASIM_CUPTI_SLOW_FLUSH_MS: extra time of a flush */
	uint64_t drop_every;    /* CUDASIM_CUPTI_DROP_EVERY: one GPU record in this many is dropped; 0: none */
	uint64_t null_aborts;   /* CUDASIM_CUPTI_NULL_ABORTS: 1: a request answered with NULL ends the process, as before CUPTI 12.9 */
	uint64_t callback_error; /* CUDASIM_CUPTI_CALLBACK_ERROR: registering a timestamp callback answers this error */
	uint64_t callback_calls; /* CUDASIM_CUPTI_CALLBACK_CALLS: after so many calls another client's callback is in its place; 0: never */
	uint64_t callback_skip;  /* CUDASIM_CUPTI_CALLBACK_SKIP: this call of the callback and the next are left out; 0: none */
	uint64_t nvml_init_error; /* CUDASIM_NVML_INIT_ERROR: error that nvmlInit returns */
	uint64_t nvml_mig;      /* CUDASIM_NVML_MIG: bits of the GPUs that are divided into MIG instances */
	uint64_t nvml_no_gpm;   /* CUDASIM_NVML_NO_GPM: 1: the GPUs are older than Hopper */
	uint64_t nvml_no_history; /* CUDASIM_NVML_NO_HISTORY: 1: the driver keeps no history of power */
	uint64_t nvml_nvlink;   /* CUDASIM_NVML_NVLINK: 1: NVLinks are active */
	uint64_t nvml_pid;      /* CUDASIM_NVML_PID: a process that uses all GPUs; 0: none */
	uint64_t nvml_other_pid; /* CUDASIM_NVML_OTHER_PID: another one */
	uint64_t nvml_utilization; /* CUDASIM_NVML_UTILIZATION: of all GPUs, in percent */
	uint64_t nvml_fail;     /* CUDASIM_NVML_FAIL: so many readings of the SM clock, and of GPM, fail */
	uint64_t nvml_fail_from; /* CUDASIM_NVML_FAIL_FROM: from this one on, counted from 0 */
	uint64_t pm_init_error; /* CUDASIM_PM_INIT_ERROR: error that cuptiProfilerInitialize returns */
	uint64_t pm_enable_error; /* CUDASIM_PM_ENABLE_ERROR: error that cuptiPmSamplingEnable returns */
	uint64_t pm_busy;       /* CUDASIM_PM_BUSY: so many attempts find the counters in use (error 26) */
	uint64_t pm_strange;    /* CUDASIM_PM_STRANGE: so many samples have times of another clock at first */
	uint64_t pm_image;      /* CUDASIM_PM_IMAGE: most samples in a counter data image; 0: as asked for */
	uint64_t pm_buffer;     /* CUDASIM_PM_BUFFER: most samples in the hardware's buffer; 0: as asked for */
	uint64_t pm_overflow;   /* CUDASIM_PM_OVERFLOW: the buffer is full at this decoding (from 1); 0: never */
};

const struct sim_config *sim_config(void);

#endif
