/*
 * What this library uses of CUPTI's binary interface: function types, kinds and
 * the byte offsets of the fields it reads. The prefixes named here have stayed
 * where they are from CUDA 11.6 to 13.2; records grow at their ends only, so a
 * record's size is never assumed and buffers are stepped through by CUPTI.
 */
#ifndef CT_CUPTI_ABI_H
#define CT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int ct_result; /* CUptiResult; 0 is success */
#define CUPTI_MAX_LIMIT_REACHED 12 /* GetNextRecord: no record left */

/* CUpti_ActivityKind */
#define KIND_MEMCPY 1u
#define KIND_MEMSET 2u
#define KIND_DRIVER 4u
#define KIND_RUNTIME 5u
#define KIND_DEVICE 8u
#define KIND_CONTEXT 9u
#define KIND_CONCURRENT_KERNEL 10u
#define KIND_NAME 11u
#define KIND_MARKER 12u /* NVTX */
#define KIND_OVERHEAD 17u
#define KIND_MEMCPY2 22u /* copies between devices */
#define KIND_STREAM 37u
#define KIND_MEMORY_POOL 50u

/* CUpti_CallbackDomain */
#define DOMAIN_DRIVER 1u
#define DOMAIN_RUNTIME 2u

#define THREAD_ID_SYSTEM 1 /* CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: threadId is the kernel's tid */

/* cuptiGetVersion: counted up from 1 until CUDA 12.9, then 10000 a major release. */
#define CUPTI_V11_0 13u
#define CUPTI_V12_0 19u
#define CUPTI_V13_0 130000u

/* CUpti_ActivityKernel, v7 (11.6) and later */
#define KERNEL_REGISTERS 6 /* u16 */
#define KERNEL_START 16
#define KERNEL_END 24
#define KERNEL_DEVICE 40
#define KERNEL_CONTEXT 44
#define KERNEL_STREAM 48
#define KERNEL_GRID 52  /* 3 × u32 */
#define KERNEL_BLOCK 64 /* 3 × u32 */
#define KERNEL_STATIC_SHARED 76
#define KERNEL_DYNAMIC_SHARED 80
#define KERNEL_LOCAL_PER_THREAD 84
#define KERNEL_CORRELATION 92
#define KERNEL_NAME 104
#define KERNEL_GRAPH_NODE 144
#define KERNEL_GRAPH 156
#define KERNEL_MIN 160
#define KERNEL_CLUSTER 176 /* 3 × u32, CUDA 12.0 and later */
#define KERNEL_MIN_CLUSTER 188

/* CUpti_ActivityMemcpy, v5 and later */
#define MEMCPY_COPY_KIND 4 /* u8, as the next two */
#define MEMCPY_SRC_KIND 5
#define MEMCPY_DST_KIND 6
#define MEMCPY_BYTES 8
#define MEMCPY_START 16
#define MEMCPY_END 24
#define MEMCPY_DEVICE 32
#define MEMCPY_CONTEXT 36
#define MEMCPY_STREAM 40
#define MEMCPY_CORRELATION 44
#define MEMCPY_GRAPH_NODE 64
#define MEMCPY_GRAPH 72
#define MEMCPY_MIN 76

/* CUpti_ActivityMemcpyPtoP, v4 and later; as MEMCPY up to MEMCPY_STREAM */
#define MEMCPY2_SRC_DEVICE 44
#define MEMCPY2_DST_DEVICE 52
#define MEMCPY2_CORRELATION 60
#define MEMCPY2_GRAPH_NODE 72
#define MEMCPY2_GRAPH 80
#define MEMCPY2_MIN 84

/* CUpti_ActivityMemset, v4 and later */
#define MEMSET_VALUE 4
#define MEMSET_BYTES 8
#define MEMSET_START 16
#define MEMSET_END 24
#define MEMSET_DEVICE 32
#define MEMSET_CONTEXT 36
#define MEMSET_STREAM 40
#define MEMSET_CORRELATION 44
#define MEMSET_GRAPH_NODE 64
#define MEMSET_GRAPH 72
#define MEMSET_MIN 76

/* CUpti_ActivityAPI */
#define API_CBID 4
#define API_START 8
#define API_END 16
#define API_TID 28
#define API_CORRELATION 32
#define API_RETURN 36
#define API_MIN 40

/*
 * CUpti_ActivityObjectKind, and CUpti_ActivityObjectKindId: 12 bytes that hold
 * process and thread, or device, context and stream, whichever the kind needs.
 */
#define OBJECT_PROCESS 1u
#define OBJECT_THREAD 2u
#define OBJECT_DEVICE 3u
#define OBJECT_CONTEXT 4u
#define OBJECT_STREAM 5u
#define ID_PROCESS 0
#define ID_THREAD 4
#define ID_DEVICE 0
#define ID_CONTEXT 4
#define ID_STREAM 8

/* CUpti_ActivityOverhead, all versions; the later ones go on behind OVERHEAD_MIN */
#define OVERHEAD_KIND 4
#define OVERHEAD_OBJECT_KIND 8
#define OVERHEAD_OBJECT 12 /* CUpti_ActivityObjectKindId */
#define OVERHEAD_START 24
#define OVERHEAD_END 32
#define OVERHEAD_MIN 40
#define OVERHEAD_FLUSH 65536u /* CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH */

/* CUpti_ActivityMarker2 */
#define MARKER_FLAGS 4
#define MARKER_TIME 8
#define MARKER_ID 16
#define MARKER_OBJECT_KIND 20
#define MARKER_OBJECT 24 /* CUpti_ActivityObjectKindId */
#define MARKER_NAME 40
#define MARKER_DOMAIN 48
#define MARKER_MIN 56

/* CUpti_ActivityName */
#define NAME_OBJECT_KIND 4
#define NAME_OBJECT 8 /* CUpti_ActivityObjectKindId */
#define NAME_NAME 24
#define NAME_MIN 32

/* CUpti_ActivityMemoryPool, all versions */
#define POOL_OPERATION 4
#define POOL_TYPE 8
#define POOL_CORRELATION 12
#define POOL_DEVICE 20
#define POOL_MIN_BYTES 24
#define POOL_ADDRESS 32
#define POOL_SIZE 40
#define POOL_THRESHOLD 48
#define POOL_TIME 56
#define POOL_MIN 64
#define POOL_USED 64 /* CUpti_ActivityMemoryPool2 and later (CUDA 12.0) */
#define POOL_MIN_USED 72
#define POOL_LOCAL 1u /* not imported from another process */

/* CUpti_ActivityDevice, v4 and later */
#define DEVICE_BANDWIDTH 8
#define DEVICE_MEMORY 16
#define DEVICE_L2_CACHE 28
#define DEVICE_WARP_SIZE 32
#define DEVICE_CLOCK 36
#define DEVICE_COPY_ENGINES 40
#define DEVICE_MULTIPROCESSORS 44
#define DEVICE_MAX_WARPS 52 /* of a multiprocessor, as the next three */
#define DEVICE_MAX_BLOCKS 56
#define DEVICE_MAX_SHARED 60
#define DEVICE_MAX_REGISTERS 64
#define DEVICE_BLOCK_REGISTERS 68 /* most of a block, as the next two */
#define DEVICE_BLOCK_SHARED 72
#define DEVICE_BLOCK_THREADS 76
#define DEVICE_MAJOR 104
#define DEVICE_MINOR 108
#define DEVICE_ID 112
#define DEVICE_ECC 116
#define DEVICE_UUID 120
#define DEVICE_NAME 136
#define DEVICE_MIN 144

/* CUpti_ActivityContext */
#define CONTEXT_ID 4
#define CONTEXT_DEVICE 8
#define CONTEXT_NULL_STREAM 14 /* u16 */
#define CONTEXT_MIN 16

/* CUpti_ActivityStream */
#define STREAM_CONTEXT 4
#define STREAM_ID 8
#define STREAM_PRIORITY 12
#define STREAM_FLAG 16
#define STREAM_CORRELATION 20
#define STREAM_MIN 24

typedef void (*ct_request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*ct_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*ct_timestamp_fn)(void);
typedef void (*ct_callback_fn)(void *user, uint32_t domain, uint32_t cbid, const void *data);

/* CUpti_CallbackData */
#define CALLBACK_SITE 0 /* u32 */
#define SITE_ENTER 0u
#define SITE_EXIT 1u
#define CALLBACK_ARGUMENTS 16 /* a pointer to a struct of them */
#define CALLBACK_RETURN 24    /* a pointer, at the exit */
#define CALLBACK_CONTEXT 48   /* u32 */
#define CALLBACK_DATA 56      /* a pointer to 8 bytes that the exit finds as the entry left them */

#define CBID_CUDEVICEGETCOUNT 4u /* of DOMAIN_DRIVER */
#define CBID_CUPROFILERSTART 308u
#define CBID_CUPROFILERSTOP 309u
#define CBID_CUDAPROFILERSTART 171u /* of DOMAIN_RUNTIME */
#define CBID_CUDAPROFILERSTOP 172u

/* The functions of a loaded libcupti. */
struct ct_cupti {
	ct_result (*get_version)(uint32_t *);
	ct_result (*register_callbacks)(ct_request_fn, ct_complete_fn);
	ct_result (*enable)(uint32_t kind);
	ct_result (*disable)(uint32_t kind);
	ct_result (*get_next_record)(uint8_t *buffer, size_t valid, void **record);
	ct_result (*flush_all)(uint32_t forced);
	ct_result (*get_dropped)(void *context, uint32_t stream, size_t *dropped);
	ct_result (*get_timestamp)(uint64_t *);
	ct_result (*get_callback_name)(uint32_t domain, uint32_t cbid, const char **name);
	ct_result (*get_result_string)(ct_result, const char **);
	ct_result (*subscribe)(void **subscriber, ct_callback_fn, void *user);
	ct_result (*subscribe_v2)(void **subscriber, ct_callback_fn, void *user, void *params); /* NULL in older releases */
	ct_result (*unsubscribe)(void *subscriber);
	ct_result (*enable_callback)(uint32_t on, void *subscriber, uint32_t domain, uint32_t cbid);
	ct_result (*register_timestamp)(ct_timestamp_fn);
	ct_result (*set_thread_id_type)(int);
	ct_result (*enable_runtime_api)(uint32_t cbid, uint8_t on); /* CUDA 12.5 and later, as the next; NULL without */
	ct_result (*enable_driver_api)(uint32_t cbid, uint8_t on);
	ct_result (*finalize)(void);
	uint32_t version; /* cuptiGetVersion */
};

#endif
