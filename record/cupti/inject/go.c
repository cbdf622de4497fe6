/*
 * Reading a GO, the recorder's answer. main.c waits for it after its HELLO, nvtx.c after
 * a LOCATE. Its lengths must be checked before anything is read by them.
 */
#include "go.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "sock.h"
#include "wire.h"

#define GO_MAX (256u << 10)

static void close_all(const int *passed, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (passed[i] >= 0)
			close(passed[i]);
}

static unsigned char *receive_payload(int fd, uint32_t length, uint64_t deadline)
{
	if (length < sizeof(struct ct_go) || length > GO_MAX)
		return NULL;
	unsigned char *payload = ct_alloc(length);
	if (payload && !ct_recv_wait(fd, payload, length, deadline)) {
		ct_free(payload, length);
		payload = NULL;
	}
	return payload;
}

/* The frame of GO, whose descriptors alone are kept. Each WAIT before it moves the deadline. */
static bool receive_frame(int fd, struct ct_frame *f, int *passed, unsigned count, uint64_t *deadline)
{
	uint64_t last = *deadline + (CT_GO_MOST - CT_GO_WAIT);
	while (ct_recv_passed(fd, f, sizeof *f, passed, count, *deadline)) {
		if (f->type == CT_MSG_GO)
			return true;
		close_all(passed, count);
		if (f->type != CT_MSG_WAIT || f->length != 0)
			return false;
		uint64_t later = ct_now() + CT_GO_WAIT;
		*deadline = later < last ? later : last;
	}
	return false;
}

/*
 * The payload of GO in memory of its own, NULL when none came in time. The descriptors that came along
 * become the caller's; -1 for each that did not.
 */
unsigned char *ct_go_receive(int fd, uint32_t *length, int *passed, unsigned count, uint64_t *deadline)
{
	struct ct_frame f;
	if (!receive_frame(fd, &f, passed, count, deadline))
		return NULL;
	*length = f.length;
	unsigned char *payload = receive_payload(fd, f.length, *deadline);
	if (!payload)
		close_all(passed, count);
	return payload;
}

/*
 * The candidates behind GO; at and left move behind them. Each path moves one byte to
 * the left, over the last byte of its length, to make room for the zero behind it.
 */
unsigned ct_go_candidates(unsigned char **at, uint32_t *left, uint32_t count, struct ct_candidate *list)
{
	unsigned n = 0;
	while (n < count && n < CT_CANDIDATES && *left >= 8) {
		unsigned char *p = *at;
		uint32_t major, length;
		memcpy(&major, p, 4);
		memcpy(&length, p + 4, 4);
		if (length > *left - 8)
			break;
		memmove(p + 7, p + 8, length);
		p[7 + length] = 0;
		list[n++] = (struct ct_candidate){.path = (const char *)p + 7, .major = major};
		*at += 8 + length;
		*left -= 8 + length;
	}
	return n;
}

/* The NVTX range at the end of a GO, a name, NUL and a domain; NULL without one. */
const char *ct_go_range(const unsigned char *payload, uint32_t length, uint32_t *range)
{
	struct ct_go go;
	memcpy(&go, payload, sizeof go);
	*range = go.range_len;
	if (go.range_len == 0 || go.range_len > length - sizeof go)
		return NULL;
	return (const char *)payload + length - go.range_len;
}
