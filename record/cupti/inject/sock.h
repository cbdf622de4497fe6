#ifndef CT_SOCK_H
#define CT_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CT_PATH_BESIDE 108 /* bytes of a socket's path */

bool ct_path_beside(const char *name, char path[CT_PATH_BESIDE]);
int ct_connect(uint64_t deadline);
bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline);
bool ct_recv_passed(int fd, void *data, size_t size, int *passed, unsigned count, uint64_t deadline);
bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline);

#endif
