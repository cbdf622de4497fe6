"""The PyTorch loops that are measured. The protocol is that of loops.cu:

    init NAME...              starts CUDA     init first_ns=.. t=..
    profile torch             starts torch.profiler, which goes on up to the end
    run NAME COUNT ARG        one loop        part name=.. unit=1 ns=..,.. hwm_kb=..
    quit                      ends            bye t=..

c: training steps of 50 small linear layers; d: the step of c as a CUDA graph; t: a step of ARG long kernels
that only move memory; k: a token of a transformer with a KV cache, batch 1, greedy. ns has the wall time of
each step, with a wait for the GPU at its end.

Usage: train.py CONTROL REPORT    (paths, of pipes for instance; - is standard input and output)
"""
import gc
import os
import sys
import time

import torch

LAYERS = 50
WARM_STEPS = 10
DEVICE = "cuda"
MEMORY_ELEMENTS = 1 << 30  # float32: 4 GiB
BLOCKS, HIDDEN, HEADS, INNER, WORDS, CONTEXT = 14, 1024, 16, 2816, 32_000, 512  # of the transformer


class Training:
    """One model with its optimiser; all steps are equal."""

    def __init__(self, set_to_none):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(LAYERS))).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, foreach=False)
        self.x = torch.randn(32, 64).to(DEVICE)
        self.y = torch.randn(32, 64).to(DEVICE)
        self.set_to_none = set_to_none

    def step(self):
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss = torch.nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()


def eager():
    training = Training(set_to_none=True)
    return lambda arg: training.step()


def captured():
    training = Training(set_to_none=False)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            training.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        training.step()

    def replay(arg, keep=training):  # the graph uses the training's memory
        graph.replay()

    return replay


def memory_bound():
    values = torch.ones(MEMORY_ELEMENTS, device=DEVICE)

    def step(kernels):
        for _ in range(kernels):
            values.mul_(1.0)
        torch.cuda.synchronize()

    return step


class Norm(torch.nn.Module):
    """Root-mean-square normalisation, in float32."""

    def __init__(self, **kind):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(HIDDEN, **kind))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Attention(torch.nn.Module):
    """Attention of one token to those before it, whose keys and values are in a cache."""

    def __init__(self, **kind):
        super().__init__()
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN, bias=False, **kind)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN, bias=False, **kind)
        self.keys = torch.zeros(1, HEADS, CONTEXT, HIDDEN // HEADS, **kind)
        self.values = torch.zeros_like(self.keys)

    def forward(self, x, position, cos, sin, seen):
        q, k, v = self.qkv(x).view(1, 1, 3 * HEADS, HIDDEN // HEADS).transpose(1, 2).chunk(3, dim=1)
        self.keys[:, :, position] = turned(k, cos, sin)[:, :, 0]
        self.values[:, :, position] = v[:, :, 0]
        y = torch.nn.functional.scaled_dot_product_attention(turned(q, cos, sin), self.keys, self.values, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(1, 1, HIDDEN))


def turned(x, cos, sin):
    """The rotary embedding of x at the position of cos and sin."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Block(torch.nn.Module):
    def __init__(self, **kind):
        super().__init__()
        self.before, self.attention, self.between = Norm(**kind), Attention(**kind), Norm(**kind)
        self.gate = torch.nn.Linear(HIDDEN, INNER, bias=False, **kind)
        self.up = torch.nn.Linear(HIDDEN, INNER, bias=False, **kind)
        self.down = torch.nn.Linear(INNER, HIDDEN, bias=False, **kind)

    def forward(self, x, *place):
        x = x + self.attention(self.before(x), *place)
        y = self.between(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


class Transformer(torch.nn.Module):
    def __init__(self, **kind):
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, HIDDEN, **kind)
        self.blocks = torch.nn.ModuleList(Block(**kind) for _ in range(BLOCKS))
        self.norm = Norm(**kind)
        self.head = torch.nn.Linear(HIDDEN, WORDS, bias=False, **kind)
        size = HIDDEN // HEADS
        angles = torch.outer(torch.arange(CONTEXT).float(), torch.pow(10_000.0, -torch.arange(0, size, 2).float() / size))
        angles = torch.cat((angles, angles), dim=-1)
        self.cos, self.sin = angles.cos().to(**kind), angles.sin().to(**kind)
        # All tokens attend to the whole cache through a mask: the steps of a loop are alike.
        self.seen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril().view(CONTEXT, 1, 1, 1, CONTEXT).to(kind["device"])

    def forward(self, token, position):
        x = self.embedding(token)
        place = position, self.cos[position], self.sin[position], self.seen[position]
        for block in self.blocks:
            x = block(x, *place)
        return self.head(self.norm(x))


class Decoding:
    """Greedy decoding, a token a step. A full cache is filled anew from its start."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = Transformer(device=DEVICE, dtype=torch.bfloat16).eval()
        self.token = torch.zeros(1, 1, dtype=torch.long, device=DEVICE)
        self.position = 0

    def step(self):
        with torch.no_grad():
            logits = self.model(self.token, self.position)
            self.token = logits.argmax(dim=-1)
        self.position = (self.position + 1) % CONTEXT
        return self.token.item()  # an inference loop looks at each token: it may be the last


def decoding():
    decoder = Decoding()
    return lambda arg: decoder.step()


PREPARE = {"c": eager, "d": captured, "t": memory_bound, "k": decoding}


def status_kb(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


class Server:
    def __init__(self, control, report):
        self.report = report
        self.control = control
        self.steps = {}
        self.profiler = None

    def say(self, event, **values):
        print(event, *(f"{k}={v}" for k, v in values.items()), file=self.report, flush=True)

    def init(self, names):
        begin = time.perf_counter_ns()
        torch.zeros(1, device=DEVICE)
        first = time.perf_counter_ns() - begin
        for name in names:
            self.steps[name] = PREPARE[name]()
            for _ in range(WARM_STEPS if name != "t" else 1):
                self.steps[name](1)
        torch.cuda.synchronize()
        self.say("init", first_ns=first, t=time.monotonic_ns())

    def profile(self, words):
        """PyTorch's profiler, of GPU activities alone."""
        if words[0] != "torch":
            raise ValueError(f"there is no profiler {words[0]}")
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self.profiler.start()

    def run(self, name, count, arg):
        step = self.steps[name]
        step(arg)  # warms up
        torch.cuda.synchronize()
        gc.collect(0)
        times = []
        for _ in range(count):
            began = time.perf_counter_ns()
            step(arg)
            torch.cuda.synchronize()
            times.append(time.perf_counter_ns() - began)
        self.say("part", name=name, unit=1, hwm_kb=status_kb("VmHWM"), ns=",".join(map(str, times)))

    def serve(self):
        self.say("ready", pid=os.getpid(), t=time.monotonic_ns(), torch=torch.__version__)
        for line in self.control:
            words = line.split()
            if not words or words[0] == "quit":
                break
            if words[0] == "init":
                self.init(words[1:])
            elif words[0] == "profile":
                self.profile(words[1:])
            elif words[0] == "run":
                self.run(words[1], int(words[2]), int(words[3]) if len(words) > 3 else 0)
            else:
                raise ValueError(f"there is no command {words[0]}")
        if self.profiler:
            self.profiler.stop()
        self.say("bye", t=time.monotonic_ns())


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: train.py CONTROL REPORT   (- is standard input and output)")
    report = sys.stdout if sys.argv[2] == "-" else open(sys.argv[2], "w")
    control = sys.stdin if sys.argv[1] == "-" else open(sys.argv[1])
    server = Server(control, report)
    try:
        server.serve()
    except Exception as error:  # whatever it is, the caller is to hear of it
        server.say("failed " + " ".join(f"{type(error).__name__}: {error}".split()))
        raise


if __name__ == "__main__":
    main()
