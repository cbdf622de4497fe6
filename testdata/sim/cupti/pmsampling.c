/*
 * Sampling itself. The GPU takes a sample at each multiple of the interval on CLOCK_MONOTONIC from Start on; an
 * edge is up to 32 ns off, and one start in 50 is 150 ns later than the end before. What was seen on an H200:
 *
 *   - The first sample reaches back to before SetConfig.
 *   - A second SetConfig of an object answers 0 and changes nothing.
 *   - When more samples are decoded than the counter data image holds, the stop reason is 1 and the rest is gone.
 *   - When the hardware's buffer is full, decoding answers 8 with overflow set and brings nothing, from then on;
 *     Start after Stop answers 999. A new object helps.
 *   - Where a unit does not answer, samples are populated, and none is ever complete.
 *   - Counters that another process uses: SetConfig answers 26, Enable does not.
 */
#include <stdlib.h>
#include <string.h>

#include "pm.h"

#define REACH_NS 300000000u /* of the first sample, back from SetConfig */
#define ODD_EVERY 50u
#define STRANGE_NS 1700000000000000000ull /* CLOCK_REALTIME */
#define ODD_NS 150u
#define SAMPLE_BYTES 12288u /* in the hardware's buffer */
#define IMAGE_MAGIC 0x496d5053u
#define BUSY 26
#define BLOCK_BEFORE_12_8 60

struct object {
	size_t device;
	uint64_t interval, configured; /* the time of SetConfig */
	uint64_t decoded;              /* number of the interval that was decoded last */
	uint64_t room;                 /* samples that the hardware's buffer holds */
	bool first, running, overflowed, mute;
};

struct image {
	uint32_t magic, most, count, mute;
	struct sample {
		uint64_t start, end, step;
	} samples[];
};

CUptiResult pm_step(const void *data, size_t length, size_t index, uint64_t *step)
{
	const struct image *m = data;
	if (length < sizeof *m || m->magic != IMAGE_MAGIC || index >= m->count)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*step = m->samples[index].step;
	return CUPTI_SUCCESS;
}

struct initialize {
	PM_HEAD;
};

CUPTI(cuptiProfilerInitialize, (struct initialize *b))
{
	PM_CHECK(b, zero);
	if (!cupti_hook())
		return CUPTI_ERROR_UNKNOWN;
	return (CUptiResult)sim_config()->pm_init_error;
}

struct availability {
	PM_HEAD;
	size_t device, length;
	uint8_t *image;
};

CUPTI(cuptiPmSamplingGetCounterAvailability, (struct availability *b))
{
	PM_CHECK(b, image);
	if (b->device >= sim_config()->devices)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!b->image) {
		b->length = 16;
		return CUPTI_SUCCESS;
	}
	if (b->length < 16)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	*b->image = PM_AVAILABILITY;
	return CUPTI_SUCCESS;
}

struct enable {
	PM_HEAD;
	size_t device;
	struct object *object;
};

CUPTI(cuptiPmSamplingEnable, (struct enable *b))
{
	PM_CHECK(b, object);
	if (b->device >= sim_config()->devices)
		return CUPTI_ERROR_UNKNOWN;
	if (sim_config()->pm_enable_error)
		return (CUptiResult)sim_config()->pm_enable_error;
	b->object = calloc(1, sizeof *b->object);
	if (!b->object)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	b->object->device = b->device;
	return CUPTI_SUCCESS;
}

struct of_object {
	PM_HEAD;
	struct object *object;
};

CUPTI(cuptiPmSamplingDisable, (struct of_object *b))
{
	PM_CHECK(b, object);
	free(b->object);
	return CUPTI_SUCCESS;
}

struct set_config {
	PM_HEAD;
	struct object *object;
	size_t length;
	const struct pm_config *config;
	size_t buffer;
	uint64_t interval;
	uint32_t trigger, append;
};

/* Whether another process uses the counters, for the first of our attempts. */
static bool busy(void)
{
	static uint64_t attempts;
	return attempts++ < sim_config()->pm_busy;
}

CUPTI(cuptiPmSamplingSetConfig, (struct set_config *b))
{
	if (sim_config()->cupti_version < 100000) {
		if (!b || b->size != BLOCK_BEFORE_12_8 || b->zero)
			return CUPTI_ERROR_INVALID_PARAMETER;
	} else {
		PM_CHECK(b, append);
	}
	struct object *o = b->object;
	if (b->length != sizeof *b->config || b->config->magic != PM_CONFIG_MAGIC || b->trigger != 1 || b->interval < 1000 ||
	    b->interval > 10000000)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (busy())
		return BUSY;
	if (o->interval)
		return CUPTI_SUCCESS;
	o->interval = b->interval;
	o->mute = b->config->mute;
	o->configured = sim_now();
	o->room = sim_config()->pm_buffer ? sim_config()->pm_buffer : b->buffer / SAMPLE_BYTES;
	return CUPTI_SUCCESS;
}

struct data_size {
	PM_HEAD;
	struct object *object;
	const char **names;
	size_t count;
	uint32_t most;
	size_t length;
};

CUPTI(cuptiPmSamplingGetCounterDataSize, (struct data_size *b))
{
	PM_CHECK(b, length);
	b->length = sizeof(struct image) + b->most * sizeof(struct sample);
	return b->count ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

struct data_initialize {
	PM_HEAD;
	struct object *object;
	size_t length;
	struct image *image;
};

CUPTI(cuptiPmSamplingCounterDataImageInitialize, (struct data_initialize *b))
{
	PM_CHECK(b, image);
	uint64_t most = (b->length - sizeof(struct image)) / sizeof(struct sample);
	if (sim_config()->pm_image && most > sim_config()->pm_image)
		most = sim_config()->pm_image;
	*b->image = (struct image){IMAGE_MAGIC, (uint32_t)most, 0, 0};
	return CUPTI_SUCCESS;
}

CUPTI(cuptiPmSamplingStart, (struct of_object *b))
{
	PM_CHECK(b, object);
	struct object *o = b->object;
	if (!o->interval)
		return CUPTI_ERROR_INVALID_OPERATION;
	if (o->overflowed)
		return CUPTI_ERROR_UNKNOWN;
	o->first = o->running = true;
	o->decoded = sim_now() / o->interval;
	return CUPTI_SUCCESS;
}

CUPTI(cuptiPmSamplingStop, (struct of_object *b))
{
	PM_CHECK(b, object);
	b->object->running = false;
	return CUPTI_SUCCESS;
}

/* The edge at the end of an interval: some ns off its multiple. */
static uint64_t edge(const struct object *o, uint64_t step)
{
	return cupti_gpu_time(step * o->interval) + step % 5 * 16 - 32;
}

static struct sample sample(struct object *o, uint64_t step)
{
	static uint64_t made;
	struct sample s = {edge(o, step - 1), edge(o, step), step};
	if (++made <= sim_config()->pm_strange) {
		s.start += STRANGE_NS;
		s.end += STRANGE_NS;
	}
	if (step % ODD_EVERY == 0)
		s.start += ODD_NS;
	if (o->first)
		s.start = cupti_gpu_time(o->configured - REACH_NS);
	o->first = false;
	return s;
}

struct decode {
	PM_HEAD;
	struct object *object;
	struct image *image;
	size_t length;
	uint32_t stop;
	uint8_t overflow;
};

/* Whether the hardware's buffer is full, by the samples in it or by CUDASIM_PM_OVERFLOW. */
static bool overflows(struct object *o, uint64_t now)
{
	static uint64_t calls;
	if (now - o->decoded > o->room || ++calls == sim_config()->pm_overflow)
		o->overflowed = true;
	return o->overflowed;
}

CUPTI(cuptiPmSamplingDecodeData, (struct decode *b))
{
	PM_CHECK(b, overflow);
	struct object *o = b->object;
	struct image *m = b->image;
	uint64_t now = sim_now() / o->interval;
	if (m->magic != IMAGE_MAGIC)
		return CUPTI_ERROR_INVALID_PARAMETER;
	b->stop = b->overflow = 0;
	m->mute = o->mute;
	if (overflows(o, now)) {
		b->overflow = 1;
		return CUPTI_ERROR_OUT_OF_MEMORY;
	}
	for (; o->decoded < now; o->decoded++) {
		struct sample s = sample(o, o->decoded + 1);
		if (m->count < m->most)
			m->samples[m->count++] = s;
		else
			b->stop = 1;
	}
	return CUPTI_SUCCESS;
}

struct data_info {
	PM_HEAD;
	const struct image *image;
	size_t length, total, populated, completed;
};

CUPTI(cuptiPmSamplingGetCounterDataInfo, (struct data_info *b))
{
	PM_CHECK(b, completed);
	b->total = b->image->most;
	b->populated = b->image->count;
	b->completed = b->image->mute ? 0 : b->image->count;
	return CUPTI_SUCCESS;
}

struct sample_info {
	PM_HEAD;
	struct object *object;
	const struct image *image;
	size_t length, index;
	uint64_t start, end;
};

CUPTI(cuptiPmSamplingCounterDataGetSampleInfo, (struct sample_info *b))
{
	uint64_t step;
	PM_CHECK(b, end);
	CUptiResult r = pm_step(b->image, b->length, b->index, &step);
	if (r == CUPTI_SUCCESS) {
		b->start = b->image->samples[b->index].start;
		b->end = b->image->samples[b->index].end;
	}
	return r;
}
