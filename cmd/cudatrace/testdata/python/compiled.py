"""Launches work as code that PyTorch has compiled does: python3 compiled.py GENERATED STEPS SECONDS. The file GENERATED is one of
Inductor's. Each step calls it outside of all operators, and in one. It waits
SECONDS at most until operators are observed."""
import ctypes
import sys
import time

cuda = ctypes.CDLL("libcudart.so.13")
torch = ctypes.CDLL("libtorch_cpu.so")
body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Kernel:
    def run(self, pointer, *sizes, stream):
        cuda.cudaMemset(pointer, 0, 64)


class async_compile:
    @staticmethod
    def triton(name, source, device_str):
        return Kernel()


class extern_kernels:
    @staticmethod
    def mm(pointer):
        operate("aten::mm", lambda _: cuda.cudaMemset(pointer, 0, 64))


def operate(name, inner):
    torch.sim_torch_operate(name.encode(), False, body(inner), None)


memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
deadline = time.monotonic() + int(sys.argv[3])
while torch.sim_torch_observed() == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
module = {"async_compile": async_compile, "extern_kernels": extern_kernels, "get_raw_stream": lambda device: device}
with open(sys.argv[1]) as f:
    exec(compile(f.read(), sys.argv[1], "exec"), module)
for _ in range(int(sys.argv[2])):
    module["call"]([memory])
    operate("CompiledFunction", lambda _: module["call"]([memory]))
cuda.cudaDeviceSynchronize()
