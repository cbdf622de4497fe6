/*
 * What the sampler uses of CUPTI's interface for PM sampling, CUDA 12.6 and later. Each function takes one
 * block that begins with its own size: the end of its last field, without padding.
 */
#ifndef GS_CUPTI_ABI_H
#define GS_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_SUCCESS 0
#define CUPTI_ERROR_INVALID_PARAMETER 1
#define CUPTI_ERROR_INVALID_DEVICE 2
#define CUPTI_ERROR_NO_RIGHTS 25 /* where RmProfilingAdminOnly is 1, by the documentation */
#define CUPTI_ERROR_HARDWARE_BUSY 26
#define CUPTI_ERROR_NOT_SUPPORTED 27
#define CUPTI_ERROR_INSUFFICIENT_PRIVILEGES 35

#define CUPTI_PROFILER_PM_SAMPLING 1
#define CUPTI_TRIGGER_NS 1    /* not on Turing and GA100 */
#define CUPTI_KEEP_OLDEST 0
#define CUPTI_STOP_FULL 1     /* the counter data image is full */
#define CUPTI_METRIC_TYPES 3  /* counters, ratios, throughputs */

#define CUPTI_HEAD \
	size_t size; \
	void *zero

struct cupti_initialize {
	CUPTI_HEAD;
};

struct cupti_chip_name {
	CUPTI_HEAD;
	size_t device;
	const char *name;
};

struct cupti_availability {
	CUPTI_HEAD;
	size_t device;
	size_t length;
	uint8_t *image;
};

struct cupti_host_initialize {
	CUPTI_HEAD;
	uint32_t type;
	const char *chip;
	const uint8_t *availability;
	void *host;
};

struct cupti_host {
	CUPTI_HEAD;
	void *host;
};

struct cupti_base_metrics {
	CUPTI_HEAD;
	void *host;
	uint32_t type;
	const char **names;
	size_t count;
};

struct cupti_add_metrics {
	CUPTI_HEAD;
	void *host;
	const char *const *names;
	size_t count;
};

struct cupti_config_size {
	CUPTI_HEAD;
	void *host;
	size_t length;
};

struct cupti_config {
	CUPTI_HEAD;
	void *host;
	size_t length;
	uint8_t *image;
};

struct cupti_passes {
	CUPTI_HEAD;
	size_t length;
	const uint8_t *image;
	size_t passes;
};

struct cupti_enable {
	CUPTI_HEAD;
	size_t device;
	void *object;
};

struct cupti_object { /* Disable, Start, Stop */
	CUPTI_HEAD;
	void *object;
};

struct cupti_set_config {
	CUPTI_HEAD;
	void *object;
	size_t length;
	const uint8_t *config;
	size_t buffer; /* bytes */
	uint64_t interval;
	uint32_t trigger;
	uint32_t append; /* from CUDA 12.8 on */
};

struct cupti_data_size {
	CUPTI_HEAD;
	void *object;
	const char *const *names;
	size_t count;
	uint32_t samples;
	size_t length;
};

struct cupti_data_initialize {
	CUPTI_HEAD;
	void *object;
	size_t length;
	uint8_t *image;
};

struct cupti_decode {
	CUPTI_HEAD;
	void *object;
	uint8_t *image;
	size_t length;
	uint32_t stop;
	uint8_t overflow;
};

struct cupti_data_info {
	CUPTI_HEAD;
	const uint8_t *image;
	size_t length;
	size_t total, populated, completed;
};

struct cupti_sample_info {
	CUPTI_HEAD;
	void *object;
	const uint8_t *image;
	size_t length;
	size_t index;
	uint64_t start, end;
};

struct cupti_evaluate {
	CUPTI_HEAD;
	void *host;
	const uint8_t *image;
	size_t length;
	size_t index;
	const char *const *names;
	size_t count;
	double *values;
};

/* The size of a block whose last field is this one. */
#define CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

#define CUPTI_CHECK(type, last, bytes) _Static_assert(CUPTI_SIZE(struct type, last) == bytes, #type)
CUPTI_CHECK(cupti_initialize, zero, 16);
CUPTI_CHECK(cupti_chip_name, name, 32);
CUPTI_CHECK(cupti_host_initialize, host, 48);
CUPTI_CHECK(cupti_host, host, 24);
CUPTI_CHECK(cupti_base_metrics, count, 48);
CUPTI_CHECK(cupti_add_metrics, count, 40);
CUPTI_CHECK(cupti_config_size, length, 32);
CUPTI_CHECK(cupti_config, image, 40);
CUPTI_CHECK(cupti_passes, passes, 40);
CUPTI_CHECK(cupti_enable, object, 32);
CUPTI_CHECK(cupti_object, object, 24);
CUPTI_CHECK(cupti_set_config, append, 64);
CUPTI_CHECK(cupti_set_config, trigger, 60);
CUPTI_CHECK(cupti_data_size, length, 56);
CUPTI_CHECK(cupti_data_initialize, image, 40);
CUPTI_CHECK(cupti_decode, overflow, 45);
CUPTI_CHECK(cupti_data_info, completed, 56);
CUPTI_CHECK(cupti_sample_info, end, 64);
CUPTI_CHECK(cupti_evaluate, values, 72);

#endif
