// A program with a runtime of its own, whose functions show what they are by their code alone, as those
// of NVIDIA's static runtime do. What f211 does is cudaLaunchKernel's part: 211 is its callback id.
#include <dlfcn.h>
#include <stdio.h>

struct hooks {
	void *unused;
	void (*announce)(unsigned id, void *frame);
};
struct state {
	struct hooks *hooks;
	unsigned *enabled;
};

static unsigned enabled[600];
static void nothing(unsigned id, void *frame)
{
	(void)id, (void)frame;
}
static struct hooks hooks = {0, nothing};
static struct state state = {&hooks, enabled};
struct state *volatile current = &state;
int (*volatile driver)(void);
volatile int zero;

#define INTERNAL __attribute__((noinline)) static

INTERNAL int direct(int n)
{
	return driver() + n + zero;
}

INTERNAL int shared(int n)
{
	return direct(n + 1) + zero;
}

// It calls shared and leaves its own frame.
INTERNAL int tail(int n)
{
	if (n > 100)
		zero++;
	return shared(n);
}

#define EXPORTED(id, call) \
	__attribute__((noinline)) int f##id(int n) \
	{ \
		struct state *s = current; \
		int r; \
		if (s->enabled[id]) { \
			int frame[4] = {n}; \
			s->hooks->announce(id, frame); \
			r = call; \
			s->hooks->announce(id, frame); \
		} else \
			r = call; \
		return r + zero; \
	}

EXPORTED(211, direct(n))
EXPORTED(31, shared(n))
EXPORTED(41, tail(n))
EXPORTED(51, driver() + n)
EXPORTED(20, f51(n) + f211(n)) // an exported function that calls exported ones
int f9999(int n)               // one that nothing identifies
{
	return shared(n) + zero;
}

int (*volatile known[])(int) = {f20, f31, f41, f51, f211};

#define CALL(name, call) (puts("in " name), call)

__attribute__((noinline)) void calls(void)
{
	CALL("cudaMemsetAsync", f51(1));
	CALL("cudaLaunchKernel", f211(1));
	CALL("cudaMemcpy", f31(1));
	CALL("cudaMemcpyAsync", f41(1));
	CALL("cudaMalloc", f20(1));
	CALL("nothing", driver());
	CALL("unknown", f9999(1));
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&driver = library ? dlsym(library, "cuLaunchKernel") : 0;
	if (!driver)
		return 1;
	calls();
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
