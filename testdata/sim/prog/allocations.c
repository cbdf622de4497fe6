/* The program of real GPUs: what it allocates is known. */
#include "../../gpu/allocations.cu"
