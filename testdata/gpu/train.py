"""A small PyTorch training loop: many short kernels, as real training has.

Usage: train.py [STEPS] [eager|graph|compile|nvtx|marks|profiler|loader|windows]. Prints the loss and the steps.
With loader the data comes from workers that were forked after CUDA's start; marks has steps of the module cudatrace and
prints what a range costs; windows prints a line at the start, and at the end the time of each step.
"""
import sys
import time

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
mode = sys.argv[2] if len(sys.argv) > 2 else "eager"
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(50))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
x = torch.randn(32, 64).cuda()
y = torch.randn(32, 64).cuda()


def step():
    optimizer.zero_grad(set_to_none=mode != "graph")
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def graph_loop():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(steps):
        graph.replay()
    return loss


class Slow(torch.utils.data.Dataset):
    """A tenth of a second for each item."""

    def __len__(self):
        return steps

    def __getitem__(self, i):
        time.sleep(0.1)
        return torch.full((64,), float(i))


def loader_loop():
    for rows in torch.utils.data.DataLoader(Slow(), num_workers=2, multiprocessing_context="fork"):
        x.copy_(rows.expand(32, 64))
        loss = step()
    return loss


def marks_loop():
    import cudatrace
    for _ in range(steps):
        cudatrace.step()
        with cudatrace.range("inner"):
            loss = step()
    cudatrace.step()
    torch.cuda.synchronize()
    begun = time.perf_counter_ns()
    for _ in range(2000):
        with cudatrace.range("empty"):
            pass
    print("a range takes", (time.perf_counter_ns() - begun) // 2000, "ns")
    return loss


def plain_loop():
    for i in range(steps):
        if mode == "nvtx":
            with torch.cuda.nvtx.range(f"step {i}"), torch.cuda.nvtx.range("inner"):
                loss = step()
        else:
            loss = step()
    return loss


if mode == "compile":
    model = torch.compile(model)
if mode == "graph":
    loss = graph_loop()
elif mode == "loader":
    loss = loader_loop()
elif mode == "marks":
    loss = marks_loop()
elif mode == "windows":
    step()
    torch.cuda.synchronize()
    print("begin", flush=True)
    ends = [time.monotonic_ns()]
    for _ in range(steps):
        loss = step()
        torch.cuda.synchronize()
        ends.append(time.monotonic_ns())
    for start, end in zip(ends, ends[1:]):
        print(f"window start={start} end={end} count=1")
elif mode == "profiler":
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        loss = plain_loop()
        torch.cuda.synchronize()
    kernels = sum(e.device_type == torch.autograd.DeviceType.CUDA for e in profile.events())
    print(f"profiled events={kernels}")
else:
    loss = plain_loop()
torch.cuda.synchronize()
print(f"steps={steps} loss={loss.item():.4f}")
