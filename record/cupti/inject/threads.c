/*
 * Two threads of ours. The sender writes what the queue holds. The control
 * thread flushes CUPTI, listens to the recorder and ends the session. A stalled
 * recorder thus never delays a flush, nor a slow flush the sending.
 */
#include "inject.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SENDER_STACK (256u << 10)
#define CONTROL_STACK (1u << 20) /* CUPTI runs on it */
#define FLUSH_WAIT (2 * CT_SECOND) /* at the end: for a flush in progress */
#define WAKE_PAUSE_MS 2 /* between flushes that were asked for */
#define MESSAGE_WAIT CT_SECOND /* for the rest of a message that has begun */

static struct ct_session session;
static atomic_bool running; /* both threads were started */
static pthread_t sender, control;
static _Atomic uint32_t control_tid, sender_tid;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool in_cupti; /* the control thread is in a call of CUPTI */
static bool exiting;  /* the program runs exit handlers: the control thread never enters one again */
static _Atomic uint32_t exit_tid; /* on which thread; 0 without */
static _Atomic uint64_t cupti_since; /* when a flush has begun; 0 outside */
static bool ended;    /* recording is over: the recorder is gone or said STOP, or another client came */
static bool sent;     /* the sender is through */
static bool done;     /* the control thread is through */

/*
 * A socket pair by which other threads wake the control thread. No eventfd: were
 * its number taken over by a file of the program, waking would write to it, while
 * send fails on all but sockets. It stays open until the process ends.
 */
static struct {
	int listen, tell;
	uint64_t listen_cookie, tell_cookie;
} wake = {.listen = -1, .tell = -1};
static atomic_bool woken;

static _Atomic uint64_t give_up; /* when the sender stops trying, 0 until the end has begun */
static atomic_uint bye_reason;
static _Atomic uint64_t bye_until;

static bool sending_is_over(uint64_t progress)
{
	uint64_t last = atomic_load(&give_up);
	if (last == 0)
		return false;
	uint64_t now = ct_now(), begun = last - session.exit_ms * CT_MS;
	return now > last || now > (progress > begun ? progress : begun) + CT_STALL;
}

static bool ours(int fd)
{
	return ct_cookie(fd) == session.cookie;
}

/* Sends it all, however long the recorder takes, until the end is near. */
static bool send_all(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t progress = ct_now();
	while (size > 0) {
		if (!ours(session.fd))
			return false;
		ssize_t n = send(session.fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
			progress = ct_now();
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || errno != EAGAIN || sending_is_over(progress))
			return false;
		poll(&(struct pollfd){.fd = session.fd, .events = POLLOUT}, 1, 100);
	}
	return true;
}

struct ct_bye ct_threads_bye(uint32_t reason, uint32_t detail, uint64_t until)
{
	struct ct_counts c = ct_queue_counts();
	return (struct ct_bye){.reason = reason,
			       .detail = detail,
			       .now = ct_now(),
			       .kernels = c.kernels,
			       .copies = c.copies,
			       .sets = c.sets,
			       .apis = c.apis,
			       .objects = c.objects,
			       .extras = c.extras,
			       .others = c.others,
			       .until = until};
}

static void say_bye(void)
{
	struct {
		struct ct_frame frame;
		struct ct_bye bye;
	} m = {.frame = {.length = sizeof m.bye, .type = CT_MSG_BYE},
	       .bye = ct_threads_bye(atomic_load(&bye_reason), 0, atomic_load(&bye_until))};
	send_all(&m, sizeof m);
}

static void set_flag(bool *flag)
{
	pthread_mutex_lock(&lock);
	*flag = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool get_flag(const bool *flag)
{
	pthread_mutex_lock(&lock);
	bool value = *flag;
	pthread_mutex_unlock(&lock);
	return value;
}

/* Waits for a flag to get a value; false when the deadline is over. */
static bool wait_flag(const bool *flag, bool value, uint64_t deadline)
{
	struct timespec until = {(time_t)(deadline / CT_SECOND), (long)(deadline % CT_SECOND)};
	int r = 0;
	pthread_mutex_lock(&lock);
	while (*flag != value && r == 0)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	bool reached = *flag == value;
	pthread_mutex_unlock(&lock);
	return reached;
}

static void *send_messages(void *arg)
{
	bool ok = true;
	struct ct_chunk *c;
	atomic_store(&sender_tid, (uint32_t)syscall(SYS_gettid));
	while (ok && (c = ct_queue_take())) {
		ok = send_all(&c->frame, sizeof c->frame + c->used);
		ct_queue_recycle(c);
	}
	if (ok)
		say_bye();
	if (ours(session.fd))
		shutdown(session.fd, SHUT_RDWR); /* wakes the control thread */
	ct_queue_end();
	set_flag(&sent);
	return arg;
}

/* True when the control thread may call CUPTI now; leave_cupti follows. */
static bool enter_cupti(void)
{
	pthread_mutex_lock(&lock);
	bool allowed = session.api && !exiting && !ended;
	in_cupti = allowed;
	pthread_mutex_unlock(&lock);
	return allowed;
}

static void leave_cupti(bool end)
{
	pthread_mutex_lock(&lock);
	in_cupti = false;
	ended = ended || end;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/*
 * Another client has the records: nothing of CUPTI is touched from now on, so that
 * its session goes on as if we were not there, and is not flushed by us at the end
 * when it may be gone.
 */
static void let_go(void)
{
	static const char words[] = "another CUPTI client in the program has taken the records of GPU work over";
	struct ct_status status = {.state = CT_STATUS_TAKEN, .text_len = sizeof words - 1};
	ct_switch_leave();
	ct_queue_message(CT_MSG_STATUS, &status, sizeof status, words, sizeof words - 1);
}

/* For who may call CUPTI already. */
void ct_threads_flush_now(uint32_t forced)
{
	atomic_store(&cupti_since, ct_now());
	ct_clock_recalibrate(session.api);
	session.api->flush_all(forced);
	atomic_store(&cupti_since, 0);
}

/*
 * One flush, by the control thread or at_exit by the thread that exits; false when
 * CUPTI is not to be touched. The forced flush hands over running kernels for good,
 * so it comes only at the end.
 */
bool ct_threads_flush(uint32_t forced, bool at_exit)
{
	if (at_exit ? !session.api || get_flag(&ended) : !enter_cupti())
		return false;
	ct_threads_flush_now(forced);
	if (!at_exit)
		leave_cupti(false);
	return true;
}

static void flush(void)
{
	uint64_t until = ct_now();
	if (ct_threads_flush(0, false))
		ct_queue_flushed(until);
}

/* As flush, and looks whether CUPTI still hands over to us. */
static void flush_and_look(void)
{
	flush();
	if (!session.watch || !enter_cupti())
		return;
	bool taken = ct_client_taken(session.api);
	if (taken)
		let_go();
	leave_cupti(taken);
}

static void foreign(void)
{
	if (!enter_cupti())
		return;
	let_go();
	leave_cupti(true);
}

/* What was on its way to the GPU before a pause is still recorded, and flushed when it is done. */
static void pause_work(bool paused)
{
	if (!enter_cupti())
		return;
	ct_switch_pause(session.api, paused);
	if (paused)
		ct_threads_flush_now(0);
	leave_cupti(false);
}

/* Ends recording while the program lives on; flushed says whether anyone wants the rest. */
static void stop(bool flushed)
{
	if (!enter_cupti())
		return;
	if (!flushed)
		ct_complete_start(NULL);
	ct_disable(session.api, flushed);
	atomic_store(&bye_until, ct_now());
	if (flushed)
		ct_threads_flush_now(0);
	ct_complete_start(NULL);
	leave_cupti(true);
}

static void finish(uint32_t reason)
{
	uint64_t none = 0;
	unsigned unset = 0;
	atomic_compare_exchange_strong(&bye_reason, &unset, reason);
	atomic_compare_exchange_strong(&give_up, &none, ct_now() + session.exit_ms * CT_MS);
	ct_queue_finish();
}

/* Does what a message says; false when there will be no more. */
static bool obey(uint16_t type)
{
	switch (type) {
	case CT_MSG_FLUSH:
		flush();
		break;
	case CT_MSG_PAUSE:
	case CT_MSG_RESUME:
		pause_work(type == CT_MSG_PAUSE);
		break;
	case CT_MSG_FOREIGN:
		foreign();
		break;
	case CT_MSG_STOP:
		stop(true);
		finish(CT_BYE_STOP);
		return false;
	}
	return true;
}

/* Takes one message of the recorder; false when there will be no more. */
static bool receive(void)
{
	struct ct_frame f;
	unsigned char skip[256];
	uint64_t deadline = ct_now() + MESSAGE_WAIT;
	if (!ours(session.fd) || !ct_recv_wait(session.fd, &f, sizeof f, deadline) || f.length > CT_MESSAGE_MAX)
		return false;
	for (uint32_t left = f.length; left > 0;) {
		uint32_t n = left < sizeof skip ? left : (uint32_t)sizeof skip;
		if (!ct_recv_wait(session.fd, skip, n, deadline))
			return false;
		left -= n;
	}
	return obey(f.type);
}

static bool make_wake(void)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0)
		return false;
	wake.listen = fd[0];
	wake.tell = fd[1];
	wake.listen_cookie = ct_cookie(fd[0]);
	wake.tell_cookie = ct_cookie(fd[1]);
	return true;
}

static bool tell(void)
{
	return ct_cookie(wake.tell) == wake.tell_cookie &&
	       (send(wake.tell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

/* Has the control thread flush soon. Called from CUPTI's requests for buffers. */
void ct_threads_wake(void)
{
	if (atomic_load(&running) && !atomic_exchange(&woken, true))
		tell();
}

/* Has the control thread look for handovers; false when there is none, or it is who calls. */
bool ct_threads_tell(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	if (!atomic_load(&running) || tid == atomic_load(&control_tid) || tid == atomic_load(&sender_tid))
		return false;
	return tell();
}

/* Whether CUPTI has been flushed for so long without handing anything over. */
bool ct_threads_stuck(uint64_t time)
{
	uint64_t since = atomic_load(&cupti_since), last = ct_complete_last();
	return since != 0 && ct_now() > (since > last ? since : last) + time;
}

uint64_t ct_threads_patience(void)
{
	return session.exit_ms * CT_MS;
}

uint32_t ct_threads_exiting(void)
{
	return atomic_load(&exit_tid);
}

/* Flushes because somebody asked; not much more often than a flush takes. */
static void answer_wake(void)
{
	char bytes[64];
	if (ct_cookie(wake.listen) != wake.listen_cookie) {
		wake.listen = -1;
		return;
	}
	recv(wake.listen, bytes, sizeof bytes, MSG_DONTWAIT);
	if (!atomic_load(&woken))
		return;
	flush();
	poll(NULL, 0, WAKE_PAUSE_MS);
	atomic_store(&woken, false);
}

/* Listens and flushes until the recorder is gone or has said STOP, or the program ends. */
static void listen_and_flush(void)
{
	uint64_t next = ct_now() + session.flush_ms * CT_MS;
	for (;;) {
		uint64_t now = ct_now();
		int wait = now < next ? (int)((next - now) / CT_MS) + 1 : 0;
		struct pollfd p[2] = {{.fd = session.fd, .events = POLLIN}, {.fd = wake.listen, .events = POLLIN}};
		if (poll(p, 2, wait) < 0 && errno != EINTR)
			return;
		if (p[0].revents && !receive())
			return;
		if (p[1].revents)
			answer_wake();
		if (ct_handover_wanted()) {
			ct_handover_answer();
			next = ct_now() + session.flush_ms * CT_MS;
		}
		if (ct_now() >= next) {
			flush_and_look();
			next = ct_now() + session.flush_ms * CT_MS;
		}
	}
}

uint32_t ct_threads_control(void)
{
	return atomic_load_explicit(&control_tid, memory_order_relaxed);
}

static void *run_control(void *arg)
{
	atomic_store(&control_tid, (uint32_t)syscall(SYS_gettid));
	listen_and_flush();
	stop(false);
	finish(CT_BYE_STOP);
	pthread_join(sender, NULL);
	ct_handover_end();
	ct_signals_end();
	if (ours(session.fd))
		close(session.fd);
	set_flag(&done);
	return arg;
}

static bool start_thread(pthread_t *t, void *(*run)(void *), size_t stack, const char *name)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setstacksize(&attr, stack);
	int r = pthread_create(t, &attr, run, NULL);
	if (r != 0) /* a program with much thread-local data needs the usual stack */
		r = pthread_create(t, NULL, run, NULL);
	pthread_attr_destroy(&attr);
	if (r == 0)
		pthread_setname_np(*t, name);
	return r == 0;
}

static bool start_both(void)
{
	if (!start_thread(&sender, send_messages, SENDER_STACK, "cudatrace"))
		return false;
	if (start_thread(&control, run_control, CONTROL_STACK, "cudatrace-ctl"))
		return true;
	ct_queue_finish();
	pthread_join(sender, NULL);
	return false;
}

/* Starts both threads with all signals blocked: signals belong to the program. */
bool ct_threads_start(const struct ct_session *s)
{
	pthread_condattr_t attr;
	sigset_t before;
	session = *s;
	if (!make_wake())
		return false;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
	ct_signals_block(&before);
	bool started = start_both();
	ct_signals_restore(&before);
	atomic_store(&running, started);
	return started;
}

/*
 * The program ends: the last flushes, the rest of the queue, BYE. When the control
 * thread hangs in CUPTI, CUPTI is left alone.
 */
void ct_threads_exit(void)
{
	if (!running)
		return;
	atomic_store(&exit_tid, (uint32_t)syscall(SYS_gettid));
	set_flag(&exiting);
	bool idle = wait_flag(&in_cupti, false, ct_now() + FLUSH_WAIT);
	if (idle && !get_flag(&ended))
		atomic_store(&bye_until, ct_gather(true, true));
	finish(CT_BYE_EXIT);
	if (!wait_flag(&sent, true, ct_now() + session.exit_ms * CT_MS + CT_SECOND))
		return;
	if (idle && wait_flag(&done, true, ct_now() + CT_SECOND))
		pthread_join(control, NULL);
}

/* In a forked child: lets go of the sockets, so that the recorder sees the parent's end. */
void ct_threads_forked(void)
{
	if (!running)
		return;
	if (ours(session.fd))
		close(session.fd);
	if (ct_cookie(wake.listen) == wake.listen_cookie)
		close(wake.listen);
	if (ct_cookie(wake.tell) == wake.tell_cookie)
		close(wake.tell);
}
