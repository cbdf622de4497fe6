"""Steps of a few ms, counted by the module cudatrace, until its input ends."""
import ctypes
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import cudatrace

cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64))
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("ready", flush=True)
while not ended.is_set():
    cudatrace.step()
    with cudatrace.range("turn"):
        cuda.cudaMemset(memory, 0, 64)
    time.sleep(0.005)
