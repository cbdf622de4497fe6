"""A PyTorch training step of many small kernels, over and over; the beginning and the end of each step go to a file as two uint64 of
CLOCK_MONOTONIC, behind one with their number. SIGUSR1 starts PyTorch's profiler, SIGUSR2 ends it.

Usage: python3 steps.py FILE [events|decode]

events: the batch is copied on a stream of its own, with two events a step. decode: a token of bench/train.py's transformer.
"""
import mmap
import os
import signal
import struct
import sys
import time

import torch

most = 1 << 18
with open(sys.argv[1], "w+b") as f:
    f.truncate(8 + 16 * most)
    times = mmap.mmap(f.fileno(), 0)
events = "events" in sys.argv
signals, profiler = [], None
for n in signal.SIGUSR1, signal.SIGUSR2:
    signal.signal(n, lambda n, frame: signals.append(n))
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(50))).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=False)
host = torch.randn(32, 64).pin_memory()
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
x = host.cuda()


def train():
    global x
    if events:
        with torch.cuda.stream(side):
            side.wait_stream(main)
            x = host.to("cuda", non_blocking=True)
        main.wait_stream(side)
        x.record_stream(main)
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.mse_loss(net(x), x).backward()
    optimizer.step()
    torch.cuda.synchronize()


step = train
if "decode" in sys.argv:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
    from train import Decoding
    step = Decoding().step
for i in range(most):
    while signals:
        if signals.pop(0) == signal.SIGUSR1:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            profiler.start()
        elif profiler:
            profiler.stop()
            profiler = None
    begun = time.monotonic_ns()
    step()
    struct.pack_into("QQ", times, 8 + 16 * i, begun, time.monotonic_ns())
    struct.pack_into("Q", times, 0, i + 1)
