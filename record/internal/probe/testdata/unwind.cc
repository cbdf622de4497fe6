/*
 * A program whose calls of CUDA are left, or looked at, in unusual ways. It prints "ready", and then runs the scenario
 * of each line that it reads, "NAME NUMBER", and answers with what came out and "done".
 */
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" int cuStreamSynchronize(uintptr_t stream);
extern "C" int cuMemAlloc_v2(uint64_t *out, size_t bytes);

static volatile int within, destroyed, cleaned, whole;
static jmp_buf back;
static ucontext_t here, there;
static char stack[256 << 10];

/* The frame of the program that a backtrace has to reach. */
__attribute__((noinline)) static int outermost(int (*call)(uintptr_t))
{
	int result = call(1);

	__asm__ volatile("" : : : "memory");
	return result;
}

static void handler(int)
{
	void *frames[64];
	int n = backtrace(frames, 64);

	for (int i = 0; i < n; i++)
		if ((char *)frames[i] > (char *)outermost && (char *)frames[i] < (char *)outermost + 64)
			whole++;
}

enum { NOTHING, THROW, JUMP, LOOK, WAIT, SWITCH };
static volatile int what;

/* Called within cuStreamSynchronize. */
extern "C" __attribute__((visibility("default"))) void during_call(uintptr_t)
{
	switch (what) {
	case THROW:
		throw 5;
	case JUMP:
		longjmp(back, 7);
	case LOOK:
		raise(SIGUSR1);
		break;
	case WAIT:
		for (within = 1;;)
			pause();
	case SWITCH:
		swapcontext(&there, &here);
	}
}

struct guard {
	~guard() { destroyed++; }
};

static void clean(void *) { cleaned++; }

static void *waiter(void *)
{
	guard g;

	pthread_cleanup_push(clean, 0);
	cuStreamSynchronize(1);
	pthread_cleanup_pop(0);
	return 0;
}

static void coroutine() { whole += 10 * (cuStreamSynchronize(1) + 1); }

static int run(const char *name)
{
	uint64_t at;
	pthread_t thread;
	void *result;

	if (!strcmp(name, "exception")) {
		what = THROW;
		try {
			guard g;
			cuStreamSynchronize(1);
		} catch (int thrown) {
			return thrown;
		}
	}
	if (!strcmp(name, "longjmp")) {
		what = JUMP;
		if (int jumped = setjmp(back))
			return jumped;
		cuStreamSynchronize(1);
	}
	if (!strcmp(name, "backtrace")) {
		what = LOOK;
		whole = 0;
		signal(SIGUSR1, handler);
		outermost(cuStreamSynchronize);
		return whole > 0;
	}
	if (!strcmp(name, "cancel")) {
		what = WAIT;
		within = destroyed = cleaned = 0;
		pthread_create(&thread, 0, waiter, 0);
		while (!within)
			usleep(1000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		return (result == PTHREAD_CANCELED) + 10 * destroyed + 100 * cleaned;
	}
	if (!strcmp(name, "context")) {
		what = SWITCH;
		whole = 0;
		getcontext(&there);
		there.uc_stack.ss_sp = stack;
		there.uc_stack.ss_size = sizeof(stack);
		there.uc_link = &here;
		makecontext(&there, coroutine, 0);
		swapcontext(&here, &there);
		whole += cuMemAlloc_v2(&at, 8) + 1;
		swapcontext(&here, &there);
		return whole;
	}
	return -1;
}

int main()
{
	char name[64];
	long n;
	void *first[1];

	backtrace(first, 1); /* loads what it needs, which a handler must not */
	puts("ready");
	fflush(stdout);
	while (scanf("%63s %ld", name, &n) == 2) {
		printf("%d\n", run(name));
		puts("done");
		fflush(stdout);
		what = NOTHING;
	}
	return 0;
}
