"""Asks the simulated allocator of PyTorch for a block 30,000 times, and gives it back, while the recorder is stopped."""
import ctypes
import os
import signal

cuda = ctypes.CDLL("libcudart.so.13")
c10 = ctypes.CDLL("libc10.so")
c10.sim_c10_malloc.restype = ctypes.c_uint64
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(30000):
    c10.sim_c10_free(ctypes.c_uint64(c10.sim_c10_malloc(ctypes.c_uint64(1000), 0)), 0)
os.kill(os.getppid(), signal.SIGCONT)
