/* The part of NVTX v3's injection interface that is used here. NVTX is a header
 * in the program: at its first use it loads the library that
 * NVTX_INJECTION64_PATH names and calls its InitializeInjectionNvtx2 with a
 * function that returns tables of the program's function pointers, which the
 * library overwrites with its own. Ids never change meaning. */
#ifndef SIM_NVTX_ABI_H
#define SIM_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*nvtx_function)(void);
typedef nvtx_function **nvtx_table; /* table[id] is the address of the pointer to set */

enum { NVTX_TABLE_CALLBACKS = 1 }; /* the table that the library requests */
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CUDA = 2, NVTX_MODULE_CUDART = 4, NVTX_MODULE_CORE2 = 5 };

typedef struct {
	size_t struct_size;
	int (*GetModuleFunctionTable)(uint32_t module, nvtx_table *table, uint32_t *size); /* 1: done */
} nvtx_callbacks;

typedef const void *(*nvtx_exporter)(uint32_t table);

enum {
	NVTX_CORE_MarkEx = 1,
	NVTX_CORE_MarkA = 2,
	NVTX_CORE_RangeStartEx = 4,
	NVTX_CORE_RangeStartA = 5,
	NVTX_CORE_RangeEnd = 7,
	NVTX_CORE_RangePushEx = 8,
	NVTX_CORE_RangePushA = 9,
	NVTX_CORE_RangePushW = 10,
	NVTX_CORE_RangePop = 11,
	NVTX_CORE_NameOsThreadA = 14,
	NVTX_CORE_SIZE = 16,
};

enum {
	NVTX_CORE2_DomainMarkEx = 1,
	NVTX_CORE2_DomainRangeStartEx = 2,
	NVTX_CORE2_DomainRangeEnd = 3,
	NVTX_CORE2_DomainRangePushEx = 4,
	NVTX_CORE2_DomainRangePop = 5,
	NVTX_CORE2_DomainRegisterStringA = 10,
	NVTX_CORE2_DomainCreateA = 12,
	NVTX_CORE2_DomainDestroy = 14,
	NVTX_CORE2_SIZE = 16,
};

enum { NVTX_CUDA_NameCuDeviceA = 1, NVTX_CUDA_NameCuContextA = 3, NVTX_CUDA_NameCuStreamA = 5, NVTX_CUDA_SIZE = 9 };
enum { NVTX_CUDART_NameCudaDeviceA = 1, NVTX_CUDART_NameCudaStreamA = 3, NVTX_CUDART_SIZE = 7 };

enum { NVTX_COLOR_ARGB = 1 };
enum { NVTX_PAYLOAD_UINT64 = 1, NVTX_PAYLOAD_INT64 = 2, NVTX_PAYLOAD_DOUBLE = 3 };
enum { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_REGISTERED = 3 };

typedef struct nvtx_domain *nvtxDomainHandle_t;
typedef struct nvtx_string *nvtxStringHandle_t;
typedef uint64_t nvtxRangeId_t;

typedef struct {
	uint16_t version, size; /* 3, 48 */
	uint32_t category;
	int32_t colorType;
	uint32_t color;
	int32_t payloadType, reserved0;
	union {
		uint64_t ullValue;
		int64_t llValue;
		double dValue;
	} payload;
	int32_t messageType;
	union {
		const char *ascii;
		nvtxStringHandle_t registered;
	} message;
} nvtxEventAttributes_t;

_Static_assert(sizeof(nvtxEventAttributes_t) == 48, "nvtxEventAttributes_v2");

/* Every function that a tool can take over: module, name, result, parameters,
 * and the call's result without a tool. */
#define NVTX_FUNCTIONS(F) \
	F(CORE, MarkEx, void, (const nvtxEventAttributes_t *a), (a), ) \
	F(CORE, MarkA, void, (const char *text), (text), ) \
	F(CORE, RangeStartEx, nvtxRangeId_t, (const nvtxEventAttributes_t *a), (a), 0) \
	F(CORE, RangeStartA, nvtxRangeId_t, (const char *text), (text), 0) \
	F(CORE, RangeEnd, void, (nvtxRangeId_t id), (id), ) \
	F(CORE, RangePushEx, int, (const nvtxEventAttributes_t *a), (a), -2) \
	F(CORE, RangePushA, int, (const char *text), (text), -2) \
	F(CORE, RangePushW, int, (const wchar_t *text), (text), -2) \
	F(CORE, RangePop, int, (void), (), -2) \
	F(CORE, NameOsThreadA, void, (uint32_t tid, const char *name), (tid, name), ) \
	F(CORE2, DomainMarkEx, void, (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a), ) \
	F(CORE2, DomainRangeStartEx, nvtxRangeId_t, (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a), 0) \
	F(CORE2, DomainRangeEnd, void, (nvtxDomainHandle_t d, nvtxRangeId_t id), (d, id), ) \
	F(CORE2, DomainRangePushEx, int, (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a), -2) \
	F(CORE2, DomainRangePop, int, (nvtxDomainHandle_t d), (d), -2) \
	F(CORE2, DomainRegisterStringA, nvtxStringHandle_t, (nvtxDomainHandle_t d, const char *text), (d, text), NULL) \
	F(CORE2, DomainCreateA, nvtxDomainHandle_t, (const char *name), (name), NULL) \
	F(CORE2, DomainDestroy, void, (nvtxDomainHandle_t d), (d), ) \
	F(CUDA, NameCuDeviceA, void, (int device, const char *name), (device, name), ) \
	F(CUDA, NameCuContextA, void, (void *context, const char *name), (context, name), ) \
	F(CUDA, NameCuStreamA, void, (void *stream, const char *name), (stream, name), ) \
	F(CUDART, NameCudaDeviceA, void, (int device, const char *name), (device, name), ) \
	F(CUDART, NameCudaStreamA, void, (void *stream, const char *name), (stream, name), )

#endif
