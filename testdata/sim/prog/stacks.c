/* Launches where walking up the stack is dangerous: on small stacks that are unmapped right afterwards, and
 * with nonsense in the frame pointer. A read of what is not mapped ends the program. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "../include/cuda_sim.h"
#include "options.h"
#include "work.h"

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream s);

#define STACK (24u << 10) /* of a coroutine */
#define PAGE 4096u

static struct work work;
static ucontext_t back;
static uintptr_t nonsense[16];
static unsigned values;

/* Calls f with a value in the frame pointer. */
void with_frame_pointer(void (*f)(void), uintptr_t value);
#if defined __x86_64__
__asm__("with_frame_pointer:\n"
	"	push %rbp\n"
	"	mov %rsi, %rbp\n"
	"	call *%rdi\n"
	"	pop %rbp\n"
	"	ret\n");
#elif defined __aarch64__
__asm__("with_frame_pointer:\n"
	"	stp x29, x30, [sp, -16]!\n"
	"	mov x29, x1\n"
	"	blr x0\n"
	"	ldp x29, x30, [sp], 16\n"
	"	ret\n");
#endif

static void launch_one(void)
{
	work_launch(&work, 1);
}

/* A direct call of the driver's, whose caller may keep anything in the frame pointer. */
static void set_one(void)
{
	CHECK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)work.cell + sizeof *work.cell, 1, 1, (CUstream)work.stream));
	work.issued.sets++;
}

static void launch_with_nonsense(void)
{
	for (unsigned i = 0; i < values; i++) {
		with_frame_pointer(launch_one, nonsense[i]);
		with_frame_pointer(set_one, nonsense[i]);
	}
}

static void coroutine(void)
{
	launch_one();
	launch_with_nonsense();
	swapcontext(&(ucontext_t){0}, &back);
}

/* A stack of a size between pages that cannot be read, or NULL. */
static char *map_stack(size_t size)
{
	char *all = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED || mprotect(all + PAGE, size, PROT_READ | PROT_WRITE) != 0)
		return NULL;
	return all + PAGE;
}

static void add_nonsense(uintptr_t value)
{
	nonsense[values++] = value;
}

/* Values around a stack and around our own frame. */
static void collect_nonsense(const char *stack, size_t size)
{
	char here;
	uintptr_t end = (uintptr_t)stack + size;
	values = 0;
	for (uintptr_t v = 0; v <= 8; v += 4)
		add_nonsense(v);
	add_nonsense(UINTPTR_MAX - 7);
	add_nonsense((uintptr_t)1 << 63);
	add_nonsense(end - 8);
	add_nonsense(end);
	add_nonsense(end + PAGE + 64);
	add_nonsense(end - 16);
	add_nonsense((uintptr_t)&here | 1);
	add_nonsense(((uintptr_t)&here & ~(uintptr_t)7) + PAGE * 2);
	add_nonsense((uintptr_t)stack - 16);
	add_nonsense((uintptr_t)&work);
}

static int run_on(size_t size)
{
	ucontext_t c;
	char *stack = map_stack(size);
	if (!stack || getcontext(&c) != 0)
		return 1;
	collect_nonsense(stack, size);
	c.uc_stack.ss_sp = stack;
	c.uc_stack.ss_size = size;
	c.uc_link = NULL;
	makecontext(&c, coroutine, 0);
	int bad = swapcontext(&back, &c) != 0;
	launch_with_nonsense();
	return bad | munmap(stack - PAGE, size + 2 * PAGE);
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 50, 1);
	int bad = 0;
	work_begin(&work);
	CHECK(cudaFree(work.cell));
	CHECK(cudaMalloc((void **)&work.cell, 2 * sizeof *work.cell));
	CHECK(cudaMemsetAsync(work.cell, 0, 2 * sizeof *work.cell, work.stream));
	work.issued.sets++;
	for (long i = 0; i < n; i++)
		bad |= run_on(STACK + (size_t)(i % 4) * PAGE);
	bad |= work_end(&work);
	counts_print("counts", work.issued);
	return bad;
}
