"""The parts of python.sh: programs that launch from Python, and what their logs say of it.

python.py lines PROGRAM TRUTH     runs a program (eager, compiled, train) while sys.settrace writes down each line, in TRUTH
python.py compare LOG TRUTH       compares the frames of each launch in a log with that
python.py one FRAMEWORK           a few launches of jax, cupy or triton
python.py share LOG               how many launches have frames, and the lines that launch most
python.py cost                    what a launch costs at each depth, frames switched on and off within the process
python.py step                    the same of a training step
"""
import bisect
import collections
import ctypes
import json
import os
import pickle
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CUDATRACE = os.environ.get("CUDATRACE", "cudatrace")


# Programs

def model(torch, layers=20, width=256):
    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.GELU()) for _ in range(layers)]
    return torch.nn.Sequential(*blocks).cuda()


def forward_only(torch, net, x):
    with torch.no_grad():
        y = net(x)
        z = torch.relu(y) + x
        return (z * 2
                ).sum()


def eager(torch, launches=10000):
    net, x = model(torch), torch.randn(64, 256, device="cuda")
    torch.cuda.synchronize()
    yield
    for _ in range(launches // 85):
        forward_only(torch, net, x)
    torch.cuda.synchronize()


def compiled(torch, launches=10000):
    net, x = model(torch, 8), torch.randn(64, 256, device="cuda")
    fast = torch.compile(net)
    for _ in range(3):
        fast(x).sum().backward()
    torch.cuda.synchronize()
    yield
    for _ in range(launches // 100):
        loss = fast(x).sum()
        loss.backward()
        loss.detach().add_(
            1)
    torch.cuda.synchronize()


class Items:
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        import torch
        return torch.full((256,), float(i))


def train(torch, launches=10000):
    net = model(torch, 10)
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
    loader = iter(torch.utils.data.DataLoader(Items(), batch_size=64, num_workers=2))
    next(loader)
    yield
    for _ in range(launches // 900):
        x = next(loader).cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(net(x), x)
        loss.backward()
        optimizer.step()
    loss.item()


PROGRAMS = {"eager": eager, "compiled": compiled, "train": train}


# Truths

def qualified(code):
    return getattr(code, "co_qualname", code.co_name)


def run_lines(program, path):
    """Writes, for each thread, the frames there are from each moment on."""
    import torch
    threads = {}

    def tracer(frame, event, arg):
        log.append((time.monotonic_ns(), event, frame.f_lineno, frame.f_code, id(frame)))
        return tracer

    log = threads.setdefault(threading.get_native_id(), [])
    steps = PROGRAMS[program](torch)
    next(steps)
    frame, outer = sys._getframe(), []
    while frame:
        outer.append((frame.f_lineno, frame.f_code))
        frame = frame.f_back
    begun = time.monotonic_ns()
    sys.settrace(tracer)
    for _ in steps:  # the line of the truth's outermost frame
        pass
    sys.settrace(None)
    ended = time.monotonic_ns()
    codes, number = [], {}

    def code(c):
        if c not in number:
            number[c] = len(codes)
            codes.append((c.co_filename, qualified(c), c.co_firstlineno))
        return number[c]

    line = sys._getframe().f_code.co_firstlineno
    outer[0] = (next(n for n, t in enumerate(open(__file__).read().split("\n"), 1) if "the truth's outermost" in t and "for _" in t), outer[0][1])
    with open(path, "wb") as f:
        pickle.dump({"begun": begun, "ended": ended, "outer": [(n, code(c)) for n, c in outer],
                     "threads": {t: [(at, e, n, code(c), f) for at, e, n, c, f in l] for t, l in threads.items()}, "codes": codes}, f)


# Logs

class Log:
    def __init__(self, path):
        self.frames, self.stacks, self.calls, self.threads = {}, {}, [], {}
        out = subprocess.Popen([CUDATRACE, "dump", "--format", "ndjson", "--kind", "api,thread,python_stack,python_frame", path], stdout=subprocess.PIPE)
        for line in out.stdout:
            r = json.loads(line)
            kind = r.get("kind") or r.get("type")
            if kind == "python_frame":
                self.frames[r["id"]] = (r["file"], r["function"], r["first_line"], r["line"])
            elif kind == "python_stack":
                self.stacks[r["id"]] = (r.get("parent", 0), r["frame"])
            elif kind == "thread":
                self.threads[r["pid"], r["tid"]] = r["name"]
            elif kind == "api":
                self.calls.append(r)
        if out.wait() != 0:
            sys.exit("no log " + path)

    def stack(self, call):
        chain, at = [], call.get("python", 0)
        while at:
            at, frame = self.stacks[at]
            chain.append(self.frames[frame])
        return chain

    def is_autograd(self, call):
        return self.threads.get((call["pid"], call["tid"]), "").startswith("pt_autograd")


def chains_of_lines(truth, events):
    """The chain of frames from each event on, innermost first."""
    stack = [(None, n, c) for n, c in reversed(truth["outer"])]
    times, chains = [], []
    for at, event, line, code, frame in events:
        if event == "call":
            stack.append((frame, line, code))
        elif event == "return":
            while len(stack) > len(truth["outer"]) and stack[-1][0] != frame:
                stack.pop()
            if len(stack) > len(truth["outer"]):
                stack.pop()
        elif stack and stack[-1][0] == frame:
            stack[-1] = (frame, line, code)
        times.append(at)
        chains.append(tuple((c, n) for _, n, c in reversed(stack)))
    return times, chains


def compare(log_path, truth_path):
    log = Log(log_path)
    with open(truth_path, "rb") as f:
        truth = pickle.load(f)
    calls = [c for c in log.calls if truth["begun"] < c["start"] < truth["ended"]]
    right = wrong = without = autograd = unsure = 0
    odd = collections.Counter()
    by_thread = {t: chains_of_lines(truth, e) for t, e in truth["threads"].items()}
    codes = truth["codes"]
    for call in calls:
        got = log.stack(call)
        if not got:
            autograd += log.is_autograd(call)
            without += not log.is_autograd(call)
            continue
        if call["tid"] not in by_thread:
            unsure += 1
            continue
        times, chains = by_thread[call["tid"]]
        i = bisect.bisect_right(times, call["start"]) - 1
        want = [(*codes[c], n) for c, n in (chains[i] if i >= 0 else ())]
        if not want:
            unsure += 1
            continue
        same = [tuple(g) for g in got] == want
        right, wrong = right + same, wrong + (not same)
        if not same:
            first = next(((g, w) for g, w in zip(got, want) if tuple(g) != w), (len(got), len(want)))
            odd[str(first)] += 1
    for what, n in odd.most_common(5):
        print("   wrong, %d times (log, truth): %s" % (n, what), file=sys.stderr)
    deepest = max((len(log.stack(c)) for c in calls), default=0)
    print("%d launches: %d right, %d wrong, %d without frames, %d of autograd without frames, %d not known; up to %d frames" % (
        len(calls), right, wrong, without, autograd, unsure, deepest))
    return 0 if wrong * 1000 <= right and right else 1


def share(log_path):
    log = Log(log_path)
    framed = [log.stack(c) for c in log.calls]
    lines = collections.Counter("%s:%d %s" % (os.path.basename(f[0][0]), f[0][3], f[0][1]) for f in framed if f)
    print("%d of %d launches have frames; most: %s" % (sum(map(bool, framed)), len(framed), ", ".join("%s (%d)" % l for l in lines.most_common(3))))
    return 0


# Other frameworks

def one(framework):
    if framework == "jax":
        import jax
        import jax.numpy as jnp

        @jax.jit
        def f(a):
            return jnp.sin(a) @ a
        a = jnp.ones((256, 256))
        for _ in range(50):
            a = f(a)
            (a + 1).block_until_ready()
    elif framework == "cupy":
        import cupy
        a = cupy.ones((256, 256))
        for _ in range(50):
            a = a @ a
            cupy.sin(a).sum()
        cupy.cuda.Device().synchronize()
    else:
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def add(x, n, block: tl.constexpr):
            at = tl.program_id(0) * block + tl.arange(0, block)
            tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
        x = torch.zeros(4096, device="cuda")
        for _ in range(50):
            add[(4,)](x, 4096, 1024)
        assert x[0].item() == 50


# Cost

class Switch:
    """Switches the walk in the injected library of this process: finds its description of the interpreter in memory, and
    spoils one offset there, so that no thread state is the right one."""
    FIELD = 36  # struct ct_python: thread_interpreter

    def __init__(self):
        # By their addresses in the process: ctypes' own are those of the same symbols.
        p = ctypes.PyDLL(None)
        want = b"".join(ctypes.addressof(ctypes.c_char.in_dll(p, n)).to_bytes(8, "little")
                        for n in ("_PyRuntime", "PyGILState_GetThisThreadState", "PyCode_Type"))
        self.at = []
        maps = [m.split() for m in open("/proc/self/maps")]
        for i, m in enumerate(maps):
            ours = len(m) > 5 and "cudatrace" in m[5]
            bss = len(m) == 5 and i > 0 and len(maps[i - 1]) > 5 and "cudatrace" in maps[i - 1][5]
            if not (ours or bss) or "w" not in m[1]:
                continue
            low, high = (int(x, 16) for x in m[0].split("-"))
            data = ctypes.string_at(low, high - low)
            j = data.find(want)
            if j >= 0:
                self.at.append(low + j + self.FIELD)
        if len(self.at) != 1:
            sys.exit("the injected library's description of the interpreter is %d times in memory" % len(self.at))
        self.field = ctypes.c_int32.from_address(self.at[0])
        self.right = self.field.value

    def set(self, on):
        self.field.value = self.right if on else 0


LOOP = r"""
#include <time.h>
typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int (*set_fn)(unsigned long long, unsigned char, unsigned long, void *);
double loop(void *launch, void *set, void *function, unsigned long long memory, int n)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < n; i++)
		if (function)
			((launch_fn)launch)(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
		else
			((set_fn)set)(memory, 0, 4, 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / n;
}
"""
PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n\0"


def compile_loop():
    folder = os.environ.get("TMPDIR", "/tmp")
    base = os.path.join(folder, "cudatrace-loop-%d" % os.getpid())
    with open(base + ".c", "w") as f:
        f.write(LOOP)
    subprocess.check_call(["gcc", "-O2", "-shared", "-fPIC", "-o", base + ".so", base + ".c"])
    library = ctypes.CDLL(base + ".so")
    os.remove(base + ".c")
    os.remove(base + ".so")
    library.loop.restype = ctypes.c_double
    library.loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
    return library.loop


def quartiles(values):
    q = statistics.quantiles(values, n=4)
    return statistics.median(values), q[0], q[2]


def cost(rounds=60, launches=400):
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0
    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    driver.cuDeviceGet(ctypes.byref(device), 0)
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
    if driver.cuModuleLoadData(ctypes.byref(module), PTX) == 0:
        driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing")
    loop = compile_loop()
    address = lambda f: ctypes.cast(f, ctypes.c_void_p)
    launch, fill = address(driver.cuLaunchKernel), address(driver.cuMemsetD8Async)

    def at(depth):
        if depth:
            return at(depth - 1)
        ns = loop(launch, fill, function, memory, launches)
        driver.cuCtxSynchronize()
        return ns
    switch = Switch() if "--switch" in sys.argv else None
    for _ in range(20):
        at(0)
    for depth in (0, 10, 30, 60):
        on, off, more = [], [], []
        for i in range(rounds):
            for turn in ((0, 1) if i % 2 else (1, 0)):
                if switch:
                    switch.set(turn)
                (on if turn else off).append(at(depth))
            more.append(on[-1] - off[-1])
        if switch:
            print("depth +%d: %+.0f ns a launch (quartiles %+.0f, %+.0f), of %.0f" % (depth, *quartiles(more), statistics.median(off)))
        else:
            print("depth +%d: %.0f ns a launch (quartiles %.0f, %.0f)" % (depth, *quartiles(on + off)))


def step(rounds=60):
    import torch
    net = model(torch, 50, 64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=False)
    x = torch.randn(32, 64, device="cuda")

    def one_step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x), x).backward()
        optimizer.step()
    switch = Switch() if "--switch" in sys.argv else None
    for _ in range(20):
        one_step()
    torch.cuda.synchronize()
    on, off, more = [], [], []
    for i in range(rounds):
        for turn in ((0, 1) if i % 2 else (1, 0)):
            if switch:
                switch.set(turn)
            begun = time.monotonic_ns()
            for _ in range(5):
                one_step()
            torch.cuda.synchronize()
            (on if turn else off).append((time.monotonic_ns() - begun) / 5e6)
        more.append(on[-1] - off[-1])
    if switch:
        print("step: %+.3f ms (quartiles %+.3f, %+.3f), of %.3f" % (*quartiles(more), statistics.median(off)))
    else:
        print("step: %.3f ms (quartiles %.3f, %.3f)" % quartiles(on + off))


if __name__ == "__main__":
    what, *args = [a for a in sys.argv[1:] if not a.startswith("--")]
    sys.exit({"lines": run_lines, "compare": compare, "share": share, "one": one, "cost": cost, "step": step}[what](*args))
