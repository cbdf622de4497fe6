/* Steps of a training loop as NVTX ranges: two launches in each, one between. */
#include <stdio.h>

#include "nvtx_sim.h"
#include "options.h"
#include "work.h"

enum form { NUMBER, SIGN, REGISTERED, STARTED, PLAIN, COMMA, OVERLAPPING };

static nvtxDomainHandle_t domain;

static void launch_in_pushed(struct work *w, const char *text)
{
	nvtxRangePushA(text);
	work_launch(w, 2);
	nvtxRangePop();
}

static void launch_in_registered(struct work *w, const char *text)
{
	nvtxEventAttributes_t a = {
		.version = 3, .size = sizeof(nvtxEventAttributes_t), .messageType = NVTX_MESSAGE_REGISTERED,
		.message.registered = nvtxDomainRegisterStringA(domain, text),
	};
	nvtxDomainRangePushEx(domain, &a);
	work_launch(w, 2);
	nvtxDomainRangePop(domain);
}

static void launch_in_started(struct work *w, const char *text)
{
	nvtxRangeId_t id = nvtxRangeStartA(text);
	work_launch(w, 2);
	nvtxRangeEnd(id);
}

static void launch_in_overlapping(struct work *w, const char *text)
{
	nvtxRangePushA(text);
	work_launch(w, 1);
	nvtxRangeId_t id = nvtxRangeStartA(text);
	nvtxRangePop();
	work_launch(w, 1);
	nvtxRangeEnd(id);
}

static void step(struct work *w, enum form form, long number)
{
	char text[48];
	const char *const names[] = {
		[NUMBER] = "step %ld", [SIGN] = "step#%ld", [REGISTERED] = "step_%ld", [STARTED] = "step:%ld", [PLAIN] = "step", [COMMA] = "step, seq = %ld", [OVERLAPPING] = "step",
	};
	snprintf(text, sizeof text, names[form], number);
	switch (form) {
	case REGISTERED:
		launch_in_registered(w, text);
		break;
	case STARTED:
		launch_in_started(w, text);
		break;
	case OVERLAPPING:
		launch_in_overlapping(w, text);
		break;
	default:
		launch_in_pushed(w, text);
	}
}

int main(int argc, char **argv)
{
	enum form form = (enum form)option_number(argc, argv, "-f", NUMBER, 0);
	long n = option_number(argc, argv, "-n", 20, 1);
	long epoch = option_number(argc, argv, "-e", n, 1); /* steps after which the numbers begin again */
	long domains = option_number(argc, argv, "-d", 1, 1); /* of one name, of which the last is used */
	struct work w;
	work_begin(&w);
	for (long i = 0; i < domains; i++)
		domain = nvtxDomainCreateA("model");
	for (long i = 0; i < n; i++) {
		if (form == SIGN)
			nvtxRangePushW(L"step#7"); /* selects nothing */
		work_launch(&w, 1);
		if (form == SIGN)
			nvtxRangePop();
		step(&w, form, i % epoch);
		nvtxRangePushA("stepping"); /* another name */
		nvtxRangePop();
	}
	int bad = work_end(&w);
	counts_print("counts", w.issued);
	return bad != 0;
}
