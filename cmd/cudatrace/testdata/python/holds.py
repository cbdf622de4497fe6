"""Allocates, waits and frees from known lines."""
import ctypes

cuda = ctypes.CDLL("libcudart.so.13")  # releases the GIL during a call


def hold():
    memory = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096))
    return memory


def hold_on_host():
    memory = ctypes.c_void_p()
    cuda.cudaMallocHost(ctypes.byref(memory), ctypes.c_size_t(100))
    return memory


def wait():
    cuda.cudaDeviceSynchronize()


a, b = hold(), hold()
host = hold_on_host()
for _ in range(3):
    cuda.cudaMemset(a, 0, 64)
    wait()
cuda.cudaFree(a)
cuda.cudaFree(b)
cuda.cudaFreeHost(host)
