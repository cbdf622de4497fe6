/* CUPTI's own thread. Only this thread calls the client's completion callback. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "internal.h"

#define SPARES 4096

struct item {
	struct item *next;
	uint32_t tid;
	uint8_t *buffer;
	size_t size, valid;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER, delivered = PTHREAD_COND_INITIALIZER;
static struct item *first, **last = &first;
static uint64_t in, out; /* buffers given and delivered */
static struct item spare[SPARES]; /* for a program without memory */
static size_t spares; /* that were used */
static pthread_t thread;
static bool started;

static void *deliver(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&mu);
		while (!first)
			pthread_cond_wait(&given, &mu);
		struct item *i = first;
		first = i->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&mu);
		cupti_complete(i->tid, i->buffer, i->size, i->valid);
		if (i < spare || i >= spare + SPARES)
			free(i);
		pthread_mutex_lock(&mu);
		out++;
		pthread_cond_broadcast(&delivered);
		pthread_mutex_unlock(&mu);
	}
	return NULL;
}

int cupti_worker_start(void)
{
	sigset_t all, old;
	int r = 0;
	pthread_mutex_lock(&mu);
	if (!started) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		r = pthread_create(&thread, NULL, deliver, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		started = r == 0;
	}
	pthread_mutex_unlock(&mu);
	return r;
}

void cupti_worker_give(uint32_t tid, uint8_t *buffer, size_t size, size_t valid)
{
	struct item *i = malloc(sizeof *i);
	pthread_mutex_lock(&mu);
	if (!i && spares == SPARES)
		abort();
	if (!i)
		i = &spare[spares++];
	*i = (struct item){NULL, tid, buffer, size, valid};
	*last = i;
	last = &i->next;
	in++;
	pthread_cond_signal(&given);
	pthread_mutex_unlock(&mu);
}

int cupti_worker_wait(void)
{
	if (started && pthread_equal(pthread_self(), thread))
		return CUPTI_ERROR_INVALID_OPERATION; /* from the completion callback itself */
	pthread_mutex_lock(&mu);
	uint64_t target = in;
	while (out < target)
		pthread_cond_wait(&delivered, &mu);
	pthread_mutex_unlock(&mu);
	return CUPTI_SUCCESS;
}
