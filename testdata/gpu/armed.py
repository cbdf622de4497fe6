"""A loop of PyTorch with NVTX ranges, until its input ends. Each line "cost" prints what a launch and a range take, in us."""
import os
import select
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "packaging", "python"))
import cudatrace

nvtx = torch.cuda.nvtx
a = torch.ones(64, 64, device="cuda")


def turn():
    cudatrace.step()
    with nvtx.range("forward"):
        b = a @ a  # the line of the launches
    with cudatrace.range("backward"):
        b.relu_()


def cost(f, n=20000):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(n):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / n * 1e6


def ranges():
    nvtx.range_push("empty")
    nvtx.range_pop()


turn()
print("ready", flush=True)
with nvtx.range("all"):
    while True:
        turn()
        if select.select([sys.stdin], [], [], 0.001)[0]:
            line = sys.stdin.readline()
            if not line:
                break
            print(f"{cost(lambda: a.relu_()):.2f} {cost(ranges):.3f}", flush=True)
print("sum", float((a @ a).sum()))
