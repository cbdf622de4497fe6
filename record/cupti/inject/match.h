#ifndef CT_MATCH_H
#define CT_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool ct_match_start(size_t memory);
void ct_match_begin(uint64_t now);
bool ct_match_failed(void);
void ct_match_poll(void);
void ct_match_doubt(uint64_t from, uint64_t to);
void ct_match_depth(uint64_t innermost, uint32_t depth);
uint32_t ct_match_chain(uint32_t tid, uint64_t start, uint64_t end);

/* For walk.c, inside CUDA calls. */
uint32_t ct_site_number(uint64_t site);
bool ct_sites_known(void);
bool ct_site_starts(uint32_t number);
bool ct_site_ends(uint32_t number);

#endif
