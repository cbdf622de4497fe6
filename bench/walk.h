#ifndef BENCH_WALK_H
#define BENCH_WALK_H

#include <stdbool.h>
#include <stdint.h>

bool bench_walk_start(void *in_cupti);
bool bench_walk(uint64_t now, uintptr_t frame);

#endif
