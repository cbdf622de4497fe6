/* Processes that use CUDA at the same time: all initialise it, then one after the other works and ends. Before a process
 * ends it opens and closes a library. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"
#include "children.h"

struct process {
	pid_t pid;
	int ready, go; /* its end of a pipe, ours of a pipe */
};

static int work(int ready, int go, long n)
{
	struct counts mine = {0, 0, 0};
	char turn;
	CHECK(cudaFree(NULL));
	if (write(ready, "r", 1) != 1 || read(go, &turn, 1) != 1)
		return 1;
	int bad = work_all(&mine, n);
	void *library = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
	child_print(mine);
	return bad || !library || dlclose(library);
}

static struct process start(long n)
{
	int ready[2], go[2];
	if (pipe(ready) || pipe(go))
		return (struct process){-1, -1, -1};
	struct process p = {fork(), ready[0], go[1]};
	if (p.pid == 0) {
		close(ready[0]);
		close(go[1]);
		exit(work(ready[1], go[0], n));
	}
	close(ready[1]);
	close(go[0]);
	return p;
}

int main(int argc, char **argv)
{
	static struct process processes[64];
	long count = option_number(argc, argv, "-w", 3, 1), n = option_number(argc, argv, "-n", 10, 1);
	int bad = 0;
	char byte;
	if (count > 64) {
		fprintf(stderr, "byturns: at most 64 processes\n");
		return 2;
	}
	for (long i = 0; i < count; i++)
		processes[i] = start(n);
	for (long i = 0; i < count; i++)
		bad += read(processes[i].ready, &byte, 1) != 1;
	for (long i = 0; i < count; i++) {
		int status = 0;
		bad += write(processes[i].go, "g", 1) != 1;
		bad += waitpid(processes[i].pid, &status, 0) != processes[i].pid || status;
	}
	return bad != 0;
}
