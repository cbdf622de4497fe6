/* The power of a GPU every 20 ms, from the history that the driver keeps of about two seconds. */
#ifndef GS_POWER_H
#define GS_POWER_H

#include "nvml_abi.h"
#include "series.h"

struct gs_power {
	nvml_device device;
	struct gs_series series;
	uint64_t seen; /* time of the last sample, on NVML's clock */
};

/* Begins the set; false if the GPU keeps no history. */
bool gs_power_begin(struct gs_power *p, uint32_t set, uint32_t index, nvml_device device, uint64_t now);
void gs_power_read(struct gs_power *p);
void gs_power_end(struct gs_power *p);

#endif
