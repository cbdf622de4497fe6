// Functions named like those of the runtime, which jump to those of a shared runtime, as XLA has them.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __x86_64__
#define JUMP(name) "jmp *to_" #name "(%rip)\n"
#else
#define JUMP(name) "adrp x16, to_" #name "\nldr x16, [x16, :lo12:to_" #name "]\nbr x16\n"
#endif

#define FORWARD(name) \
	__attribute__((used)) void *to_##name; \
	__asm__(".pushsection .text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n" JUMP(name) ".size " #name ", . - " #name \
		"\n.popsection\n");
#include "forward.def"
#undef FORWARD

__attribute__((constructor(101))) static void find(void)
{
	void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
#define FORWARD(name) \
	if (!runtime || !(to_##name = dlsym(runtime, #name))) { \
		fprintf(stderr, "%s\n", dlerror()); \
		exit(1); \
	}
#include "forward.def"
}
