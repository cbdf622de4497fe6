"""Marks its loop by the module cudatrace: 12 steps with two launches each, one launch in a range of each step."""
import ctypes
import os
import sys
import warnings

sys.path.insert(0, sys.argv[1])
import cudatrace

warnings.simplefilter("ignore")  # a fork beside threads

early = cudatrace.range("early")
with early:  # CUDA has not started
    cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64))


def fill():
    cuda.cudaMemset(memory, 0, 64)


@cudatrace.range("forward größe")
def forward(deeper):
    """Fills."""
    fill()
    if deeper:
        forward(False)


for i in range(12):
    cudatrace.step(i * 10 if i < 2 else None)
    forward(i == 11)
    with cudatrace.range("outer") as outer, outer:
        fill()
    try:
        with cudatrace.range("raises"):
            raise ValueError
    except ValueError:
        pass
    if i == 5 and os.fork() == 0:
        cudatrace.step()
        with cudatrace.range("child"):
            os._exit(0)
with cudatrace.range(12):  # no string
    pass
try:
    cudatrace.step("no number")
except ValueError:
    cuda.cudaDeviceSynchronize()
print("done", forward.__name__, forward.__doc__, "cudatrace" in sys.modules, cuda.cudaFree(memory))
