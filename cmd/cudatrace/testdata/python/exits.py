"""Ends while daemon threads launch. Python freezes such threads when they want the GIL, and frees their frames."""
import ctypes
import sys
import threading

cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 4096)
started = threading.Barrier(5)


def launch(depth):
    if depth:
        return launch(depth - 1)
    for i in range(1000000):
        if i == 20:
            started.wait()
        cuda.cudaMemset(memory, 0, 64)


for n in range(4):
    threading.Thread(target=launch, args=(n * 30,), daemon=True).start()
started.wait()
print("ends")
sys.exit(3)
