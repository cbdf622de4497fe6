"""A decoding loop that does what its standard input says, a line for each, and answers with a line: check (the sum of 200
tokens from a fixed start), profile (kernels that torch.profiler sees in 20 tokens), run SECONDS (decodes, and forks and
starts programs meanwhile: how many children went wrong), speed N (N times: 10 tokens between two loops that only count; the
second time, the median against that of the first time, with its interval of 95 %)."""
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import warnings

import torch

warnings.simplefilter("ignore")  # of os.fork beside threads
torch.manual_seed(1)
LAYERS, WIDTH = 60, 256
layers = [torch.nn.Linear(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
norm = torch.nn.LayerNorm(WIDTH, device="cuda", dtype=torch.bfloat16)
start = torch.randn(1, WIDTH, device="cuda", dtype=torch.bfloat16)


@torch.no_grad()
def tokens(n, x=start):
    for _ in range(n):
        for layer in layers:
            x = norm(torch.nn.functional.gelu(layer(x)) + x) * 0.5 + x.tanh()
    return x.double().sum().item()


def profile():
    from torch.profiler import ProfilerActivity
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as p:
        tokens(20)
    return sum(e.count for e in p.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA)


def children(until, wrong):
    while time.monotonic() < until:
        child = os.fork()
        if child == 0:
            os._exit(7)
        wrong.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7)
        wrong.append(subprocess.run(["true"]).returncode != 0)
        time.sleep(0.02)


def run(seconds):
    until, wrong = time.monotonic() + seconds, []
    parent = threading.Thread(target=children, args=(until, wrong))
    parent.start()
    while time.monotonic() < until:
        tokens(5)
    parent.join()
    return f"{sum(wrong)} wrong of {len(wrong)} children"


def spin():
    begun = time.perf_counter()
    for _ in range(100000):
        pass
    return time.perf_counter() - begun


def one():
    before = spin()
    begun = time.perf_counter()
    tokens(10)
    took = time.perf_counter() - begun
    return 2 * took / (before + spin())


def speed(n, known=[]):
    times = [one() for _ in range(n)]
    if not known:
        known.extend(times)
        return "measured"
    ratio = lambda a, b: statistics.median(a) / statistics.median(b)  # noqa: E731
    again = sorted(ratio(random.choices(times, k=n), random.choices(known, k=len(known))) for _ in range(1000))
    return f"x {ratio(times, known):.4f} of the time before (95 %: {again[25]:.4f} .. {again[975]:.4f}), {n} + {len(known)} times"


tokens(50)
print("ready", flush=True)
for line in sys.stdin:
    word, *number = line.split()
    print({"check": lambda: tokens(200), "profile": profile, "run": lambda: run(float(number[0])),
           "speed": lambda: speed(int(number[0]))}[word](), flush=True)
