"""Training loops with a cause of lost time, and the same loops without it: what a finding says the cause costs is compared with what is saved.

Usage: python3 savings.py CAUSE with|without

loader    a batch that takes 4 ms to load before each step, whose result the CPU reads at the end
item      the CPU reads a result in the middle of a step, and computes behind it
sync      it waits for the whole device there
pageable  each batch is copied from pageable memory; without: from pinned memory, asynchronously
alloc     PyTorch's cache is emptied in each step, so that memory is freed and allocated
copy      each batch is copied on a stream of its own while kernels run: that costs nothing
behind    the CPU sleeps while much work is queued: that costs nothing
"""
import sys
import time

import torch

cause, there = sys.argv[1], sys.argv[2] == "with"
assert sys.argv[2] in ("with", "without")
steps, warm = 30, 8
a = torch.randn(2048, 2048, device="cuda")
out = torch.empty_like(a)
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
pinned = cause != "pageable" or not there
host = torch.randn(16 << 20)
if pinned:
    host = host.pin_memory()
batches = [torch.empty(16 << 20, device="cuda") for _ in range(2)]
copied = [torch.cuda.Event() for _ in range(2)]
used = [torch.cuda.Event() for _ in range(2)]
done = [torch.cuda.Event() for _ in range(2)]
early = torch.cuda.Event()


def compute(n):
    for _ in range(n):
        torch.mm(a, a, out=out)


def busy(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def load():
    if there:
        time.sleep(0.004)


def read():
    return out[0, 0].item()


def step(i):
    if cause == "loader":
        load()
        compute(20)
        read()
        return
    if cause in ("item", "sync"):
        compute(10)
        if there and cause == "item":
            read()
        if there and cause == "sync":
            torch.cuda.synchronize()
        busy(0.003)
        compute(10)
        busy(0.003)
    elif cause == "pageable":
        batches[0].copy_(host, non_blocking=pinned)
        compute(20)
    elif cause == "alloc":
        if there:
            torch.cuda.empty_cache()
        big = torch.empty(1 << 28, device="cuda")
        compute(10)
        busy(0.002)
        del big
        compute(10)
        busy(0.002)
    elif cause == "copy":
        if there:
            with torch.cuda.stream(side):
                side.wait_event(used[i % 2])
                batches[i % 2].copy_(host, non_blocking=True)
                copied[i % 2].record(side)
            main.wait_event(copied[i % 2])
        compute(20)
        used[i % 2].record(main)
    elif cause == "behind":
        compute(1)
        early.record(main)
        compute(20)
        early.synchronize()
        if there:
            time.sleep(0.004)
    else:
        sys.exit("no cause " + cause)
    done[i % 2].record(main)
    if i > 0 and cause != "behind":
        done[(i - 1) % 2].synchronize()


begun = []
for i in range(warm + steps):
    if i == warm:
        torch.cuda.synchronize()
    begun.append(time.perf_counter())
    torch.cuda.nvtx.range_push(f"{'step' if i >= warm else 'warm-up'} {i}")
    step(i)
    torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
times = sorted(y - x for x, y in zip(begun[warm:], begun[warm + 1:]))
print(f"{cause} {sys.argv[2]}: median step {times[len(times) // 2] * 1e3:.3f} ms")
