/*
 * The sampler: a process beside the recorder that reads what a GPU does besides our program's
 * calls. It makes no CUDA context and runs as the user of the recorded program.
 *
 *   main.c     the loop: orders of the recorder, ticks
 *   gpu.c      the GPUs, and what is due for each
 *   board.c    clocks, temperatures, throttle reasons, utilisation, memory; power.c: power every 20 ms; gpm.c: units
 *   series.c   rows of values, and times without any
 *   nvml.c     NVML, loaded at run time
 *   out.c      messages; wire.h: their format
 *   start.c    the entry point
 *
 * It ends with the recorder: the kernel kills it with its parent, and the socket's end is the recorder's
 * end. It prints nothing. One thread does everything; an error ends a series, or the process.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "gpu.h"
#include "nvml.h"
#include "out.h"

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

/* Carries out one order. False: the sampler is to end. */
static bool obey(void)
{
	struct gs_order order;
	struct gs_head done;
	ssize_t n = recv(GS_SOCKET, &order, sizeof order, 0);
	if (n != sizeof order)
		return false; /* the recorder is gone */
	switch (order.type) {
	case GS_START:
		gs_gpu_start(order.device);
		return true;
	case GS_STOP:
		gs_gpu_stop(order.device);
		return true;
	}
	gs_gpus_stop();
	gs_send(&done, GS_DONE, sizeof done);
	return false;
}

/* Milliseconds until a time, for poll; -1 for ever where nothing is sampled. */
static int patience(uint64_t next)
{
	uint64_t now = gs_now();
	if (gs_gpus_sampled() == 0)
		return -1;
	return now >= next ? 0 : (int)((next - now + GS_MS - 1) / GS_MS);
}

static void serve(void)
{
	struct pollfd orders = {.fd = GS_SOCKET, .events = POLLIN};
	uint64_t next = 0;
	for (;;) {
		if (poll(&orders, 1, patience(next)) > 0 && !obey())
			return;
		uint64_t now = gs_now();
		if (gs_gpus_sampled() == 0 || now < next)
			continue;
		if (next > 0 && now < next + GS_TICK_MS * GS_MS)
			next += GS_TICK_MS * GS_MS;
		else
			next = now + GS_TICK_MS * GS_MS; /* ticks that were missed are left out */
		gs_gpus_tick();
	}
}

int main(void)
{
	char text[200];
	confine();
	uint32_t why = gs_nvml_open(text, sizeof text);
	if (why) {
		gs_send_failed(why, text);
		_exit(0);
	}
	gs_gpus_report();
	serve();
	_exit(0); /* the library's exit handlers have nothing to do for us */
}
