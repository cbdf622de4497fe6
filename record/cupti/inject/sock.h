#ifndef CT_SOCK_H
#define CT_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What tells a socket from another file that got its number. */
struct ct_identity {
	uint64_t cookie; /* the kernel's number of the socket; 0 if unknown */
	uint64_t inode;  /* 0 if unknown */
};

int ct_connect(uint64_t deadline);
bool ct_readable(int fd, uint64_t deadline);
void ct_identify(int fd, struct ct_identity *i);
bool ct_same_socket(int fd, const struct ct_identity *i);
ssize_t ct_send_some(int fd, const void *data, size_t size);
ssize_t ct_recv_some(int fd, void *data, size_t size);
bool ct_transient(int error);
bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline);
bool ct_recv_passed(int fd, void *data, size_t size, int *passed, uint64_t deadline);
bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline);

#endif
