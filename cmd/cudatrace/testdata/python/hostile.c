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

/* An evaluator of frames, PEP 523: it runs the interpreter's own, with 2 on a stack that is deeper each time. */
void *PyInterpreterState_Get(void);
void *_PyEval_EvalFrameDefault(void *, void *, int);
void _PyInterpreterState_SetEvalFrameFunc(void *, void *(*)(void *, void *, int));

static void *through(void *thread, void *frame, int raises)
{
	return _PyEval_EvalFrameDefault(thread, frame, raises);
}

static void *deeper(void *thread, void *frame, int raises)
{
	volatile char room[3000];
	room[raises] = 1;
	void *result = _PyEval_EvalFrameDefault(thread, frame, raises);
	return room[raises] ? result : NULL;
}

void evaluate_with(int kind)
{
	_PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), kind == 0 ? _PyEval_EvalFrameDefault : kind == 1 ? through : deeper);
}
