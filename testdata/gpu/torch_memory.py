"""Memory of PyTorch's cache on a GPU, for `record --pytorch memory`.

usage: torch_memory.py train SECONDS MOMENTS   trains, and writes to the file MOMENTS ten lines of JSON: what
                                               torch.cuda.memory_stats says, and when (ns of CLOCK_MONOTONIC)
       torch_memory.py oom TRUTH               runs out of memory, and writes to the file TRUTH what its lines held then,
                                               by torch.cuda.memory._snapshot
       torch_memory.py steps SECONDS           trains, and prints the median time of a step in ms
"""
import collections
import json
import statistics
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def trainer(width=512, layers=12):
    model = nn.Sequential(*[Block(width) for _ in range(layers)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step(rows):
        x = torch.randn(rows, width, device="cuda")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step


def moment():
    s = torch.cuda.memory_stats()
    keys = [f"{what}_bytes.all.{which}" for which in ("current", "peak") for what in ("allocated", "reserved")]
    return {"time": time.monotonic_ns(), **{k: s[k] for k in keys}}


def train(seconds, path):
    step, kept = trainer(), []
    with open(path, "w") as f:
        for i in range(10):
            end = time.monotonic() + seconds / 10
            while time.monotonic() < end:
                step(256 * (1 + i % 4))
            kept.append(torch.empty(1000 * (i + 1), 999, device="cuda"))
            print(json.dumps(moment()), file=f)


def hold(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def out_of_memory(path):
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    held = []
    for _ in range(3):
        held.append(hold(900))
        held.append(hold(700))
        held.append(hold(500))
        held.append(hold(300))
        held.append(torch.empty(200 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(120 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(90 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(50 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(33 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(17 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(5 << 20, dtype=torch.uint8, device="cuda"))
        held.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
    try:
        while True:
            held.append(torch.empty(2 << 30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as e:
        print(str(e).split("\n")[0][:200])
    lines = collections.Counter()
    for segment in torch.cuda.memory._snapshot()["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                own = [f for f in block.get("frames", []) if f["filename"].endswith("torch_memory.py")]
                lines[own[0]["line"] if own else 0] += block["size"]
    with open(path, "w") as f:
        json.dump(lines.most_common(10), f)


def steps(seconds):
    step, times = trainer(), []
    for _ in range(20):
        step(256)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic_ns()
        step(256)
        times.append(time.monotonic_ns() - began)
    print(f"{statistics.median(times) / 1e6:.4f}")


torch.manual_seed(1)
if sys.argv[1] == "train":
    train(float(sys.argv[2]), sys.argv[3])
elif sys.argv[1] == "oom":
    out_of_memory(sys.argv[2])
else:
    steps(float(sys.argv[2]))
