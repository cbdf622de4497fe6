/* Starts this program again, and reads the counts of the work that it issued. */
#ifndef SIM_PROG_CHILDREN_H
#define SIM_PROG_CHILDREN_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "options.h"

struct child {
	pid_t pid;
	int report; /* the child's counts come from here */
};

/* fork and exec of /proc/self/exe with args, which ends with two free places
 * before its NULL: they take "--report" and a file descriptor. */
static inline struct child child_start(char **args)
{
	int ends[2];
	char number[16];
	struct child c = {-1, -1};
	size_t n = 0;
	if (pipe(ends))
		return c;
	while (args[n])
		n++;
	snprintf(number, sizeof number, "%d", ends[1]);
	args[n] = (char *)(uintptr_t)"--report";
	args[n + 1] = number;
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	fflush(NULL);
	c.pid = fork();
	if (c.pid == 0) {
		execv("/proc/self/exe", args);
		_exit(127);
	}
	args[n] = NULL;
	close(ends[1]);
	c.report = ends[0];
	return c;
}

/* Waits for the child and adds its counts. Returns the number of errors. */
static inline int child_wait(struct child c, struct counts *total)
{
	struct counts theirs;
	int status = 0;
	bool told = read(c.report, &theirs, sizeof theirs) == sizeof theirs;
	close(c.report);
	if (c.pid < 0 || waitpid(c.pid, &status, 0) != c.pid || status || !told) {
		fprintf(stderr, "child %d: status %d%s\n", (int)c.pid, status, told ? "" : ", no counts");
		return 1;
	}
	*total = counts_add(*total, theirs);
	return 0;
}

/* Reports to the parent, if there is one. Returns whether there is. */
static inline bool child_report(int argc, char **argv, const struct counts *total)
{
	long fd = option_number(argc, argv, "--report", -1, -1);
	if (fd < 0)
		return false;
	if (write((int)fd, total, sizeof *total) != sizeof *total)
		exit(1);
	close((int)fd);
	return true;
}

static inline void child_print(struct counts mine)
{
	char head[64];
	snprintf(head, sizeof head, "counts pid=%d", (int)getpid());
	counts_print(head, mine);
}

#endif
