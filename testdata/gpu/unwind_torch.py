"""PyTorch's ways to the driver, a fixed number of times: the same calls in each run. Usage: unwind_torch.py [STEPS]"""
import sys

import torch
import triton
import triton.language as tl

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
torch.manual_seed(0)
torch.backends.cudnn.benchmark = False
image = torch.randn(8, 16, 32, 32, device="cuda")
convolution = torch.nn.Conv2d(16, 32, 3).cuda()
linear = torch.nn.Linear(256, 256).cuda().half()
x = torch.randn(128, 256, device="cuda", dtype=torch.half)
square = torch.randn(256, 256, device="cuda")
host = torch.randn(1 << 16).pin_memory()
pageable = torch.randn(1 << 10)


@triton.jit
def add_one(at, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(at + i, tl.load(at + i, mask=i < n) + 1, mask=i < n)


@torch.compile
def fused(a):
    return (torch.sin(a) * a + 1).sum(dim=1)


def work(y):
    y = convolution(image).relu().mean() + y
    hidden = torch._addmm_activation(linear.bias, x, linear.weight.t(), use_gelu=True)  # cuBLASLt
    y = y + hidden.float().mean() + (square @ square).mean()
    add_one[(64,)](square, 1 << 14, BLOCK=256)
    return y.clamp(-1, 1)


def copies():
    there = host.to("cuda", non_blocking=True)
    host.copy_(there, non_blocking=True)
    small = pageable.cuda()
    torch.empty_like(there).copy_(there).zero_()
    return small.sum().item()


def capture():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work(torch.zeros((), device="cuda"))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(torch.zeros((), device="cuda"))
    return graph


with torch.no_grad():
    y, graph = torch.zeros((), device="cuda"), capture()
    for _ in range(steps):
        y = work(y)
        fused(square)
        copies()
        graph.replay()
    y.requires_grad_(False)
# The backward pass launches from a thread of its own.
for _ in range(steps):
    torch.nn.functional.mse_loss(convolution(image), torch.zeros(8, 32, 30, 30, device="cuda")).backward()
torch.cuda.synchronize()
print(f"steps={steps} y={y.item():.4f}")
