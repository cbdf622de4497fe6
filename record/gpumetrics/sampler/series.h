/* A series: the rows of one set of metrics on one GPU, each from the end of the row before it. */
#ifndef GS_SERIES_H
#define GS_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct gs_series {
	uint32_t set, count; /* its number; its metrics */
	uint64_t last;       /* end of the last row, or the start of the series; 0: that of its first span */
	bool broken;         /* no value could be read since then */
};

/* Announces a set and begins its series. */
void gs_series_begin(struct gs_series *s, struct gs_set *set, uint64_t now);

/* Adds a row that ends at a time. After a gap the row only ends the gap. */
void gs_series_row(struct gs_series *s, uint64_t end, const double *values);

/* Adds a row with a start of its own. Time since the row before it, or since a failure, is lost where it is
 * longer than the slack, which is how far clocks move. */
void gs_series_span(struct gs_series *s, uint64_t start, uint64_t end, uint64_t slack, const double *values);

/* Sends the rows that were added. It comes before rows of another series. */
void gs_series_flush(struct gs_series *s);

/* Notes that the values could not be read. */
void gs_series_fail(struct gs_series *s);

/* Ends the series at a time: reports a gap that has no end yet. */
void gs_series_end(struct gs_series *s, uint64_t end);

#endif
