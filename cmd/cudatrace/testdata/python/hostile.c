/* Calls a function on another stack, which is freed behind it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t back, there;
static void (*called)(int);
static int argument;

static void run(void)
{
	ucontext_t outer = back;
	called(argument);
	back = outer;
}

void on_stack(void (*f)(int), int n)
{
	const size_t size = 1 << 20;
	ucontext_t outer_back = back, outer_there = there;
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		abort();
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = size;
	there.uc_link = &back;
	called = f;
	argument = n;
	makecontext(&there, run, 0);
	swapcontext(&back, &there);
	munmap(stack, size);
	back = outer_back;
	there = outer_there;
}
