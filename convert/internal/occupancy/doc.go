// Package occupancy computes theoretical occupancy: how many blocks of a kernel run on a
// multiprocessor at a time, what bounds that number, and in how many waves a grid runs. The input is
// a GPU and a launch of the timeline. The rules are those of CUDA's occupancy calculation
// (cudaOccupancyMaxActiveBlocksPerMultiprocessor), for compute capability 5.0 and later.
//
// A multiprocessor is taken to have all the shared memory that it can have. CUDA's calculation does the
// same where a program does not prefer another carve-out.
package occupancy
