/* CUPTI and CUDA, loaded at run time. */
#ifndef GS_CUPTI_H
#define GS_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"

/* The functions: each takes its block. */
struct gs_cupti {
	int (*cuptiActivityRegisterTimestampCallback)(uint64_t (*)(void));
	int (*cuptiGetResultString)(int, const char **); /* may be missing */
#define CUPTI(name) int (*name)(void *);
#include "cupti.def"
#undef CUPTI
};

extern struct gs_cupti gs_cupti;

/* Why something does not work. */
struct gs_trouble {
	uint32_t why; /* GS_NO_LIBRARY and so on */
	char text[200];
};

/* Loads a libcupti and starts CUDA and CUPTI, without a context. */
/* Says that there is no memory. False. */
bool gs_no_memory(struct gs_trouble *t, size_t length);

bool gs_cupti_open(const char *path, struct gs_trouble *t);

/* Says whether a call succeeded, and else why not. */
bool gs_cupti_ok(int result, const char *function, struct gs_trouble *t);

#define GS_CUPTI(function, block, trouble) gs_cupti_ok(gs_cupti.function(block), #function, trouble)

/* How many GPUs CUDA has, and the UUID of one as NVML writes it. */
uint32_t gs_cuda_devices(void);
bool gs_cuda_uuid(uint32_t device, char *text, unsigned size);

#endif
