/*
 * The rules by which the injected library selects NVTX ranges, for a test that compares them with the recorder's: reads
 * lines of four texts in hexadecimal (a glob of names, one of domains, a name, a domain), and writes a line for each:
 * the number of the range, -1 for one without a number and -2 for one that is not selected.
 *
 * With an argument, two threads begin ranges, the second while the first has the records switched on: it writes whether
 * they were on when each had begun.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "range.c"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
void ct_lock(struct ct_lock *l) { (void)l, pthread_mutex_lock(&mutex); }
void ct_unlock(struct ct_lock *l) { (void)l, pthread_mutex_unlock(&mutex); }
bool ct_forked(void) { return false; }
void ct_queue_note(uint32_t severity, const char *text) { (void)severity, (void)text; }

enum { GLOB, DOMAIN_GLOB, NAME, DOMAIN, TEXTS, MOST = 4096 };

static void decode(char *to, const char *hex)
{
	size_t n = 0;
	for (; n < MOST - 1 && *hex > ' ' && sscanf(hex, "%2hhx", (unsigned char *)&to[n]) == 1; hex += 2)
		n++;
	to[n] = 0;
}

static long selects(struct text range, struct text of)
{
	return selects_domain(of) ? (long)selected(range) : UNSELECTED;
}

static atomic_bool on, second_has_begun;
static atomic_int switches;
static pthread_t second;

static void *begin_second(void *unused)
{
	(void)unused;
	on_RangePushA("step");
	printf("%d ", atomic_load(&on));
	atomic_store(&second_has_begun, true);
	return NULL;
}

/* The first thread goes on when the second is here, too, or has begun its range without. */
static void switch_on(void)
{
	bool first = atomic_fetch_add(&switches, 1) == 0;
	if (first)
		pthread_create(&second, NULL, begin_second, NULL);
	while (first && atomic_load(&switches) == 1 && !atomic_load(&second_has_begun))
		sched_yield();
	atomic_store(&on, true);
}

static int begin_both(void)
{
	ct_range_choose("step", 4, 0, 0);
	atomic_store(&changed, switch_on);
	on_RangePushA("step");
	pthread_join(second, NULL);
	printf("%d\n", atomic_load(&on));
	return 0;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return begin_both();
	static char line[16 * MOST], text[TEXTS][MOST];
	while (fgets(line, sizeof line, stdin)) {
		char *at = line;
		for (int i = 0; i < TEXTS; i++, at += strcspn(at, " \n") + 1)
			decode(text[i], at);
		memset(name, 0, sizeof name);
		memcpy(name, text[GLOB], strlen(text[GLOB]));
		domain_name = text[DOMAIN_GLOB];
		printf("%ld\n", selects(text_of(text[NAME]), text_of(text[DOMAIN])));
	}
	return 0;
}
