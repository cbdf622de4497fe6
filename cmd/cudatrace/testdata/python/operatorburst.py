"""Runs a million operators of the simulated PyTorch while the recorder is stopped."""
import ctypes
import os
import signal
import time

cuda = ctypes.CDLL("libcudart.so.13")
torch = ctypes.CDLL("libtorch_cpu.so")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
deadline = time.monotonic() + 20
while torch.sim_torch_observed() == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
os.kill(os.getppid(), signal.SIGSTOP)
operate, name = torch.sim_torch_operate, ctypes.c_char_p(b"aten::add")
for _ in range(1000000):
    operate(name, False, None, None)
os.kill(os.getppid(), signal.SIGCONT)
