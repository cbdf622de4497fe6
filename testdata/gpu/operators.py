"""Training and decoding in PyTorch, for PyTorch's operators (`record --pytorch`). Prints a line for each step: when it
began and how long it took, ns of CLOCK_MONOTONIC. With --profile, torch.profiler runs around 3 more steps and writes its
trace: not in a recorded process, since it takes CUPTI's records over.

usage: operators.py train|decode SECONDS [--profile FILE]
"""
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 8, w // 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, w))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self, width=256, layers=6, vocabulary=1000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(model):
    tokens = torch.randint(0, 1000, (4, 64), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def decode(model):
    tokens = torch.randint(0, 1000, (1, 1), device="cuda")

    @torch.no_grad()
    def step():
        for _ in range(6):
            model(tokens).argmax(-1)

    return step


def run(step, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        print(began, time.monotonic_ns() - began)


def profile(step, path):
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    p.export_chrome_trace(path)


def main():
    torch.manual_seed(1)
    model = Model().cuda()
    step = {"train": train, "decode": decode}[sys.argv[1]](model)
    run(step, float(sys.argv[2]))
    if len(sys.argv) > 4:
        profile(step, sys.argv[4])


main()
