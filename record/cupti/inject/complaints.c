/*
 * What CUPTI has refused, in words for a person. enable.c and switch.c add to them and
 * main.c sends them; they follow one another, so there is no lock. Nothing is printed.
 */
#include "complaints.h"

#include <stdio.h>
#include <string.h>

static char text[1024];

const char *ct_complaints(void)
{
	return text;
}

void ct_complaints_clear(void)
{
	text[0] = 0;
}

void ct_complain(const char *what, const char *more)
{
	size_t used = strlen(text);
	snprintf(text + used, sizeof text - used, "%s%s%s", used ? "; " : "", what, more);
}

/* A function of CUPTI has failed. */
void ct_complain_of(const struct ct_cupti *api, const char *what, const char *which, ct_result r)
{
	const char *words = NULL;
	char why[256];
	if (!api->get_result_string || api->get_result_string(r, &words) != 0)
		words = NULL;
	snprintf(why, sizeof why, "%s failed: %s (error %d)", which, words ? words : "no words for it", r);
	ct_complain(what, why);
}
