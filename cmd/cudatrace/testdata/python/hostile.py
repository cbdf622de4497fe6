"""Does what is hard on a library that reads Python's frames: python3 hostile.py SCENARIO[,SCENARIO...] [HELPER]. HELPER
is hostile.c, built.
What it prints and how it ends is the same in each run."""
import asyncio
import ctypes
import os
import signal
import sys
import threading
import time

cuda = ctypes.CDLL("libcudart.so.13")  # releases the GIL during a call
memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 4096)
COUNT = int(os.environ.get("HOSTILE_COUNT", "1000"))


def launch():
    cuda.cudaMemset(memory, 0, 64)


def recurse(n, f=launch):
    return recurse(n - 1, f) if n else f()


def forks():
    recurse(10)
    for i in range(4):
        child = os.fork()
        if child == 0:
            recurse(20)
            if i == 1:
                threading.Thread(target=recurse, args=(30,)).start()
            if i == 2:
                os._exit(7)
            if i == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit(5)
        print("child ended with", os.waitpid(child, 0)[1])
        recurse(i)


def daemons():
    """Ends while threads launch: Python takes their frames away."""
    started = threading.Barrier(5)

    def run(depth):
        if depth:
            return run(depth - 1)
        for i in range(1000000):
            if i == 20:
                started.wait()
            launch()
    for n in range(4):
        threading.Thread(target=run, args=(n * 20,), daemon=True).start()
    started.wait()
    print("ends")
    sys.exit(3)


def thread_ends():
    """Threads that end, and others at the same addresses."""
    for i in range(60):
        t = threading.Thread(target=recurse, args=(i,))
        t.start()
        t.join()
    print("joined")


def early_exit():
    threading.Thread(target=lambda: [launch() for _ in range(100000)], daemon=True).start()
    recurse(10)
    print("leaves", flush=True)
    os._exit(9)


def killed():
    threading.Thread(target=lambda: [launch() for _ in range(100000)], daemon=True).start()
    recurse(10)
    print("dies", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def aborts():
    recurse(10)
    print("aborts", flush=True)
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def faults():
    """A fault of the program's own, with faulthandler in SIGSEGV's place."""
    import faulthandler
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(open(os.devnull, "w"))
    recurse(10)
    print("faults", flush=True)
    ctypes.string_at(8)


def generators():
    def numbers(n):
        launch()
        yield n
        if n:
            yield from numbers(n - 1)
        launch()
    kept = [numbers(20) for _ in range(50)]
    for _ in range(20):
        for g in kept:
            next(g)
    for g in kept[::2]:
        g.close()
    del kept
    launch()
    print(sum(numbers(30)))


def coroutines():
    async def wait(n):
        launch()
        await asyncio.sleep(0)
        launch()
        if n:
            await wait(n - 1)
        launch()

    async def all_at_once():
        await asyncio.gather(*(wait(i % 20) for i in range(40)))
        try:
            await asyncio.wait_for(asyncio.sleep(10), 0.001)
        except asyncio.TimeoutError:
            launch()
    asyncio.run(all_at_once())
    print("done")


def discards():
    """Code objects that die, and whose memory is used again."""
    for i in range(COUNT):
        names = {"launch": launch}
        exec(compile("def f%d():\n%s launch()\nf%d()" % (i, "\n" * (i % 7), i), "<%d>" % (i % 3), "exec"), names)
    print(i)


def recursion():
    limit = sys.getrecursionlimit()
    recurse(200)
    sys.setrecursionlimit(5000)
    recurse(3000)
    sys.setrecursionlimit(limit)

    def forever():
        launch()
        forever()
    try:
        forever()
    except RecursionError:
        launch()
        print("too deep")
    recurse(60, lambda: sorted(range(20), key=lambda n: (launch(), -n)[1]))


def interpreters():
    """A second interpreter, where this Python lets it launch."""
    try:
        import _interpreters as sub
    except ImportError:
        import _xxsubinterpreters as sub
    recurse(5)
    try:
        one = sub.create("legacy") if sys.version_info >= (3, 13) else sub.create(isolated=False) if sys.version_info >= (3, 9) else sub.create()
        said = sub.run_string(one, "import ctypes\nc = ctypes.CDLL('libcudart.so.13')\nfor _ in range(20): c.cudaDeviceSynchronize()")
        print("ran", said)
        recurse(5)
        sub.destroy(one)
    except Exception as e:  # the same with and without the recorder
        print(type(e).__name__)
    recurse(5)


def signals():
    """Handlers in Python that launch, at any time."""
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: (launch(), seen.append(1)))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        recurse(20)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(len(seen) > 0)


def traced():
    """A debugger's functions run at each line, and launch."""
    depth = [0]

    def tracer(frame, event, arg):
        if depth[0] == 0:
            depth[0] = 1
            launch()
            depth[0] = 0
        return tracer
    sys.settrace(tracer)
    recurse(20)
    sys.settrace(None)
    try:
        recurse(10, lambda: 1 / 0)
    except ZeroDivisionError as e:
        at = e.__traceback__
        while at:
            launch()
            at = at.tb_next
    print("done")


def destructors():
    class Last:
        def __del__(self):
            launch()
    kept = [Last() for _ in range(20)]
    kept.append(kept)
    import gc
    del kept
    gc.collect()
    globals()["at_the_end"] = Last()
    import atexit
    atexit.register(recurse, 20)
    print("done")


def stacks():
    """Other stacks than the thread's own, which are freed and used again."""
    helper = ctypes.PyDLL(sys.argv[2])
    callback = ctypes.PYFUNCTYPE(None, ctypes.c_int)

    @callback
    def on_another(n):
        recurse(n % 40)
        if n % 10 == 0:
            recurse(5, lambda: helper.on_stack(inner, n // 10))

    @callback
    def inner(n):
        recurse(n)
        list(map(lambda _: launch(), (1, 2)))
    for n in range(100):
        recurse(n % 7, lambda: helper.on_stack(on_another, n))
    print("done")


def greenlets():
    try:
        import greenlet
    except ImportError:
        recurse(10)
        return print("none here")
    order = []

    def run(n, other=None):
        for i in range(20):
            recurse(n)
            list(map(lambda _: recurse(2, lambda: greenlet.getcurrent().parent.switch(i)), (0,)))
            order.append(n)
    all_of_them = [greenlet.greenlet(run) for _ in range(20)]
    for _ in range(15):
        for n, g in enumerate(all_of_them):
            recurse(n, lambda: g.switch(n) if not g else g.switch())
    del all_of_them[::2]
    recurse(3)

    def in_thread():
        gs = [greenlet.greenlet(run) for _ in range(5)]
        for n, g in enumerate(gs):
            g.switch(n)
            recurse(4)
    t = threading.Thread(target=in_thread)
    t.start()
    t.join()
    print(len(order))


def main():
    launch()
    for scenario in sys.argv[1].split(","):
        globals()[scenario]()
        launch()


main()
