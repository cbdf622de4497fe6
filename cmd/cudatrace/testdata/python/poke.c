/* Launches while a word of memory has another value. Python does not run meanwhile. */
#include <stddef.h>
#include <stdint.h>

int cudaMemset(void *, int, size_t);

void poke(volatile uint64_t *at, uint64_t value, void *memory)
{
	uint64_t was = at ? *at : 0;
	if (at)
		*at = value;
	cudaMemset(memory, 0, 64);
	if (at)
		*at = was;
}
