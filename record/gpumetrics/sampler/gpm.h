/* GPM: what the units of a GPU did since the poll before, from Hopper on. */
#ifndef GS_GPM_H
#define GS_GPM_H

#include "nvml_abi.h"
#include "series.h"

#define GS_GPM_METRICS 14 /* room for all of them */

struct gs_gpm {
	nvml_device device;
	struct gs_series series;
	uint32_t metrics[GS_GPM_METRICS]; /* those that the GPU has */
	nvml_gpm_sample before, after;
};

void gs_gpm_begin(struct gs_gpm *g, uint32_t set, uint32_t index, nvml_device device);
void gs_gpm_read(struct gs_gpm *g);
void gs_gpm_end(struct gs_gpm *g);

#endif
