/*
 * A sandbox that a program puts itself into, for all of its threads. Words say what is in it:
 *   nofile=N    the limit of descriptors is N
 *   error=N     system calls named behind it fail with that errno
 *   kill        system calls named behind it kill the process
 *   N           a system call's number
 */
#ifndef SIM_PROG_SANDBOX_H
#define SIM_PROG_SANDBOX_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SANDBOX_CALLS 32

struct sandbox {
	struct sock_filter code[2 + 2 * SANDBOX_CALLS];
	unsigned length;
	unsigned action; /* for the calls that follow */
};

static inline void sandbox_word(struct sandbox *s, const char *word)
{
	if (strncmp(word, "nofile=", 7) == 0) {
		struct rlimit limit = {(rlim_t)atoi(word + 7), (rlim_t)atoi(word + 7)};
		setrlimit(RLIMIT_NOFILE, &limit);
	} else if (strncmp(word, "error=", 6) == 0) {
		s->action = SECCOMP_RET_ERRNO | (unsigned)atoi(word + 6);
	} else if (strcmp(word, "kill") == 0) {
		s->action = SECCOMP_RET_KILL_PROCESS;
	} else if (s->length + 3 <= sizeof s->code / sizeof s->code[0]) {
		s->code[s->length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(word), 0, 1);
		s->code[s->length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, s->action);
	}
}

static inline void sandbox_enter(const char *list)
{
	struct sandbox s = {.code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))}, .length = 1};
	char *words = strdup(list ? list : ""), *rest = words;
	for (char *word; (word = strsep(&rest, " ,"));)
		if (*word)
			sandbox_word(&s, word);
	free(words);
	s.code[s.length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = (unsigned short)s.length, .filter = s.code};
	if (s.length > 2 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			     syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)) {
		perror("sandbox");
		exit(97);
	}
}

#endif
