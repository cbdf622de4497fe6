#ifndef CT_CALLS_H
#define CT_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

/* Numbers of names. */
bool ct_names_start(size_t memory);
uint32_t ct_name_number(const char *text);

/* The calls that the recorder asked for, as they are in a GO. */
struct ct_calls {
	const unsigned char *list; /* count times {u32 length, name} */
	uint32_t size;             /* of the list, bytes */
	uint32_t count;            /* 0: the calls that create GPU work */
};

#define CT_CBID_MAX 4096u
#define CT_CBID_GAP 512u /* callback IDs have gaps; so many unknown ones in a row are the end */
#define CT_DOMAINS 3u /* 0 is none */

void ct_want_calls(const struct ct_cupti *api, const struct ct_calls *calls, bool work);
void ct_unwant_call(uint32_t domain, uint32_t cbid);
uint32_t ct_wanted_calls(void);
uint32_t ct_wanted_name(uint32_t domain, uint32_t cbid);
bool ct_wanted_creates_work(uint32_t domain, uint32_t cbid);

/* Records of calls that begin the range to record. */
void ct_range_began(void);
uint32_t ct_ranges_begun(void);

/* The time up to which calls count. */
void ct_want_work(void);
void ct_unwant_work(void);
bool ct_graph_call(uint32_t domain, uint32_t cbid);
void ct_graphs_of(atomic_bool *process);
void ct_graph_seen(void);
bool ct_graphs(void);
bool ct_wanted_time(uint64_t start);

#endif
