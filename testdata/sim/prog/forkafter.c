/* Forks after CUDA has started. The child uses no CUDA and ends with exit, or
 * with _exit; the parent goes on. */
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "work.h"

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 100, 1);
	struct counts total = {0, 0, 0};
	int status = 0;
	struct work w;
	work_begin(&w);
	work_launch(&w, n);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		if (option_flag(argc, argv, "_exit"))
			_exit(0);
		exit(0);
	}
	work_launch(&w, n);
	int bad = child < 0 || waitpid(child, &status, 0) != child || status;
	if (bad)
		fprintf(stderr, "forkafter: the child's status is %d\n", status);
	work_launch(&w, n);
	bad += work_end(&w);
	total = counts_add(total, w.issued);
	counts_print("counts", total);
	return bad != 0;
}
