/* Texts that records point to. Each text is stored once and never freed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BUCKETS 4096u

struct text {
	struct text *next;
	char bytes[];
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct text *buckets[BUCKETS];

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;
	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

const char *cupti_keep(const char *s)
{
	if (!s)
		return NULL;
	struct text **at = &buckets[hash(s) % BUCKETS];
	pthread_mutex_lock(&mu);
	struct text *t = *at;
	while (t && strcmp(t->bytes, s))
		t = t->next;
	if (!t && (t = malloc(sizeof *t + strlen(s) + 1))) {
		strcpy(t->bytes, s);
		t->next = *at;
		*at = t;
	}
	pthread_mutex_unlock(&mu);
	return t ? t->bytes : NULL;
}
