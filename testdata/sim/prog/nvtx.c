/* NVTX around GPU work: nested ranges, a second domain, ranges that start on one
 * thread and end on another, marks, names of threads, streams and the context. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvtx_sim.h"
#include "options.h"
#include "work.h"

static struct {
	long ranges, marks, names; /* that a tool must see */
} issued;

static nvtxDomainHandle_t domain;
static int level; /* of the outermost range of a step */
static nvtxRangeId_t across;

static nvtxEventAttributes_t attributes(const char *text)
{
	return (nvtxEventAttributes_t){
		.version = 3, .size = sizeof(nvtxEventAttributes_t), .category = 5,
		.colorType = NVTX_COLOR_ARGB, .color = 0xff00ff00,
		.payloadType = NVTX_PAYLOAD_UINT64, .payload.ullValue = 42,
		.messageType = NVTX_MESSAGE_ASCII, .message.ascii = text,
	};
}

static int expect(int got, int with_tool)
{
	int tool = getenv("NVTX_INJECTION64_PATH") != NULL;
	if (got == (tool ? with_tool : -2))
		return 0;
	fprintf(stderr, "nvtx: %d where %d was to come\n", got, with_tool);
	return 1;
}

/* step: { outer: { inner }, in the other domain: model } */
static int step(struct work *w, nvtxStringHandle_t model)
{
	nvtxEventAttributes_t a = attributes(NULL);
	a.messageType = NVTX_MESSAGE_REGISTERED;
	a.message.registered = model;
	int bad = expect(nvtxRangePushA("step"), level);
	bad += expect(nvtxDomainRangePushEx(domain, &a), 0);
	work_launch(w, 2);
	bad += expect(nvtxRangePushA("inner"), level + 1);
	work_launch(w, 1);
	nvtxMarkA("half-way");
	bad += expect(nvtxRangePop(), level + 1);
	bad += expect(nvtxDomainRangePop(domain), 0);
	bad += expect(nvtxRangePop(), level);
	issued.ranges += 3;
	issued.marks++;
	return bad;
}

static void *other_thread(void *arg)
{
	struct work *w = arg;
	nvtxNameOsThreadA((uint32_t)gettid(), "loader");
	issued.names++;
	nvtxRangePushA("in the loader");
	work_launch(w, 1);
	nvtxRangeEnd(across);
	nvtxRangePop();
	issued.ranges++;
	return NULL;
}

static int threads(struct work *w)
{
	nvtxEventAttributes_t a = attributes("epoch");
	pthread_t other;
	nvtxRangeId_t epoch = nvtxDomainRangeStartEx(domain, &a);
	across = nvtxRangeStartA("across threads");
	if (pthread_create(&other, NULL, other_thread, w))
		return 1;
	pthread_join(other, NULL);
	nvtxDomainRangeEnd(domain, epoch);
	issued.ranges += 2;
	a = attributes("saved");
	nvtxDomainMarkEx(domain, &a);
	issued.marks++;
	return 0;
}

/* Marks with long texts, each another one. */
static void long_texts(long n, long bytes)
{
	static char text[65536];
	memset(text, 'x', sizeof text);
	text[bytes < (long)sizeof text ? bytes : (long)sizeof text - 1] = 0;
	for (long i = 0; i < n; i++) {
		for (long at = 0, rest = i; at < 7; at++, rest /= 10)
			text[at] = (char)('0' + rest % 10);
		nvtxMarkA(text);
		issued.marks++;
	}
}

/* "model", as long as that. */
static const char *domain_name(long bytes)
{
	static char name[65536] = "model";
	for (long at = 5; at < bytes && at < (long)sizeof name - 1; at++)
		name[at] = '-';
	return name;
}

static pid_t child;

/* Forks; only the child goes on. */
static int is_child(void)
{
	fflush(NULL);
	child = fork();
	return child == 0;
}

static int wait_for_child(void)
{
	int status = 1;
	return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 10, 1);
	struct work w;
	int bad = 0;
	if (option_number(argc, argv, "-e", 0, 0)) { /* begins before CUDA does */
		nvtxRangePushA("early");
		level = 1;
		issued.ranges++;
	}
	if (option_number(argc, argv, "-f", 0, 0) && !is_child())
		return wait_for_child();
	work_begin(&w);
	nvtxNameOsThreadA((uint32_t)gettid(), "trainer");
	nvtxNameCudaStreamA(w.stream, "compute");
	nvtxNameCuContextA(NULL, "primary");
	issued.names += 3;
	domain = nvtxDomainCreateA(domain_name(option_number(argc, argv, "-d", 5, 5)));
	nvtxStringHandle_t model = nvtxDomainRegisterStringA(domain, "forward");
	for (long i = 0; i < n; i++)
		bad += step(&w, model);
	if (option_number(argc, argv, "-w", 0, 0)) {
		bad += expect(nvtxRangePushW(L"wide gr\u00f6\u00dfe"), level);
		work_launch(&w, 1);
		bad += expect(nvtxRangePop(), level);
		issued.ranges++;
	}
	long_texts(option_number(argc, argv, "-t", 0, 0), option_number(argc, argv, "-b", 2000, 8));
	bad += threads(&w);
	if (level > 0)
		bad += expect(nvtxRangePop(), 0);
	nvtxRangePushA("never popped");
	issued.ranges++;
	bad += work_end(&w);
	counts_print("counts", w.issued);
	printf("nvtx ranges=%ld marks=%ld names=%ld open=1\n", issued.ranges, issued.marks, issued.names);
	return bad != 0;
}
