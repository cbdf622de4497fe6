/* Which metrics of a GPU are sampled together: all of them in one pass. */
#ifndef GS_CHOICE_H
#define GS_CHOICE_H

#include "cupti.h"
#include "wire.h"

struct gs_chip {
	const char *name;
	uint8_t *units; /* CUPTI's image of the units that answer on this GPU; NULL: all that such a chip may have */
};

struct gs_choice {
	const char *names[GS_METRICS_MAX];
	uint32_t count;
	void *host; /* CUPTI's object of these metrics */
	uint8_t *config;
	size_t length; /* of config */
};

/* The name of a GPU's chip; NULL if CUPTI does not know the GPU. */
const char *gs_chip_name(uint32_t device, struct gs_trouble *t);

/* Asks CUPTI which units of a GPU answer. The question takes 0.3 s, needs the GPU's counters and fails while another process
 * has them. The caller frees the image. */
bool gs_chip_units(struct gs_chip *chip, uint32_t device, struct gs_trouble *t);

/* Chooses, in their order, the metrics that fit one pass with those before them. */
bool gs_choose(struct gs_choice *c, const struct gs_chip *chip, const char *const *wanted, uint32_t count, struct gs_trouble *t);

/* How many passes metrics need together; 0 if the GPU has one of them not. The choice is then of them. */
size_t gs_passes(struct gs_choice *c, const struct gs_chip *chip, const char *const *names, uint32_t count, struct gs_trouble *t);

/* Opens an object of a chip without metrics; lets go of what a choice holds. */
bool gs_choice_open(struct gs_choice *c, const struct gs_chip *chip, struct gs_trouble *t);
void gs_choice_close(struct gs_choice *c);

#endif
