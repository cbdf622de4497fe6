"""Data-parallel training and every kind of collective on two communicators, for two GPUs or more.

Usage: torchrun --nproc-per-node 2 collectives.py STEPS JITTER_MS SLOW_RANK SLOW_MS

Each rank sleeps up to JITTER_MS before a step, so that ranks take turns in being the last one; SLOW_RANK (-1: none) sleeps
SLOW_MS more. Prints how many collectives of each kind it asked for beside those of the training.
"""
import os
import random
import sys
import time

import torch
import torch.distributed as dist

steps, jitter, slow_rank, slow = int(sys.argv[1]), float(sys.argv[2]) / 1e3, int(sys.argv[3]), float(sys.argv[4]) / 1e3
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
world = dist.get_world_size()
second = dist.new_group(list(range(world)))
torch.manual_seed(rank)
random.seed(1000 + rank)
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local], bucket_cap_mb=2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(128, 512, device="cuda")
whole = torch.randn(1 << 20, device="cuda")
gathered = torch.empty(world << 20, device="cuda")
part = torch.empty((1 << 20) // world, device="cuda")
exchanged = torch.empty_like(whole)
counts = dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "broadcast", "all_reduce"), 0)


def all_kinds():
    dist.all_gather_into_tensor(gathered, whole)
    dist.reduce_scatter_tensor(part, whole)
    dist.all_to_all_single(exchanged, whole)
    dist.broadcast(whole, 0)
    for kind in ("all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        counts[kind] += 1


for i in range(steps):
    with torch.cuda.nvtx.range("step"):
        time.sleep(random.random() * jitter + (slow if rank == slow_rank else 0))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if i % 4 == 0:
            all_kinds()
        dist.all_reduce(part, group=second)
        counts["all_reduce"] += 1
        torch.cuda.synchronize()
print(f"rank {rank} steps {steps} {counts}", flush=True)
dist.destroy_process_group()
