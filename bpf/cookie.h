/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
#ifndef CUDATRACE_COOKIE_H
#define CUDATRACE_COOKIE_H

/*
 * An attach cookie: the function, and for a plain one how its arguments are read. That
 * of others is in their recipe. A plain function's event holds words as they were found
 * at entry: LESS_REGISTERS or all registers for arguments, words of the stack, words of
 * a struct that a register points to.
 */
#define COOKIE_FUNCTION(cookie) ((u32)(cookie) & 0xffff)
#define COOKIE_PLAIN (1ull << 16)
#define COOKIE_ALWAYS (1ull << 17) /* wanted while recording is paused too */
#define COOKIE_ALL_REGISTERS (1ull << 18)
#define COOKIE_LAUNCH_BIT 19 /* it launches a kernel, at the driver */
#define COOKIE_STACK_WORDS(cookie) ((u32)((cookie) >> 20) & 7)
#define COOKIE_BLOCK_WORDS(cookie) ((u32)((cookie) >> 24) & 7)
#define COOKIE_BLOCK_REGISTER(cookie) ((u32)((cookie) >> 28) & 3)
#define COOKIE_BLOCK_OFFSET(cookie) ((u32)((cookie) >> 32) & 0xffff)
#define COOKIE_CHAIN(cookie) ((u32)((cookie) >> 48) & 7) /* most addresses of the chain; 0: none is wanted */
#define LESS_REGISTERS 4

#define COOKIE_ALONE_BIT 23 /* the return is left alone: of plain functions and those of any library */

/* What the site is, in all cookies; without these bits it is an entry. */
#define COOKIE_RETURN (1ull << 30) /* a return instruction */
#define COOKIE_BEHIND (1ull << 31) /* behind the return: the return probe */

/* In place of the others, that of a function of any library has the number of words to record. */
#define COOKIE_WORDS(cookie) ((u32)((cookie) >> 20) & 7)

#endif
