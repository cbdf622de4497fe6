#ifndef CT_CALLS_H
#define CT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The calls that the recorder asked for, as they are in a GO. */
struct ct_calls {
	const unsigned char *list; /* count times {u32 length, name} */
	uint32_t size;             /* of the list, bytes */
	uint32_t count;            /* 0: the calls that create GPU work */
};

/* A call by its callback ID. */
struct ct_known_call {
	uint32_t domain, cbid;
	const char *name;
};
extern const struct ct_known_call ct_known_calls[];

bool ct_call_wanted(const char *name, const struct ct_calls *calls);
bool ct_call_creates_work(const char *name);
size_t ct_call_name(const char *name, char *out, size_t size);
size_t ct_call_base(const char *name);

#endif
