"""A program that hangs, or goes on, on a real GPU.

Usage: python3 hang.py CASE

CASE is one of: item (PyTorch waits in .item() for a kernel that does not end), spin, yield, block (the runtime waits in
cudaDeviceSynchronize for such a kernel, with that flag of cudaSetDeviceFlags), moving (a training loop).
"""
import ctypes
import sys

case = sys.argv[1]


def says_ready():
    print("ready", flush=True)


def with_torch():
    import torch
    x = torch.randn(256, 256, device="cuda")
    (x @ x).sum().item()
    torch.cuda.synchronize()
    says_ready()
    if case == "item":
        torch.cuda._sleep(1 << 62)
        return (x @ x).sum().item()
    while True:
        x = (x @ x) / x.norm()
        x.sum().item()


PTX = (b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry never_ends()\n{\nAGAIN:\nnanosleep.u32 1000;\nbra AGAIN;\n}\n\0")


def with_driver():
    import glob
    import os
    folder = [p for pattern in ("/usr/local/cuda/lib64", os.path.dirname(sys.executable) + "/../lib/python3*/site-packages/nvidia/*/lib")
              for p in glob.glob(pattern + "/libcudart.so.1[23]*")]
    runtime, driver = ctypes.CDLL(folder[0]), ctypes.CDLL("libcuda.so.1")
    runtime.cudaSetDeviceFlags({"spin": 1, "yield": 2, "block": 4}[case])
    assert runtime.cudaFree(None) == 0
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), PTX) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"never_ends") == 0
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    says_ready()
    runtime.cudaDeviceSynchronize()


with_torch() if case in ("item", "moving") else with_driver()
