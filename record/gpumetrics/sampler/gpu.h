/* The GPUs: which there are, and sampling each. */
#ifndef GS_GPU_H
#define GS_GPU_H

#include <stdint.h>

#define GS_TICK_MS 200 /* between two calls of gs_gpus_tick */

/* Reports the GPUs to the recorder. NVML runs. */
void gs_gpus_report(void);

/* Begins, or ends, sampling a GPU. A wrong index, or a second call, does nothing. */
void gs_gpu_start(uint32_t index);
void gs_gpu_stop(uint32_t index);

/* Ends sampling all GPUs. */
void gs_gpus_stop(void);

/* How many GPUs are sampled. */
uint32_t gs_gpus_sampled(void);

/* Reads what is due. */
void gs_gpus_tick(void);

#endif
