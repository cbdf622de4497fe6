/*
 * What is used here of NVTX 3's interface for tools: nvtxTypes.h and nvtxImplCore.h of NVTX, which have not
 * changed since NVTX 3.0, and nvToolsExtPayload.h.
 */
#ifndef CT_NVTX_ABI_H
#define CT_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*nvtx_fn)(void);

enum { NVTX_TABLE_CALLBACKS = 1, NVTX_TABLE_VERSION = 3 };

/* The first of these tables: a function that tells where a module keeps the pointers to its functions. */
struct nvtx_callbacks {
	size_t size;
	int (*get_module_table)(uint32_t module, nvtx_fn ***table, uint32_t *count);
};
typedef const void *(*nvtx_export_fn)(uint32_t table);

/* The other one. */
struct nvtx_version {
	size_t size;
	uint32_t version, reserved;
	void (*set_injection_version)(uint32_t version);
};

enum { NVTX_CORE = 1, NVTX_CORE2 = 5 };

/* How many functions each module has, with the number 0, which is none: CORE, CUDA, OPENCL, CUDART, CORE2, SYNC. */
#define NVTX_SIZES {0, 16, 9, 15, 7, 16, 7}

/* nvtxEventAttributes_t */
#define NVTX_VERSION_OF 0 /* u16 */
#define NVTX_SIZE_OF 2 /* u16 */
#define NVTX_PAYLOAD_TYPE 16
#define NVTX_RESERVED 20
#define NVTX_PAYLOAD 24
#define NVTX_MESSAGE_TYPE 32
#define NVTX_MESSAGE 40
#define NVTX_ATTRIBUTES_MIN 48
#define NVTX_ATTRIBUTES_VERSION 3

/* NVTX_PAYLOAD_TYPE_EXT: the payload is an array of nvtx_payload, whose length is in reserved0. */
#define NVTX_EXTENDED ((int32_t)0xDFBD0009)

/* nvtxPayloadData_t */
struct nvtx_payload {
	uint64_t schema;
	size_t size;
	const void *data;
};

enum { NVTX_ASCII = 1, NVTX_UNICODE = 2, NVTX_REGISTERED = 3 };

/* Results of a program without a tool. */
#define NVTX_NO_LEVEL (-2)

/*
 * The functions that begin and end ranges, and those that make what these take: module, number, name, result,
 * parameters, arguments, result without a tool.
 */
#define NVTX_RANGE_FUNCTIONS(F) \
	F(CORE, 4, RangeStartEx, uint64_t, (const void *a), (a), 0) \
	F(CORE, 5, RangeStartA, uint64_t, (const char *text), (text), 0) \
	F(CORE, 7, RangeEnd, void, (uint64_t id), (id), ) \
	F(CORE, 8, RangePushEx, int, (const void *a), (a), NVTX_NO_LEVEL) \
	F(CORE, 9, RangePushA, int, (const char *text), (text), NVTX_NO_LEVEL) \
	F(CORE, 10, RangePushW, int, (const wchar_t *text), (text), NVTX_NO_LEVEL) \
	F(CORE, 11, RangePop, int, (void), (), NVTX_NO_LEVEL) \
	F(CORE2, 2, DomainRangeStartEx, uint64_t, (void *d, const void *a), (d, a), 0) \
	F(CORE2, 3, DomainRangeEnd, void, (void *d, uint64_t id), (d, id), ) \
	F(CORE2, 4, DomainRangePushEx, int, (void *d, const void *a), (d, a), NVTX_NO_LEVEL) \
	F(CORE2, 5, DomainRangePop, int, (void *d), (d), NVTX_NO_LEVEL) \
	F(CORE2, 10, DomainRegisterStringA, void *, (void *d, const char *text), (d, text), NULL) \
	F(CORE2, 12, DomainCreateA, void *, (const char *text), (text), NULL)

/* A function of ours that stands before CUPTI's in a program's table. */
struct ct_nvtx_hook {
	uint32_t module, number;
	nvtx_fn function;
	nvtx_fn _Atomic *next; /* the function that ours passes the call on to; NULL where CUPTI has none */
};

/*
 * pass_NAME, for a table of pointers NEXT and indices I_NAME: calls CUPTI's function. ISO C has no return of a void
 * call, so this stands between pragmas.
 */
#define NVTX_PASS(module, number, function, result, params, args, none) \
	static result pass_##function params \
	{ \
		nvtx_fn f = atomic_load(&next[I_##function]); \
		if (!f) \
			return none; \
		return ((result(*) params)f)args; \
	}

#endif
