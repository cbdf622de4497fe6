"""Data-parallel training whose gradients are averaged by calls of its own, with one planted cause on one rank.

Usage: [LAYERS=8] torchrun --nproc-per-node N ranks.py STEPS [CAUSE RANK]

CAUSE is one of: plain, straggler (4 ms of sleep before a step), loader (8 ms of waiting for a process that reads), starved (two busy threads of another
process on the only processor that is left), kernel (a matrix product more), never (at its middle step the rank opens a FIFO that nobody
writes, and never comes to its all-reduce). Prints the collectives that it asked for.
"""
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

steps = int(sys.argv[1])
cause, planted = (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 2 else ("plain", -1)
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(int(os.environ.get("LAYERS", "8"))))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
host = torch.randn(512, 2048).pin_memory()
prefetch = torch.cuda.Stream()
big = torch.randn(4096, 4096, device="cuda")
mine = rank == planted
collectives = 0


def slow_loader():
    """A process that needs 8 ms for what it is asked for."""
    work = "import os, time\nwhile os.read(0, 1):\n    time.sleep(0.008)\n    os.write(1, b'x')"
    return subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def next_batch():
    os.write(loader.stdin.fileno(), b"x")
    os.read(loader.stdout.fileno(), 1)


def starve():
    """Leaves this process one processor, and two others on it, which are busy by then."""
    cpu = min(os.sched_getaffinity(0))
    loop = "import os\nos.sched_setaffinity(0, {%d})\nos.write(1, b'x')\nwhile True: pass" % cpu
    busy = [subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE) for _ in range(2)]
    for tid in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(tid), {cpu})
    return [p for p in busy if p.stdout.read(1)]


def average_gradients():
    global collectives
    for p in model.parameters():
        dist.all_reduce(p.grad)
        collectives += 1


def never_comes():
    path = f"/tmp/never-{os.getpid()}"
    os.mkfifo(path)
    open(path).read()


def train_step(i):
    if mine and cause == "straggler":
        time.sleep(0.004)
    if mine and cause == "loader":
        next_batch()
    if mine and cause == "never" and i == steps // 2:
        never_comes()
    with torch.cuda.stream(prefetch):
        x = host.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(prefetch)
    x.record_stream(torch.cuda.current_stream())
    optimizer.zero_grad()
    loss = model(x).square().mean()
    if mine and cause == "kernel":
        torch.mm(big, big)
    loss.backward()
    average_gradients()
    optimizer.step()


loader = slow_loader() if mine and cause == "loader" else None
busy = [loader] if loader else []
for i in range(steps):
    if i == 3 and cause == "starved":
        busy = starve() if mine else []
        dist.barrier()  # so that no step waits for the preparation
        torch.cuda.synchronize()
    with torch.cuda.nvtx.range("step"):
        train_step(i)
        torch.cuda.synchronize()
for p in busy:
    p.kill()
print(f"rank {rank} steps {steps} all_reduce {collectives}", flush=True)
dist.destroy_process_group()
