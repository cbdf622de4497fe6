/* A recorder dies while much waits for it: all of that is given back, and so is what comes later. */
#include <stdio.h>
#include <stdlib.h>

#include "queue.c"

static unsigned allocated;

void *ct_alloc(size_t size) { allocated++; return calloc(1, size); }
void ct_free(void *p, size_t size) { (void)size; allocated -= p != NULL; free(p); }
bool ct_has_room(size_t size) { return size > 0; }
uint64_t ct_now(void) { return 0; }
void ct_lock(struct ct_lock *l) { (void)l; }
void ct_unlock(struct ct_lock *l) { (void)l; }
void ct_condition_wait(struct ct_condition *c, struct ct_lock *l, uint64_t ns) { (void)c, (void)l, (void)ns; abort(); }
void ct_condition_tell(struct ct_condition *c) { (void)c; }
void ct_link_hold(void) {}
size_t ct_link_send(const void *data, size_t size) { return data && size ? 0 : 1; }
void ct_link_await_room(uint64_t ns) { (void)ns; }
bool ct_link_alive(void) { return false; }
uint64_t ct_exit_wait(void) { return 0; }
void ct_reach(enum ct_stage stage) { (void)stage; }
void ct_wake_control(void) {}
void ct_this_is_sender(void) {}

int main(void)
{
	static char text[1000];
	if (!ct_queue_start(100 * CT_CHUNK_SIZE))
		return 1;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned n = 0; n < 300; n++)
			ct_queue_definition(text, 8, text, sizeof text);
		for (struct ct_chunk *c; (c = ct_queue_chunk());) {
			c->used = CT_CHUNK_DATA;
			ct_queue_push(c);
		}
		ct_queue_note(1, "a word");
		ct_queue_flushed(1);
		if (i == 0 && (allocated < 100 || nothing_waits()))
			return 2;
		if (i == 0) {
			ct_sender_finish(CT_BYE_FAILED);
			ct_sender_run();
		}
	}
	printf("%u\n", allocated);
	return allocated > KEEP + 2;
}
