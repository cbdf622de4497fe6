#include "series.h"

#include <stddef.h>
#include <string.h>

#include "out.h"

void gs_series_begin(struct gs_series *s, struct gs_set *set, uint64_t now)
{
	*s = (struct gs_series){.set = set->set, .count = set->count, .last = now};
	gs_send(set, GS_SET, sizeof *set);
}

static struct gs_rows rows; /* not sent yet */

void gs_series_flush(struct gs_series *s)
{
	if (rows.count == 0)
		return;
	rows.set = s->set;
	gs_send(&rows, GS_ROWS, offsetof(struct gs_rows, words) + rows.count * (2 + s->count) * sizeof(uint64_t));
	rows.count = 0;
}

static void send_lost(struct gs_series *s, uint64_t end)
{
	struct gs_lost m = {.set = s->set, .start = s->last, .end = end};
	gs_series_flush(s); /* what comes before it */
	if (end > s->last)
		gs_send(&m, GS_LOST, sizeof m);
	s->last = end;
	s->broken = false;
}

static void add(struct gs_series *s, uint64_t end, const double *values)
{
	size_t width = 2 + s->count;
	if ((rows.count + 1) * width > sizeof rows.words / sizeof *rows.words)
		gs_series_flush(s);
	uint64_t *row = &rows.words[rows.count++ * width];
	row[0] = s->last;
	row[1] = end;
	memcpy(&row[2], values, s->count * sizeof *values);
	s->last = end;
}

void gs_series_row(struct gs_series *s, uint64_t end, const double *values)
{
	if (end <= s->last)
		return;
	if (s->broken)
		send_lost(s, end);
	else
		add(s, end, values);
}

void gs_series_span(struct gs_series *s, uint64_t start, uint64_t end, uint64_t slack, const double *values)
{
	if (end <= s->last) {
		s->broken = true;
		return;
	}
	if (s->last == 0)
		s->last = start;
	if (start > s->last && (s->broken || start - s->last > slack))
		send_lost(s, start);
	s->broken = false;
	add(s, end, values);
}

void gs_series_fail(struct gs_series *s)
{
	s->broken = true;
}

void gs_series_end(struct gs_series *s, uint64_t end)
{
	if (s->broken)
		send_lost(s, end);
}
