#include <sys/prctl.h>
#include <signal.h>

#include "internal.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static struct sim_host_work *queue[64];
static size_t first, len;
static bool started;

static void *runner(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "cuda-EvtHandlr"); /* as NVIDIA's driver names its threads */
	for (;;) {
		pthread_mutex_lock(&mu);
		while (!len)
			pthread_cond_wait(&given, &mu);
		struct sim_host_work *w = queue[first];
		first = (first + 1) % (sizeof queue / sizeof *queue);
		len--;
		pthread_mutex_unlock(&mu);
		w->fn(w->data);
		atomic_store(&w->state, SIM_HOST_DONE);
		sim_engine_hurry();
	}
	return NULL;
}

static void start_runner(void)
{
	pthread_t thread;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	started = pthread_create(&thread, NULL, runner, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (started)
		pthread_detach(thread);
}

/* The GPU thread calls this again until the function is accepted. */
void sim_host_start(struct sim_host_work *w)
{
	pthread_mutex_lock(&mu);
	if (!started)
		start_runner();
	size_t size = sizeof queue / sizeof *queue;
	if (started && len < size) {
		atomic_store(&w->state, SIM_HOST_RUNNING);
		queue[(first + len++) % size] = w;
		pthread_cond_signal(&given);
	}
	pthread_mutex_unlock(&mu);
}

CUresult sim_host_submit(CUstream stream, CUhostFn fn, void *data, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_work *w;
	CUresult r = fn ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_submit_begin(s, SIM_HOST, &w);
	if (r)
		return r;
	w->host.fn = fn;
	w->host.data = data;
	atomic_store(&w->host.state, SIM_HOST_NEW);
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

DRIVER_PTSZ(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *data), sim_host_submit(s, fn, data, which))
