/*
 * A GPU's counters are opened (Enable, SetConfig, Start) and decoded at each poll. What CUPTI does and its
 * documentation does not say:
 *
 *   - The first sample after an opening reaches back to SetConfig or further: it is dropped.
 *   - Once the hardware's buffer is full, decoding fails for good. Only a new opening helps, and a new object:
 *     the interval of an object never changes.
 *   - Once the counter data image is full, the rest of what was decoded is lost, without an error.
 *   - An image has to be cleared before each decode. A decode adds to what is in it, but a sample then takes the
 *     longer to read the more lie before it: on an H200 109 in place of 80 us at 10 kHz. A second image of another size
 *     cannot be initialised (CUPTI_ERROR_INVALID_OPERATION).
 *   - A chip's metrics can be sampled where their unit does not answer, as NVLink's on a GPU without a link. Then
 *     no sample is ever complete. Only the availability of counters tells, and asking for it takes 0.3 s, so it is asked for
 *     where no sample is complete.
 *   - A second user of the counters is told so by SetConfig, not by Enable. Another process's mere question for
 *     available counters lasts 0.3 s.
 */
#include "pm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "choice.h"
#include "clock.h"
#include "out.h"
#include "series.h"

#define PM_SETS 0x10000u              /* number of the first GPU's set: those of NVML are below */
#define POLL_SAMPLES 250u             /* between two polls, where the bounds below allow it */
#define POLL_LONGEST (250 * GS_MS)    /* a decode call costs a millisecond, however few samples it has */
#define POLL_SHORTEST (50 * GS_MS)
#define POLLS_OF_IMAGE 2u             /* room in the counter data image: clearing it takes up to 0.4 ms a MB */
#define IMAGE_LEAST 64u               /* samples */
#define BUFFER_LEAST (64u << 20)      /* of the hardware, in host memory */
#define BUFFER_MOST (256u << 20)
#define BUFFER_OF_RATE (26u << 10)    /* 8 to 16 KiB a sample with 11 metrics: 1.6 s or more */
#define PATIENCE (2000ull * GS_MS)    /* for counters that another process uses */
#define CLOCK_SLACK (1000ull * GS_MS) /* by which a sample may seem to end in the future */
#define MUTE_LONGEST (200ull * GS_MS) /* after an opening, for the first complete sample */
#define FAILURES_MOST 5u              /* openings one after the other that bring no sample */

static struct pm {
	bool sampled;
	bool begun;       /* a sample since the opening */
	bool mute;        /* no sample was complete: a unit does not answer */
	void *object;     /* CUPTI's; NULL: its counters are busy */
	uint64_t opened;
	uint64_t patient; /* until then */
	uint32_t failures;
	struct gs_chip chip;
	struct gs_choice choice;
	uint8_t *image;
	size_t length; /* of image */
	struct gs_series series;
} pms[GS_DEVICES_MAX];

static struct {
	uint32_t rate, count;
	const char *const *names;
	uint32_t devices, sampled;
} wanted;

static uint64_t interval(void)
{
	return 1000000000u / wanted.rate;
}

uint64_t gs_pm_poll(void)
{
	uint64_t poll = POLL_SAMPLES * interval();
	return poll > POLL_LONGEST ? POLL_LONGEST : poll < POLL_SHORTEST ? POLL_SHORTEST : poll;
}

void gs_pm_report(void)
{
	struct gs_ready ready = {.version = GS_VERSION, .devices = gs_cuda_devices()};
	wanted.devices = ready.devices;
	gs_send(&ready, GS_READY, sizeof ready);
	for (uint32_t i = 0; i < ready.devices; i++) {
		struct gs_device m = {.device = i};
		if (gs_cuda_uuid(i, m.uuid, sizeof m.uuid))
			gs_send(&m, GS_DEVICE, sizeof m);
	}
}

void gs_pm_begin(uint32_t rate, const char *const *names, uint32_t count)
{
	wanted.rate = rate;
	wanted.names = names;
	wanted.count = count;
	gs_pm_report();
}

uint32_t gs_pm_sampled(void)
{
	return wanted.sampled;
}

static bool clear_image(struct pm *p, struct gs_trouble *t)
{
	struct cupti_data_initialize block = {
		.size = CUPTI_SIZE(struct cupti_data_initialize, image), .object = p->object, .length = p->length, .image = p->image,
	};
	return GS_CUPTI(cuptiPmSamplingCounterDataImageInitialize, &block, t);
}

/* Makes a counter data image with room for several polls. */
static bool make_image(struct pm *p, struct gs_trouble *t)
{
	uint32_t samples = (uint32_t)(POLLS_OF_IMAGE * gs_pm_poll() / interval());
	struct cupti_data_size block = {
		.size = CUPTI_SIZE(struct cupti_data_size, length), .object = p->object, .names = p->choice.names,
		.count = p->choice.count, .samples = samples < IMAGE_LEAST ? IMAGE_LEAST : samples,
	};
	if (!GS_CUPTI(cuptiPmSamplingGetCounterDataSize, &block, t))
		return false;
	free(p->image);
	p->length = block.length;
	p->image = calloc(1, block.length);
	return p->image ? clear_image(p, t) : gs_no_memory(t, block.length);
}

static bool set_config(struct pm *p, struct gs_trouble *t)
{
	uint64_t buffer = (uint64_t)wanted.rate * BUFFER_OF_RATE;
	struct cupti_set_config block = {
		.size = CUPTI_SIZE(struct cupti_set_config, append), .object = p->object, .length = p->choice.length,
		.config = p->choice.config, .interval = interval(), .trigger = CUPTI_TRIGGER_NS, .append = CUPTI_KEEP_OLDEST,
		.buffer = buffer < BUFFER_LEAST ? BUFFER_LEAST : buffer > BUFFER_MOST ? BUFFER_MOST : buffer,
	};
	int r = gs_cupti.cuptiPmSamplingSetConfig(&block);
	if (r == CUPTI_ERROR_INVALID_PARAMETER) { /* before CUDA 12.8 the block is shorter */
		block.size = CUPTI_SIZE(struct cupti_set_config, trigger);
		r = gs_cupti.cuptiPmSamplingSetConfig(&block);
	}
	return gs_cupti_ok(r, "cuptiPmSamplingSetConfig", t);
}

static int call_object(struct pm *p, int (*function)(void *))
{
	struct cupti_object block = {.size = CUPTI_SIZE(struct cupti_object, object), .object = p->object};
	return function(&block);
}

static void close_counters(struct pm *p)
{
	if (p->object)
		call_object(p, gs_cupti.cuptiPmSamplingDisable); /* nothing is left to do where it fails */
	p->object = NULL;
}

static bool open_counters(struct pm *p, struct gs_trouble *t)
{
	struct cupti_enable block = {.size = CUPTI_SIZE(struct cupti_enable, object), .device = (size_t)(p - pms)};
	if (!GS_CUPTI(cuptiPmSamplingEnable, &block, t))
		return false;
	p->object = block.object;
	p->opened = gs_now();
	p->begun = false;
	if (set_config(p, t) && make_image(p, t) && gs_cupti_ok(call_object(p, gs_cupti.cuptiPmSamplingStart), "cuptiPmSamplingStart", t))
		return true;
	close_counters(p);
	return false;
}

static void forget(struct pm *p)
{
	close_counters(p);
	gs_choice_close(&p->choice);
	free(p->image);
	free(p->chip.units);
	*p = (struct pm){0};
	wanted.sampled--;
}

/* Ends sampling a GPU and tells why. */
static void refuse(struct pm *p, const struct gs_trouble *t)
{
	struct gs_refused m = {.device = (uint32_t)(p - pms), .why = t->why};
	snprintf(m.text, sizeof m.text, "%s", t->text);
	gs_send(&m, GS_REFUSED, sizeof m);
	forget(p);
}

/* Begins the set with the first sample: it goes on over new openings. */
static void begin_series(struct pm *p)
{
	struct gs_set m = {
		.set = PM_SETS + (uint32_t)(p - pms), .device = (uint32_t)(p - pms), .source = GS_SOURCE_PM, .count = p->choice.count,
		.interval = interval(),
	};
	for (uint32_t i = 0; i < m.count; i++)
		snprintf(m.names[i], GS_NAME_SIZE, "%s", p->choice.names[i]);
	if (p->series.count == 0)
		gs_series_begin(&p->series, &m, 0);
}

static bool no_complete_sample(struct gs_trouble *t)
{
	t->why = GS_BROKEN;
	snprintf(t->text, sizeof t->text, "CUPTI completes no sample");
	return false;
}

/* Leaves out the metrics whose unit does not answer. False: there is none, or there are no others. */
static bool choose_again(struct pm *p, struct gs_trouble *t)
{
	uint32_t count = p->choice.count, device = (uint32_t)(p - pms);
	p->chip.name = gs_chip_name(device, t); /* another GPU's name may lie in the place of the first answer */
	if (!p->chip.name || !gs_chip_units(&p->chip, device, t))
		return false;
	gs_choice_close(&p->choice);
	if (!gs_choose(&p->choice, &p->chip, wanted.names, wanted.count, t))
		return false;
	p->mute = false;
	return p->choice.count < count || no_complete_sample(t);
}

/* Opens the counters, again where they were busy or have failed. */
static void try_to_open(struct pm *p)
{
	struct gs_trouble t;
	uint64_t now = gs_now();
	if ((!p->mute || choose_again(p, &t)) && open_counters(p, &t)) {
		p->patient = 0;
		return;
	}
	if (p->patient == 0)
		p->patient = now + PATIENCE;
	if (t.why != GS_BUSY || now >= p->patient)
		refuse(p, &t);
}

void gs_pm_start(uint32_t device)
{
	struct gs_trouble t;
	if (device >= wanted.devices || pms[device].sampled)
		return;
	struct pm *p = &pms[device];
	p->sampled = true;
	wanted.sampled++;
	p->chip.name = gs_chip_name(device, &t);
	if (!p->chip.name || !gs_choose(&p->choice, &p->chip, wanted.names, wanted.count, &t))
		refuse(p, &t);
	else
		try_to_open(p);
}

/* Takes a sample in. False: it has no values. */
static bool take(struct pm *p, size_t index, struct gs_trouble *t)
{
	double values[GS_METRICS_MAX];
	struct cupti_sample_info info = {
		.size = CUPTI_SIZE(struct cupti_sample_info, end), .object = p->object, .image = p->image, .length = p->length, .index = index,
	};
	struct cupti_evaluate evaluate = {
		.size = CUPTI_SIZE(struct cupti_evaluate, values), .host = p->choice.host, .image = p->image, .length = p->length,
		.index = index, .names = p->choice.names, .count = p->choice.count, .values = values,
	};
	if (!GS_CUPTI(cuptiPmSamplingCounterDataGetSampleInfo, &info, t))
		return false;
	if (!p->begun) {
		p->begun = true;
		begin_series(p);
		return true;
	}
	if (info.start >= info.end || info.end > gs_now() + CLOCK_SLACK) {
		t->why = GS_BROKEN;
		snprintf(t->text, sizeof t->text, "its samples have times of another clock");
		return false;
	}
	if (!GS_CUPTI(cuptiProfilerHostEvaluateToGpuValues, &evaluate, t))
		return false;
	gs_series_span(&p->series, info.start, info.end, interval() / 2, values);
	p->failures = 0;
	return true;
}

/* Whether samples come, of which none has ever been complete, for longer than the start takes. */
static bool is_mute(const struct pm *p, const struct cupti_data_info *info)
{
	return p->series.count == 0 && info->completed == 0 && info->populated > 0 && gs_now() - p->opened > MUTE_LONGEST;
}

/* Takes in what was decoded. False: not one sample has values. */
static bool take_all(struct pm *p, struct gs_trouble *t)
{
	struct cupti_data_info info = {.size = CUPTI_SIZE(struct cupti_data_info, completed), .image = p->image, .length = p->length};
	if (!GS_CUPTI(cuptiPmSamplingGetCounterDataInfo, &info, t))
		return false;
	p->mute = is_mute(p, &info);
	if (p->mute)
		return no_complete_sample(t);
	size_t good = 0;
	for (size_t i = 0; i < info.completed; i++)
		if (take(p, i, t))
			good++;
		else
			gs_series_fail(&p->series);
	gs_series_flush(&p->series);
	return good > 0 || info.completed == 0;
}

/* Decodes. False: the counters have to be opened anew. */
static bool decode(struct pm *p, struct gs_trouble *t)
{
	struct cupti_decode block = {
		.size = CUPTI_SIZE(struct cupti_decode, overflow), .object = p->object, .image = p->image, .length = p->length,
	};
	if (!GS_CUPTI(cuptiPmSamplingDecodeData, &block, t))
		return false;
	if (block.overflow) {
		t->why = GS_BROKEN;
		snprintf(t->text, sizeof t->text, "the hardware's buffer overflows");
		return false;
	}
	if (!take_all(p, t))
		return false;
	if (block.stop == CUPTI_STOP_FULL)
		gs_series_fail(&p->series);
	return clear_image(p, t);
}

static void read_counters(struct pm *p)
{
	struct gs_trouble t;
	if (p->object && decode(p, &t))
		return;
	if (p->object) {
		gs_series_fail(&p->series);
		close_counters(p);
		if (++p->failures > FAILURES_MOST) {
			refuse(p, &t);
			return;
		}
	}
	try_to_open(p);
}

void gs_pm_tick(void)
{
	for (uint32_t i = 0; i < wanted.devices; i++)
		if (pms[i].sampled)
			read_counters(&pms[i]);
}

/* The last samples, while the counters are still open. */
static void finish(struct pm *p)
{
	struct gs_trouble t;
	if (p->object && (call_object(p, gs_cupti.cuptiPmSamplingStop) != 0 || !decode(p, &t)))
		gs_series_fail(&p->series);
	if (p->series.last > 0)
		gs_series_end(&p->series, gs_now());
}

void gs_pm_stop(uint32_t device)
{
	if (device >= wanted.devices || !pms[device].sampled)
		return;
	finish(&pms[device]);
	forget(&pms[device]);
}

/* The recorder ends: the process's end closes the counters sooner than CUPTI would. */
void gs_pm_stop_all(void)
{
	for (uint32_t i = 0; i < wanted.devices; i++)
		if (pms[i].sampled)
			finish(&pms[i]);
}
