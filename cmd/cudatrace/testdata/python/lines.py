"""Launches work from known lines: python3 lines.py SCENARIO[,SCENARIO...] TRUTH. Writes to the file TRUTH, for each
launch, the thread and the Python frames as the interpreter itself sees them: [file, function, first line, line], the
innermost first."""
import asyncio
import ctypes
import json
import os
import sys
import threading

cuda = ctypes.CDLL("libcudart.so.13")  # releases the GIL during a call
memory = ctypes.c_void_p()
truth = []


def frames(f, line):
    chain = []
    while f:
        code = f.f_code
        chain.append([code.co_filename, getattr(code, "co_qualname", code.co_name), code.co_firstlineno, line or f.f_lineno])
        line, f = 0, f.f_back
    return chain


def launch():
    truth.append([threading.get_native_id(), frames(sys._getframe(), sys._getframe().f_lineno + 1)])
    cuda.cudaMemset(memory, 0, 64)


def recurse(n):
    if n:
        recurse(n - 1)
    else:
        launch()
        launch()


def numbers():
    for i in range(3):
        launch()
        yield i
    yield from (launch() for _ in range(2))


class Layer:
    def __init__(self):
        launch()

    def __call__(self):
        return self.forward()

    def forward(self):
        launch()

    def __del__(self):
        launch()

    @property
    def value(self):
        return launch()

    def __enter__(self):
        launch()

    def __exit__(self, *_):
        launch()


async def wait(n):
    launch()
    await asyncio.sleep(0)
    launch()
    if n:
        await wait(n - 1)


async def all_at_once():
    await asyncio.gather(*(wait(i) for i in range(4)))
    async for _ in ticks():
        launch()


async def ticks():
    for i in range(3):
        launch()
        yield i


def many_forms():
    for n in (0, 1, 5, 30, 60, 200):
        recurse(n)
    for _ in numbers():
        launch()
    [launch() for _ in range(3)]
    (lambda: launch())()
    layer = Layer()
    layer()
    layer.value
    with layer:
        launch()
    del layer
    list(map(lambda x: launch(), [1, 2]))
    sorted([3, 1], key=lambda x: (launch(), x)[1])
    asyncio.run(all_at_once())
    exec(compile("launch()\n\nlaunch()", "<text>", "exec"), globals())
    exec(compile("def f():\n launch()\nf()", "Zürich/é.py", "exec"), globals())
    exec(compile("def \U0001d4bb\u4e2d():\n launch()\n\u4e2d = \U0001d4bb\u4e2d\n\u4e2d()", "\u4e2d.py", "exec"), globals())
    try:
        launch()
        raise ValueError
    except ValueError:
        launch()
    finally:
        launch()
    launch(
    )


def forms():
    many_forms()


def threads():
    started = [threading.Thread(target=many_forms) for _ in range(4)]
    for t in started:
        t.start()
    for t in started:
        t.join()


def stacks():
    text = "def f():\n" + " launch()\n" * 2000 + "f()\n"
    exec(compile(text, "<stacks>", "exec"), globals())


def forks():
    launch()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            recurse(20)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        launch()
    import subprocess
    subprocess.check_call([sys.executable, "-c", "pass"])
    launch()


def wander():
    """Stacks that grow, shrink and change anywhere, in an order by chance: functions, calls from C, generators, code that dies."""
    import random
    random.seed(4711)

    def plain(n):
        if random.random() < 0.3:
            launch()
        go(n - 1)
        if random.random() < 0.3:
            launch()
        go(n - 1 if random.random() < 0.2 else 0)

    def from_c(n):
        list(map(go, (n - 1,)))

    def many_locals(n):
        a = b = c = d = e = f = g = h = i = j = k = l = n
        go(n - 1)
        return a, b, c, d, e, f, g, h, i, j, k, l

    def generator(n):
        def values():
            launch()
            yield go(n - 1)
            yield launch()
        for _ in values():
            if random.random() < 0.5:
                launch()

    def from_text(n):
        names = {"go": go, "n": n - 1}
        exec(compile("\n" * random.randrange(5) + "def f%d():\n go(n)\nf%d()" % (n % 3, n % 3), "<%d>" % (n % 2), "exec"), names)

    def deep(n):
        if random.random() < 0.02:
            recurse(random.choice((90, 120, 150)))
        go(n - 1)

    kinds = [plain, plain, from_c, many_locals, generator, from_text, deep]

    def go(n):
        if n <= 0:
            return launch()
        random.choice(kinds)(n)
    end = len(truth) + int(os.environ.get("WANDER", 600))
    while len(truth) < end:
        go(random.randrange(40))


def hot():
    """A loop that a just-in-time compiler takes: that of 3.14 and later, with PYTHON_JIT=1."""
    for i in range(6000):
        if i % 2:
            launch()
        else:
            launch()


def discards():
    """Code objects that die, and whose memory is used again, with names that take turns."""
    for i in range(int(os.environ.get("DISCARDS", 3500))):
        exec(compile("def f%d():\n%s launch()\nf%d()" % (i, "\n" * (i % 7), i), "<%d>" % (i % 3), "exec"), globals())
        del globals()["f%d" % i]


def successors():
    """Functions of one name and file that take each other's place: their line tables, short and long, differ in one byte."""
    for statements in (1, 3, 12, 100):
        for i in range(60):
            names = {"launch": launch}
            text = "def f():\n" + " x = 1\n" * statements + "\n" * i + " launch()\n launch()\n"
            exec(compile(text, "generated.py", "exec"), names)
            names["f"]()


def evaluators():
    """Frames that another evaluator than the interpreter's own runs (PEP 523), which calls from C and calls back."""
    helper = ctypes.PyDLL(sys.argv[3])
    for kind in (1, 2, 0, 2):
        helper.evaluate_with(kind)
        many_forms()
    helper.evaluate_with(0)


def main():
    cuda.cudaMalloc(ctypes.byref(memory), 4096)
    for scenario in sys.argv[1].split(","):
        globals()[scenario]()
    cuda.cudaDeviceSynchronize()
    with open(sys.argv[2], "w") as f:
        json.dump(truth, f)


main()
