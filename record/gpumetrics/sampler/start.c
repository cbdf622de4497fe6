/*
 * The entry point. The C library's own startup code is that of the machine that builds: it asks for the
 * glibc of that machine. This one asks for __libc_start_main as glibc has had it ever since. There are no
 * constructors to run.
 */
#if defined(__x86_64__)
__asm__(".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "	xor %ebp, %ebp\n"
        "	mov %rsp, %rdi\n"
        "	mov %rdx, %rsi\n"
        "	and $-16, %rsp\n"
        "	call gs_start\n"
        "	hlt\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "	mov x29, #0\n"
        "	mov x30, #0\n"
        "	mov x1, x0\n"
        "	mov x0, sp\n"
        "	bl gs_start\n"
        "	brk #1\n");
#endif

int main(int argc, char **argv);
int __libc_start_main(int (*run)(int, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end);
void gs_start(long *stack, void (*loader_fini)(void));

/* The stack holds argc and argv. The loader's own handler is to run at exit. */
__attribute__((used)) void gs_start(long *stack, void (*loader_fini)(void))
{
	__libc_start_main(main, (int)stack[0], (char **)(stack + 1), 0, 0, loader_fini, stack);
}
