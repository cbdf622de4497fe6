/* NVML, loaded at run time. */
#ifndef GS_NVML_H
#define GS_NVML_H

#include "nvml_abi.h"

/* Functions that a release lacks are NULL, but for those that are needed. */
struct gs_nvml {
#define NEED(type, name, arguments) type(*name) arguments;
#define MAY(type, name, arguments) type(*name) arguments;
#include "nvml.def"
#undef NEED
#undef MAY
};

extern struct gs_nvml gs_nvml;

/* Loads and starts NVML. Otherwise the answer is GS_NO_LIBRARY or GS_NO_NVML, with the reason in text. */
uint32_t gs_nvml_open(char *text, unsigned size);

#endif
