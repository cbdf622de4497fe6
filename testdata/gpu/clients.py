"""Does what its standard input says, a line for each, and answers with a line: launch N (kernels), profile N SECONDS (kernels
that torch.profiler sees of N, spread over so many seconds)."""
import sys
import time

import torch
from torch.profiler import ProfilerActivity

x = torch.randn(1 << 16, device="cuda")


def launch(n, pause=0.0):
    for _ in range(n):
        x.add_(1)
        time.sleep(pause)
    torch.cuda.synchronize()
    return n


def profile(n, seconds):
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as p:
        launch(n, seconds / n)
    return sum(e.count for e in p.key_averages() if "elementwise" in e.key)


launch(10)
print("ready", flush=True)
for line in sys.stdin:
    word, n, *seconds = line.split()
    print(launch(int(n)) if word == "launch" else profile(int(n), float(seconds[0])), flush=True)
