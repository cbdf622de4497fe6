/* What NVML tells of a GPU at any moment: clocks, temperatures, throttle reasons, utilisation, memory. */
#ifndef GS_BOARD_H
#define GS_BOARD_H

#include "nvml_abi.h"
#include "series.h"

#define GS_BOARD_READINGS 10 /* room for all of them */

struct gs_board {
	nvml_device device;
	struct gs_series series;
	uint32_t readings[GS_BOARD_READINGS]; /* those that the GPU has */
};

/* Begins a set of the values that the GPU has. with_power: no power history is at hand. */
void gs_board_begin(struct gs_board *b, uint32_t set, uint32_t index, nvml_device device, bool with_power, uint64_t now);
void gs_board_read(struct gs_board *b);
void gs_board_end(struct gs_board *b);

#endif
