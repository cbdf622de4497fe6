"""A program with PyTorch that launches work of the simulated CUDA stack from within operators. Needs no GPU.

usage: program.py MODE [TRUTH]

Each launch is inside a range "launch N", which PyTorch's own profiler sees, too. With TRUTH, the profiler runs around the
last steps, and the operators around each launch of theirs are written to that file. What is printed is the same in each run.
"""
import ctypes
import gc
import itertools
import json
import os
import sys
import threading
import time
import warnings

warnings.filterwarnings("ignore")
import torch
from torch import nn
from torch.autograd.profiler import profile, record_function

STEPS, PROFILED = 60, 3

cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
numbers = itertools.count(1)
library = torch.library.Library("sim", "DEF")
library.define("poke(Tensor x) -> Tensor")


def launch():
    with record_function("launch %d" % next(numbers)):
        cuda.cudaMemset(memory, 0, 64)


def poke(x):
    launch()
    return x + 1


library.impl("poke", poke, "CompositeExplicitAutograd")


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        launch()
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        launch()
        return gradient * 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = Scale.apply(nn.functional.gelu(self.up(self.norm(x))))
        y = y + torch.ops.sim.poke(y.detach())
        if y.requires_grad:
            y.register_hook(lambda gradient: launch())
        return x + self.down(y)


def observed():
    """Waits until operators are observed: a fresh thread's operators are, too."""
    cuda.cudaMemset(memory, 0, 64)
    if os.environ.get("CUDATRACE_OBSERVED"):
        time.sleep(float(os.environ["CUDATRACE_OBSERVED"]))


def trainer(seed=1):
    torch.manual_seed(seed)
    model = nn.Sequential(Block(16), Block(16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 16)

    def step():
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def write_truth(p, path):
    """What the profiler saw: by number of the launch, the operators around it, and the forward operator."""
    results, threads, made = p.kineto_results.events(), {}, {}
    ns = hasattr(results[0], "start_ns") if results else True
    for e in results:
        start, dur = (e.start_ns(), e.duration_ns()) if ns else (e.start_us(), e.duration_us())
        threads.setdefault(e.start_thread_id(), []).append((start, -dur, e))
    for of in threads.values():
        of.sort(key=lambda x: x[:2])
        for _, _, e in of:
            if e.sequence_nr() >= 0 and e.fwd_thread_id() == 0:
                made[e.start_thread_id(), e.sequence_nr()] = e.name()  # the one that began last made the node
    launches = {}
    for of in threads.values():
        for at, (start, dur, e) in enumerate(of):
            if not e.name().startswith("launch "):
                continue
            around = [x[2] for x in reversed(of[:at]) if x[0] - x[1] >= start - dur]
            nodes = [x for x in around if x.fwd_thread_id()]
            outer = around[-1].name() if around else ""
            if not nodes and outer.startswith("autograd::engine"):  # behind its node, or before it
                first = next(i for i, x in enumerate(of) if x[2] is around[-1])
                nodes = [x[2] for x in reversed(of[first:at]) if x[2].fwd_thread_id()]
            forward = made.get((nodes[0].fwd_thread_id(), nodes[0].sequence_nr())) if nodes else None
            launches[e.name()] = [[e.name()] + [x.name() for x in around], forward]
    spans = [(e.name(), start, -dur) for of in threads.values() for start, dur, e in of]
    with open(path, "w") as f:
        json.dump({"launches": launches, "spans": spans, "ns": ns}, f)


def train(truth):
    step = trainer()
    for _ in range(STEPS):
        loss = step()
    print("loss", loss)
    if truth:
        with profile() as p:
            for _ in range(PROFILED):
                step()
        write_truth(p, truth)


def profiler(truth):
    """The program's own profiler is switched on and off again and again."""
    step = trainer()
    names = set()
    for _ in range(20):
        with profile() as p:
            step()
        names |= {e.key for e in p.key_averages() if not e.key.startswith("launch")}
        step()
    print(len(names), sorted(names)[:5], step())


def script(truth):
    @torch.jit.script
    def f(x, n: int):
        for _ in range(n):
            x = torch.ops.sim.poke(torch.tanh(x))
        return x.sum()

    x = torch.ones(8, requires_grad=True)
    for _ in range(STEPS):
        f(x.detach(), 3)
        y = torch.jit.trace(nn.Linear(8, 8), torch.ones(8))(x).sum()
        y.backward()
    print(f(x.detach(), 3).item())
    if truth:
        with profile() as p:
            f(x.detach(), 2)
        write_truth(p, truth)


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((4,), float(i)).exp().log()


def workers(truth):
    step = trainer()
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(Items(), batch_size=8, num_workers=2):
            step()
    print(batch.sum().item(), step())


def fork(truth):
    step = trainer()
    for i in range(10):
        step()
        pid = os.fork()
        if pid == 0:
            torch.ones(4).exp().sum()
            os._exit(7)
        print("child", os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
    print(step())


def threads(truth):
    torch.set_num_threads(1)
    losses = [0.0] * 4

    def run(i):
        step = trainer(1)
        for _ in range(20):
            losses[i] = step()

    for _ in range(3):
        all_ = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for t in all_:
            t.start()
        for t in all_:
            t.join()
    print(all(isinstance(x, float) for x in losses))


def leave(how):
    step = trainer()
    for _ in range(20):
        step()
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: (launch(), print("leaving", flush=True), how()))
    (y * y).sum().backward()


def delete(truth):
    """What Python has of PyTorch goes."""
    global torch, nn
    trainer()()
    for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
        del sys.modules[name]
    del torch, nn
    gc.collect()
    cuda.cudaMemset(memory, 0, 64)
    print("gone")


def cost(truth):
    """Operators a second, inside the program's own time: no launch."""
    x = torch.ones(4)
    torch.set_num_threads(1)
    cuda.cudaMemset(memory, 0, 64)
    best = 1e9
    for _ in range(20):
        began = time.process_time()
        for _ in range(20000):
            torch.neg(x)
        best = min(best, time.process_time() - began)
    print("%.0f ns an operator" % (best / 20000 * 1e9))


MODES = {
    "train": train, "profiler": profiler, "script": script, "workers": workers, "fork": fork, "threads": threads,
    "exit": lambda _: leave(lambda: sys.exit(3)), "_exit": lambda _: leave(lambda: os._exit(4)),
    "abort": lambda _: leave(os.abort), "delete": delete, "cost": cost,
}

if __name__ == "__main__":
    observed()
    MODES[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
