/* A library of functions to probe. */
#include <csetjmp>
#include <stdexcept>

#pragma GCC visibility push(default)
extern "C" {
#include "functions.h"
}
namespace shapes {
int thrower(int n);
int catcher(int n);
}

extern "C" {
long add(long a, int b) { return a + b; }

void *same(void *p) { return p; }

/* What a compiler calls the part of a function that is seldom needed. */
long outer_cold(long n) asm("outer.cold");
long outer_cold(long n) { return n; }

long outer(long n) { return add(n, 1) + add(n, 2); }

static jmp_buf back;

/* Left by longjmp from within, for even numbers. */
int left(int n)
{
	if (n % 2 == 0)
		longjmp(back, n + 1);
	return n;
}

long again(long n)
{
	if (setjmp(back) == 0)
		return left((int)n);
	return -1;
}

/* Recursion, with the caller's frame on the stack. */
long deep(long n)
{
	volatile long own = n;

	return n ? deep(n - 1) + own : 0;
}
}

namespace shapes {
int thrower(int n)
{
	if (n)
		throw std::runtime_error("thrown");
	return 0;
}

int catcher(int n)
{
	try {
		return thrower(n);
	} catch (const std::runtime_error &) {
		return -n;
	}
}
}
