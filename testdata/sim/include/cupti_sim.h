/* The part of CUPTI 13 that the simulated libcupti.so.13 exports, written for
 * this stack. */
#ifndef CUPTI_SIM_H
#define CUPTI_SIM_H

#include <stddef.h>
#include <stdint.h>

typedef int CUptiResult;
enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_INVALID_CONTEXT = 3,
	CUPTI_ERROR_INVALID_OPERATION = 7,
	CUPTI_ERROR_OUT_OF_MEMORY = 8,
	CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 10,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_NOT_COMPATIBLE = 14,
	CUPTI_ERROR_NOT_INITIALIZED = 15,
	CUPTI_ERROR_INVALID_STREAM = 20,
	CUPTI_ERROR_INVALID_KIND = 21,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED = 38,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
	CUPTI_ERROR_UNKNOWN = 999,
};

enum {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_DRIVER = 4,
	CUPTI_KIND_RUNTIME = 5,
	CUPTI_KIND_EVENT = 6,
	CUPTI_KIND_METRIC = 7,
	CUPTI_KIND_DEVICE = 8,
	CUPTI_KIND_CONTEXT = 9,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_NAME = 11,
	CUPTI_KIND_MARKER = 12,
	CUPTI_KIND_MARKER_DATA = 13,
	CUPTI_KIND_OVERHEAD = 17,
	CUPTI_KIND_MEMCPY2 = 22,
	CUPTI_KIND_STREAM = 37,
	CUPTI_KIND_MEMORY = 45,
	CUPTI_KIND_MEMORY2 = 49,
	CUPTI_KIND_MEMORY_POOL = 50,
	CUPTI_KIND_COUNT = 64, /* more than CUPTI 13 knows */
};

typedef void (*CUptiBufferRequested)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*CUptiBufferCompleted)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*CUptiTimestamp)(void);
typedef void (*CUptiCallback)(void *user, uint32_t domain, uint32_t cbid, const void *data);

enum { CUPTI_API_ENTER = 0, CUPTI_API_EXIT = 1 };

typedef struct {
	int callbackSite;
	const char *functionName;
	const void *functionParams; /* of what allocates and frees; NULL for other functions */
	void *functionReturnValue;
	const char *symbolName;
	void *context;
	uint32_t contextUid;
	uint64_t *correlationData;
	uint32_t correlationId;
} CUptiCallbackData;

/* The activity records, as CUPTI 13 writes them. */
#define CUPTI_RECORD __attribute__((packed, aligned(8)))

typedef struct CUPTI_RECORD {
	uint32_t kind;
	uint8_t cacheConfig, sharedMemoryConfig;
	uint16_t registersPerThread;
	uint32_t partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
	uint64_t start, end, completed;
	uint32_t deviceId, contextId, streamId;
	int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
	int32_t staticSharedMemory, dynamicSharedMemory;
	uint32_t localMemoryPerThread, localMemoryTotal;
	uint32_t correlationId;
	int64_t gridId;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding;
	uint32_t sharedMemoryExecuted;
	uint64_t graphNodeId;
	uint32_t shmemLimitConfig;
	uint32_t graphId;
	void *pAccessPolicyWindow;
	uint32_t channelID, channelType;
	uint32_t clusterX, clusterY, clusterZ, clusterSchedulingPolicy;
	uint64_t localMemoryTotal_v2;
	uint32_t maxPotentialClusterSize, maxActiveClusters;
	uint8_t isDeviceLaunched, padding3[7];
} CUptiKernel;

typedef struct CUPTI_RECORD {
	uint32_t kind;
	uint8_t copyKind, srcKind, dstKind, flags;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
	void *reserved0;
	uint64_t graphNodeId;
	uint32_t graphId, channelID, channelType, pad2;
	uint64_t copyCount;
} CUptiMemcpy;

typedef struct CUPTI_RECORD {
	uint32_t kind;
	uint8_t copyKind, srcKind, dstKind, flags;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId;
	uint32_t srcDeviceId, srcContextId, dstDeviceId, dstContextId, correlationId;
	void *reserved0;
	uint64_t graphNodeId;
	uint32_t graphId, channelID, channelType, pad;
} CUptiMemcpyPeer;

typedef struct CUPTI_RECORD {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t deviceId, contextId, streamId, correlationId;
	uint16_t flags, memoryKind;
	uint32_t pad;
	void *reserved0;
	uint64_t graphNodeId;
	uint32_t graphId, channelID, channelType, pad2;
} CUptiMemset;

typedef struct CUPTI_RECORD {
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t processId, threadId, correlationId, returnValue;
} CUptiApi;

typedef struct CUPTI_RECORD {
	uint32_t kind, flags;
	uint64_t globalMemoryBandwidth, globalMemorySize;
	uint32_t constantMemorySize, l2CacheSize, numThreadsPerWarp, coreClockRate, numMemcpyEngines;
	uint32_t numMultiprocessors, maxIPC, maxWarpsPerMultiprocessor, maxBlocksPerMultiprocessor;
	uint32_t maxSharedMemoryPerMultiprocessor, maxRegistersPerMultiprocessor, maxRegistersPerBlock;
	uint32_t maxSharedMemoryPerBlock, maxThreadsPerBlock, maxBlockDim[3], maxGridDim[3];
	uint32_t computeCapabilityMajor, computeCapabilityMinor, id, eccEnabled;
	uint8_t uuid[16];
	const char *name;
	uint8_t isCudaVisible, isMigEnabled, reserved[6];
	uint32_t gpuInstanceId, computeInstanceId;
	uint8_t migUuid[16];
	uint32_t isNumaNode, numaId;
} CUptiDevice;

typedef struct CUPTI_RECORD {
	uint32_t kind, contextId, deviceId;
	uint16_t computeApiKind, nullStreamId;
	uint32_t parentContextId;
	uint8_t isGreenContext, padding;
	uint16_t numMultiprocessors;
	uint32_t cigMode, padding2;
} CUptiContext;

typedef struct CUPTI_RECORD {
	uint32_t kind, contextId, streamId, priority, flag, correlationId;
} CUptiStream;

enum {
	CUPTI_OBJECT_THREAD = 2,
	CUPTI_OBJECT_DEVICE = 3,
	CUPTI_OBJECT_CONTEXT = 4,
	CUPTI_OBJECT_STREAM = 5,
};

/* A thread by process and thread id, or a CUDA object by device, context and stream. */
typedef struct {
	uint32_t id[3];
} CUptiObject;

typedef struct CUPTI_RECORD {
	uint32_t kind, objectKind;
	CUptiObject object;
	uint32_t pad;
	const char *name;
} CUptiName;

enum { CUPTI_MARKER_INSTANT = 1, CUPTI_MARKER_START = 2, CUPTI_MARKER_END = 4 };

/* Start and end of a range are two records with one id. */
typedef struct CUPTI_RECORD {
	uint32_t kind, flags;
	uint64_t timestamp;
	uint32_t id, objectKind;
	CUptiObject object;
	uint32_t pad;
	const char *name;   /* NULL at an end */
	const char *domain; /* NULL: the default domain */
} CUptiMarker;

enum {
	CUPTI_OVERHEAD_BUFFER_FLUSH = 1 << 16,
	CUPTI_OVERHEAD_RESOURCE = 3 << 16,
	CUPTI_OVERHEAD_BUFFER_REQUEST = 7 << 16,
};

typedef struct CUPTI_RECORD {
	uint32_t kind, overheadKind, objectKind;
	CUptiObject object;
	uint64_t start, end;
	uint32_t correlationId, reserved0;
	void *overheadData;
} CUptiOverhead;

typedef struct CUPTI_RECORD {
	uint32_t kind, memoryPoolOperationType, memoryPoolType, correlationId, processId, deviceId;
	uint64_t minBytesToKeep, address, size, releaseThreshold, timestamp, utilizedSize;
	uint8_t isManagedPool, pad2[7];
} CUptiMemoryPool;

_Static_assert(sizeof(CUptiName) == 32, "CUpti_ActivityName");
_Static_assert(offsetof(CUptiName, name) == 24, "CUpti_ActivityName");
_Static_assert(sizeof(CUptiMarker) == 56, "CUpti_ActivityMarker2");
_Static_assert(offsetof(CUptiMarker, name) == 40, "CUpti_ActivityMarker2");
_Static_assert(sizeof(CUptiOverhead) == 56, "CUpti_ActivityOverhead3");
_Static_assert(offsetof(CUptiOverhead, start) == 24, "CUpti_ActivityOverhead3");
_Static_assert(sizeof(CUptiMemoryPool) == 80, "CUpti_ActivityMemoryPool3");
_Static_assert(offsetof(CUptiMemoryPool, address) == 32, "CUpti_ActivityMemoryPool3");
_Static_assert(sizeof(CUptiKernel) == 216, "CUpti_ActivityKernel10");
_Static_assert(offsetof(CUptiKernel, correlationId) == 92, "CUpti_ActivityKernel10");
_Static_assert(offsetof(CUptiKernel, graphId) == 156, "CUpti_ActivityKernel10");
_Static_assert(offsetof(CUptiKernel, clusterX) == 176, "CUpti_ActivityKernel10");
_Static_assert(sizeof(CUptiMemcpy) == 96, "CUpti_ActivityMemcpy6");
_Static_assert(offsetof(CUptiMemcpy, graphNodeId) == 64, "CUpti_ActivityMemcpy6");
_Static_assert(sizeof(CUptiMemcpyPeer) == 96, "CUpti_ActivityMemcpyPtoP4");
_Static_assert(offsetof(CUptiMemcpyPeer, graphNodeId) == 72, "CUpti_ActivityMemcpyPtoP4");
_Static_assert(sizeof(CUptiMemset) == 88, "CUpti_ActivityMemset4");
_Static_assert(sizeof(CUptiDevice) == 184, "CUpti_ActivityDevice5");
_Static_assert(offsetof(CUptiDevice, name) == 136, "CUpti_ActivityDevice5");
_Static_assert(sizeof(CUptiContext) == 32, "CUpti_ActivityContext3");
_Static_assert(offsetof(CUptiContext, numMultiprocessors) == 22, "CUpti_ActivityContext3");
_Static_assert(sizeof(CUptiCallbackData) == 72, "CUpti_CallbackData");
_Static_assert(sizeof(CUptiApi) == 40, "CUpti_ActivityAPI");
_Static_assert(offsetof(CUptiDevice, uuid) == 120, "CUpti_ActivityDevice5");
_Static_assert(sizeof(CUptiStream) == 24, "CUpti_ActivityStream");

#endif
