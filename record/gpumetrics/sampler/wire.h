/*
 * The messages between the sampler and the recorder. They go over a pair of sockets
 * (SOCK_SEQPACKET), one message a packet, in the machine's own byte order. The recorder
 * mirrors this file in wire.go; a test compares the two.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds, as the sampler reads it.
 */
#ifndef GS_WIRE_H
#define GS_WIRE_H

#include <stdint.h>

#define GS_VERSION 2
#define GS_SOCKET 3         /* descriptor of the sampler's end */
#define GS_MESSAGE_MAX 8192 /* bytes of the largest message */
#define GS_DEVICES_MAX 64   /* further GPUs are left alone */
#define GS_METRICS_MAX 24   /* metrics of a set */
#define GS_NAME_SIZE 96     /* name of a metric, with its final zero */
#define GS_PIDS_MAX 128     /* processes of a GPU that are named */

/* From the sampler. */
#define GS_READY 1     /* struct gs_ready: it has found the GPUs */
#define GS_FAILED 2    /* struct gs_failed: it ends */
#define GS_DEVICE 3    /* struct gs_device: a GPU, after GS_READY */
#define GS_SET 4       /* struct gs_set: metrics that are sampled together */
#define GS_ROWS 5      /* struct gs_rows: values of a set */
#define GS_LOST 6      /* struct gs_lost: a time without values */
#define GS_PROCESSES 7 /* struct gs_processes: who uses a GPU */
#define GS_DONE 8      /* struct gs_head alone: the answer to GS_END; the end of a list */
#define GS_REFUSED 9   /* struct gs_refused: PM sampling of a GPU does not begin, or ends */
#define GS_METRIC 10   /* struct gs_metric: one that a GPU has, for a list */

/* From the recorder: struct gs_order. */
#define GS_START 1 /* sample a GPU */
#define GS_STOP 2  /* no longer sample it */
#define GS_END 3   /* send the last values and end */

/* Why the sampler ends, or PM sampling of a GPU. */
#define GS_NO_LIBRARY 1 /* a library cannot be loaded */
#define GS_NO_NVML 2    /* NVML does not start, or has no GPU */
#define GS_NO_CUDA 3    /* CUDA does not start, or has no GPU */
#define GS_BUSY 4       /* another process uses the GPU's counters */
#define GS_NO_RIGHTS 5  /* the driver keeps the counters for administrators */
#define GS_OLD_GPU 6    /* the GPU cannot be sampled */
#define GS_NO_METRIC 7  /* none of the metrics can be sampled */
#define GS_BROKEN 8     /* a function of CUPTI's fails */
#define GS_OLD_LIBRARY 9 /* a library lacks a function */

/* Bits of struct gs_device. */
#define GS_DEVICE_MIG 1 /* it is divided: its values say nothing of one instance */

/* Sources of a set. */
#define GS_SOURCE_NVML 1
#define GS_SOURCE_GPM 2
#define GS_SOURCE_PM 3

struct gs_head {
	uint32_t type;
	uint32_t size; /* of the message, with this */
};

struct gs_ready {
	struct gs_head head;
	uint32_t version;
	uint32_t devices;
};

struct gs_failed {
	struct gs_head head;
	uint32_t why;
	char text[236];
};

struct gs_device {
	struct gs_head head;
	uint32_t device; /* NVML's index; of the sampler of PM, CUDA's */
	uint32_t flags;
	char uuid[96]; /* as NVML writes it */
};

struct gs_set {
	struct gs_head head;
	uint32_t set; /* its number */
	uint32_t device;
	uint32_t source;
	uint32_t count;    /* of names */
	uint64_t interval; /* between two rows, ns */
	char names[GS_METRICS_MAX][GS_NAME_SIZE];
};

struct gs_rows {
	struct gs_head head;
	uint32_t set;
	uint32_t count; /* of rows: start, end and a value for each metric of the set */
	uint64_t words[(GS_MESSAGE_MAX - 16) / 8];
};

struct gs_lost {
	struct gs_head head;
	uint32_t set;
	uint32_t zero;
	uint64_t start, end;
};

struct gs_processes {
	struct gs_head head;
	uint32_t device;
	uint32_t count;
	struct gs_process {
		uint32_t pid; /* as NVML sees it */
		uint32_t zero;
		uint64_t memory; /* bytes of the GPU's memory, 0 when not known */
	} list[GS_PIDS_MAX];
};

struct gs_refused {
	struct gs_head head;
	uint32_t device;
	uint32_t why;
	char text[240];
};

struct gs_metric {
	struct gs_head head;
	uint32_t device;
	uint32_t passes; /* that it needs alone; 0: it cannot be sampled */
	char name[GS_NAME_SIZE];
};

struct gs_order {
	uint32_t type;
	uint32_t device;
};

_Static_assert(sizeof(struct gs_rows) == GS_MESSAGE_MAX, "rows fill a message");
_Static_assert(sizeof(struct gs_set) <= GS_MESSAGE_MAX, "a set fits a message");

#endif
