#include "internal.h"

RUNTIME_BARE(cudaGetDeviceCount, (int *count), sim_drv.cuDeviceGetCount(count))
RUNTIME_BARE(cudaSetDevice, (int device), sim_rt_set_device(device))
RUNTIME(cudaDeviceSynchronize, (void), sim_drv.cuCtxSynchronize())
RUNTIME_BARE(cudaDeviceReset, (void), sim_rt_reset())
RUNTIME_BARE(cudaProfilerStart, (void), sim_drv.cuProfilerStart())
RUNTIME_BARE(cudaProfilerStop, (void), sim_drv.cuProfilerStop())
