#ifndef CT_FORK_H
#define CT_FORK_H

#include <stdbool.h>
#include <sys/types.h>

bool ct_fork_begin(void); /* this process is recorded from now on; false when it or its parent already was */
bool ct_ours(void);       /* this process is the recorded one; safe in a signal handler */
bool ct_here(void);
pid_t ct_self(void);      /* the recorded process */
bool ct_forked(void);     /* this process is a forked child of the recorded one */
bool ct_fork_watch(void (*in_child)(void));

#endif
