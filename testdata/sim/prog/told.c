/*
 * Does what its standard input says, a line for each: launch N (kernels), fail (an allocation), alloc
 * (1 MiB, which stays), open (an NVTX range, which stays), step N (an NVTX range around N ms), child (a
 * process that uses CUDA and crashes). Answers each line with "done" when the GPU is idle.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "nvtx_sim.h"
#include "options.h"
#include "work.h"

static long failed, children;

static void step(struct work *w, long ms)
{
	nvtxRangePushA("step");
	work_launch(w, 1);
	CHECK(cudaStreamSynchronize(w->stream));
	usleep((useconds_t)ms * 1000);
	nvtxRangePop();
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

static void tell(struct work *w, char **argv, const char *line)
{
	void *memory = NULL;
	long n = 0;
	if (sscanf(line, "launch %ld", &n) == 1)
		work_launch(w, n);
	else if (sscanf(line, "step %ld", &n) == 1)
		step(w, n);
	else if (!strcmp(line, "fail\n"))
		failed += cudaMalloc(&memory, (size_t)1 << 60) != cudaSuccess;
	else if (!strcmp(line, "alloc\n"))
		CHECK(cudaMalloc(&memory, 1 << 20));
	else if (!strcmp(line, "open\n"))
		nvtxRangePushA("epoch");
	else if (!strcmp(line, "child\n"))
		child(argv);
	CHECK(cudaStreamSynchronize(w->stream));
}

int main(int argc, char **argv)
{
	struct work w;
	char line[64];
	work_begin(&w);
	if (option_flag(argc, argv, "--crash")) {
		work_launch(&w, 1);
		abort();
	}
	for (puts("ready"), fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) {
		tell(&w, argv, line);
		puts("done");
	}
	int bad = work_end(&w);
	printf("told failed=%ld children=%ld\n", failed, children);
	counts_print("counts", w.issued);
	return bad;
}
