/*
 * Does what its standard input says, a line for each: launch N (kernels), fail (an allocation), alloc
 * (1 MiB, which stays), open (an NVTX range, which stays), start (one of another domain), stop (ends it), step N (an NVTX range around N ms), child (a
 * process that uses CUDA and crashes), capture (a graph of a kernel and a copy), graph N (launches of
 * it), driver N (by the driver's own function), profile (takes CUPTI's one subscription, by cuptiSubscribe_v2 with profile 2),
 * profiled (gives it back), keep (looks cuptiSubscribe up, for all later profiles), clock (CUPTI's becomes the processor's counter), subscribed
 * (waits until anybody has it), sandbox (enters one that allows everything), exit (as the end of the input does). Answers
 * each line with "done" when the GPU is idle. With --exits its exit handlers last until the input ends, behind CUDA's.
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../include/cupti_sim.h"
#include "nvtx_sim.h"
#include "options.h"
#include "work.h"

static long failed, children;
#ifdef THREAD_LOCAL
static __thread volatile char own[THREAD_LOCAL];
#endif

static void step(struct work *w, long ms)
{
	nvtxRangePushA("step");
	work_launch(w, 1);
	CHECK(cudaStreamSynchronize(w->stream));
	usleep((useconds_t)ms * 1000);
	nvtxRangePop();
}

static nvtxDomainHandle_t app;
static nvtxRangeId_t started;

static void start(void)
{
	nvtxEventAttributes_t a = {.version = 3, .size = sizeof a, .messageType = NVTX_MESSAGE_REGISTERED};
	if (!app)
		app = nvtxDomainCreateA("app");
	a.message.registered = nvtxDomainRegisterStringA(app, "request");
	started = nvtxDomainRangeStartEx(app, &a);
}

static void child(char **argv)
{
	pid_t pid = fork();
	if (pid == 0) {
		execl(argv[0], argv[0], "--crash", (char *)NULL);
		_exit(1);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	children += WIFSIGNALED(status);
}

static cudaGraphExec_t graph;
static int ran; /* copied by the graph */

static void capture(struct work *w)
{
	cudaGraph_t g;
	CHECK(cudaStreamBeginCapture(w->stream, 0));
	work_launch(w, 1);
	w->issued.kernels--;
	CHECK(cudaMemcpyAsync(&ran, w->cell, sizeof ran, cudaMemcpyDeviceToHost, w->stream));
	CHECK(cudaStreamEndCapture(w->stream, &g));
	CHECK(cudaGraphInstantiate(&graph, g, 0));
}

static void launch_graph(struct work *w, long n)
{
	for (; n > 0; n--, w->issued.kernels++, w->issued.copies++)
		CHECK(cudaGraphLaunch(graph, w->stream));
}

static void launch_by_driver(struct work *w, long n)
{
	int (*launch)(cudaGraphExec_t, cudaStream_t);
	*(void **)&launch = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphLaunch");
	for (; n > 0; n--, w->issued.kernels++, w->issued.copies++)
		failed += launch(graph, w->stream) != 0;
}

static void called(void *user, uint32_t domain, uint32_t id, const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static void *subscriber;

static void *of_cupti(const char *name)
{
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW), *f = cupti ? dlsym(cupti, name) : NULL;
	if (!f)
		abort();
	return f;
}

static void *kept;

static void profile(long version)
{
	CUptiResult (*subscribe)(void **, CUptiCallback, void *, void *);
	size_t params[4] = {sizeof params};
	*(void **)&subscribe = kept ? kept : of_cupti(version == 2 ? "cuptiSubscribe_v2" : "cuptiSubscribe");
	failed += subscribe(&subscriber, called, NULL, params) != 0;
}

static void profiled(void)
{
	CUptiResult (*unsubscribe)(void *);
	*(void **)&unsubscribe = of_cupti("cuptiUnsubscribe");
	failed += unsubscribe(subscriber) != 0;
}

#ifdef __x86_64__
static uint64_t counter(void)
{
	return __builtin_ia32_rdtsc();
}

/* As Kineto where it takes no subscription. */
static void take_clock(void)
{
	CUptiResult (*take)(uint64_t (*)(void));
	*(void **)&take = of_cupti("cuptiActivityRegisterTimestampCallback");
	failed += take(counter) != 0;
}
#endif

static void subscribed(void)
{
	int (*is)(void);
	for (*(void **)&is = of_cupti("cudasim_subscribed"); !is();)
		usleep(1000);
}

static void sandbox(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog all = {1, &allow};
	failed += prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) != 0;
}

static void tell(struct work *w, char **argv, const char *line)
{
	void *memory = NULL;
	long n = 0;
	if (sscanf(line, "launch %ld", &n) == 1)
		work_launch(w, n);
	else if (sscanf(line, "step %ld", &n) == 1)
		step(w, n);
	else if (sscanf(line, "graph %ld", &n) == 1)
		launch_graph(w, n);
	else if (sscanf(line, "driver %ld", &n) == 1)
		launch_by_driver(w, n);
	else if (!strcmp(line, "capture\n"))
		capture(w);
	else if (!strcmp(line, "profile\n") || sscanf(line, "profile %ld", &n) == 1)
		profile(n);
	else if (!strcmp(line, "profiled\n"))
		profiled();
	else if (!strcmp(line, "keep\n"))
		kept = of_cupti("cuptiSubscribe");
#ifdef __x86_64__
	else if (!strcmp(line, "clock\n"))
		take_clock();
#endif
	else if (!strcmp(line, "subscribed\n"))
		subscribed();
	else if (!strcmp(line, "sandbox\n"))
		sandbox();
	else if (!strcmp(line, "fail\n"))
		failed += cudaMalloc(&memory, (size_t)1 << 60) != cudaSuccess;
	else if (!strcmp(line, "alloc\n"))
		CHECK(cudaMalloc(&memory, 1 << 20));
	else if (!strcmp(line, "open\n"))
		nvtxRangePushA("epoch");
	else if (!strcmp(line, "start\n"))
		start();
	else if (!strcmp(line, "stop\n"))
		nvtxDomainRangeEnd(app, started);
	else if (!strcmp(line, "child\n"))
		child(argv);
	CHECK(cudaStreamSynchronize(w->stream));
}

static void lasts(void)
{
	puts("exits");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

int main(int argc, char **argv)
{
	struct work w;
	char line[64];
	if (option_flag(argc, argv, "--exits"))
		atexit(lasts);
#ifdef THREAD_LOCAL
	own[0] = 1;
#endif
	work_begin(&w);
	if (option_flag(argc, argv, "--crash")) {
		work_launch(&w, 1);
		abort();
	}
	for (puts("ready"), fflush(stdout); fgets(line, sizeof line, stdin) && strcmp(line, "exit\n"); fflush(stdout)) {
		tell(&w, argv, line);
		puts("done");
	}
	int bad = work_end(&w);
	printf("told failed=%ld children=%ld\n", failed, children);
	counts_print("counts", w.issued);
	return bad;
}
