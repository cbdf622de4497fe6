/*
 * The sampler: a process beside the recorder that reads what a GPU does besides our program's
 * calls. It makes no CUDA context and runs as the user of the recorded program.
 *
 *   main.c     the loop: orders of the recorder, ticks
 *   gpu.c      the GPUs, and what is due for each
 *   board.c    clocks, temperatures, throttle reasons, utilisation, memory; power.c: power every 20 ms; gpm.c: units
 *   series.c   rows of values, and times without any
 *   nvml.c     NVML, loaded at run time; library.c: functions of such libraries
 *   pm.c       PM sampling, in a process of its own: what fails there takes nothing else with it
 *   out.c      messages; wire.h: their format
 *   start.c    the entry point
 *
 * It ends with the recorder: the kernel kills it with its parent, and the socket's end is the recorder's
 * end. It prints nothing. Without arguments it reads NVML; with pm it samples by CUPTI, with list it lists what
 * could be sampled. One thread does everything; an error ends a series, or the process.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "gpu.h"
#include "nvml.h"
#include "out.h"
#include "pm.h"

#define FAILURE "CUDATRACE_FAILURE" /* variable: of a library before */

#ifndef GS_SOURCES
#define GS_SOURCES "none"
#endif
__attribute__((used, section(".cudatrace"))) static const char sources[] = "sources sha256 " GS_SOURCES;

/* What a guest of the driver's libraries may not do: gain rights, leave a core file, answer a terminal's signals. */
static void confine(void)
{
	struct rlimit none = {0, 0};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "cudatrace-gpu");
	setrlimit(RLIMIT_CORE, &none);
}

/* What is sampled: the GPUs by NVML, or by CUPTI. */
struct source {
	void (*start)(uint32_t index);
	void (*stop)(uint32_t index);
	void (*stop_all)(void);
	uint32_t (*sampled)(void);
	void (*tick)(void);
	uint64_t interval; /* ns between two ticks */
};

/* Carries out one order. False: the sampler is to end. */
static bool obey(const struct source *s)
{
	struct gs_order order;
	struct gs_head done;
	ssize_t n = recv(GS_SOCKET, &order, sizeof order, 0);
	if (n != sizeof order)
		return false; /* the recorder is gone */
	switch (order.type) {
	case GS_START:
		s->start(order.device);
		return true;
	case GS_STOP:
		s->stop(order.device);
		return true;
	}
	s->stop_all();
	gs_send(&done, GS_DONE, sizeof done);
	return false;
}

/* Milliseconds until a time, for poll; -1 for ever where nothing is sampled. */
static int patience(const struct source *s, uint64_t next)
{
	uint64_t now = gs_now();
	if (s->sampled() == 0)
		return -1;
	return now >= next ? 0 : (int)((next - now + GS_MS - 1) / GS_MS);
}

static void serve(const struct source *s)
{
	struct pollfd orders = {.fd = GS_SOCKET, .events = POLLIN};
	uint64_t next = 0;
	for (;;) {
		if (poll(&orders, 1, patience(s, next)) > 0 && !obey(s))
			return;
		uint64_t now = gs_now();
		if (s->sampled() == 0 || now < next)
			continue;
		if (next > 0 && now < next + s->interval)
			next += s->interval;
		else
			next = now + s->interval; /* ticks that were missed are left out */
		s->tick();
	}
}

static void sample_boards(void)
{
	const struct source boards = {
		gs_gpu_start, gs_gpu_stop, gs_gpus_stop, gs_gpus_sampled, gs_gpus_tick, GS_TICK_MS * GS_MS,
	};
	char text[200];
	uint32_t why = gs_nvml_open(text, sizeof text);
	if (why) {
		gs_send_failed(why, text);
		return;
	}
	gs_gpus_report();
	serve(&boards);
}

static void sample_counters(uint32_t rate, char *names)
{
	const char *list[GS_METRICS_MAX];
	uint32_t count = 0;
	char *rest;
	for (char *n = strtok_r(names, ",", &rest); n && count < GS_METRICS_MAX; n = strtok_r(NULL, ",", &rest))
		list[count++] = n;
	if (rate < GS_PM_RATE_MIN || rate > GS_PM_RATE_MAX || count == 0)
		return; /* the recorder asks for no such thing */
	gs_pm_begin(rate, list, count);
	const struct source counters = {gs_pm_start, gs_pm_stop, gs_pm_stop_all, gs_pm_sampled, gs_pm_tick, gs_pm_poll()};
	serve(&counters);
}

/* Whether another library may do better than one that has failed. */
static bool another_may_do(const struct gs_trouble *t)
{
	return t->why != GS_NO_CUDA && t->why != GS_NO_RIGHTS && t->why != GS_BUSY;
}

/* The failure of a library that is there tells more than that of the next one, which may not be. */
static void remember(struct gs_trouble *t)
{
	char *end, text[sizeof t->text + 16];
	const char *before = getenv(FAILURE);
	if (t->why == GS_NO_LIBRARY && before) {
		t->why = (uint32_t)strtoul(before, &end, 10);
		snprintf(t->text, sizeof t->text, "%s", end + 1);
	}
	snprintf(text, sizeof text, "%u %s", t->why, t->text);
	if (t->why != GS_NO_LIBRARY)
		setenv(FAILURE, text, 1);
}

/* Starts CUPTI with the first of several libraries. A library that was tried may be in the way of the next one: the
 * program starts anew with the rest. */
static bool open_cupti(char **argv, char *libraries)
{
	struct gs_trouble t;
	char *next = strchr(libraries, ':');
	if (next)
		*next++ = 0;
	if (gs_cupti_open(libraries, &t))
		return true;
	bool again = next && another_may_do(&t);
	remember(&t);
	if (again) {
		memmove(libraries, next, strlen(next) + 1);
		execv("/proc/self/exe", argv);
	}
	gs_send_failed(t.why, t.text);
	return false;
}

/* Arguments: none; pm LIBRARY:... RATE METRIC,...; list LIBRARY:... */
int main(int argc, char **argv)
{
	confine();
	if (argc == 1)
		sample_boards();
	else if (argc > 2 && open_cupti(argv, argv[2])) {
		if (argc == 5)
			sample_counters((uint32_t)strtoul(argv[3], NULL, 10), argv[4]);
		else
			gs_pm_list();
	}
	_exit(0); /* the libraries' exit handlers have nothing to do for us */
}
