"""Asks the simulated allocator of PyTorch for ten blocks, from code whose file's name is hashed behind the first one: from
then on another number tells the code object from others."""
import ctypes
import time

cuda = ctypes.CDLL("libcudart.so.13")
c10 = ctypes.CDLL("libc10.so")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
exec(compile("def ask():\n    c10.sim_c10_malloc(ctypes.c_uint64(1000), 0)\n", "/tmp/" + str(time.time()), "exec"))
for _ in range(10):
    ask()
    hash(ask.__code__.co_filename)
    time.sleep(0.02)
