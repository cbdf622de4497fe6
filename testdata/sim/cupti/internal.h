/* Declarations that the files of the simulated CUPTI share. */
#ifndef SIM_CUPTI_INTERNAL_H
#define SIM_CUPTI_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../common/clock.h"
#include "../common/config.h"
#include "../include/cupti_sim.h"
#include "../include/hook.h"

#define CUPTI_EXPORT __attribute__((visibility("default")))

/* An exported function: prototype and head of the definition. */
#define CUPTI(name, params) \
	CUPTI_EXPORT CUptiResult name params; \
	CUPTI_EXPORT CUptiResult name params

#define CBIDS 1024 /* more than either domain has */

/* attach.c: the driver's hook, NULL without a driver. */
struct sim_hook *cupti_hook(void);
bool cupti_forked(void);
void cupti_attach(bool on); /* whether the driver calls us */

/* kinds.c */
bool cupti_kind(uint32_t kind);
bool cupti_kind_at(uint32_t kind, uint64_t submit);
size_t cupti_record_size(uint32_t kind);
void cupti_await_lock(void);
bool cupti_late(void); /* switched on after cuInit */
bool cupti_api_wanted(uint32_t domain, uint32_t cbid);
void cupti_kinds_clear(void);
void cupti_reattach(void); /* after kinds were switched on or off */

/* clock.c */
uint64_t cupti_clock(void);             /* the clock of API records */
uint64_t cupti_gpu_time(uint64_t mono); /* a time of the GPU's clock on that clock */

/* store.c: copies a record into the calling thread's buffer. */
void cupti_store(const void *record, size_t size);
void cupti_store_dropped(void); /* counts a record that is not stored */
void cupti_hand_over(void); /* gives every thread's partly filled buffer to the worker */
bool cupti_has_client(void);
void cupti_complete(uint32_t tid, uint8_t *buffer, size_t size, size_t valid); /* the client's callback */

/* worker.c */
int cupti_worker_start(void);
void cupti_worker_give(uint32_t tid, uint8_t *buffer, size_t size, size_t valid);
int cupti_worker_wait(void); /* until all given buffers are delivered */

/* gpu.c, api.c, info.c: called by the driver. */
void cupti_on_work(const struct sim_work *w, bool running);
void cupti_on_enter(struct sim_frame *f);
void cupti_on_exit(struct sim_frame *f, int result);
void cupti_on_context(const struct sim_context_info *c);
void cupti_on_stream(const struct sim_stream_info *s);
void cupti_on_pool(const struct sim_pool_info *p);
void cupti_announce(uint32_t kind); /* existing objects, when their kind is switched on */
uint32_t cupti_thread_id(void);
uint32_t cupti_process_id(void);

/* overhead.c: fills a record of the calling thread; the caller reads the clock. */
void cupti_overhead(CUptiOverhead *r, uint32_t kind, uint64_t start);

/* subscribe.c */
bool cupti_subscribed(void);
void cupti_call_back(struct sim_frame *f, int site, int *result);
void cupti_subscription_clear(void);

/* strings.c: a copy of s that is never freed. NULL for NULL. */
const char *cupti_keep(const char *s);

/* names.c */
const char *cupti_name(uint32_t domain, uint32_t cbid); /* NULL for an unknown id */

#endif
