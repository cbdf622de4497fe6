"""Leaves a GPU idle for one known reason: python3 gaps.py CAUSE ROUNDS. Between two launches the launching thread spends
its time with the cause. Prints which parts of that time the kernel says that it waited for a processor, and was in the kernel."""
import ctypes
import mmap
import os
import resource
import subprocess
import sys
import threading
import time

cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
EACH = 0.05  # seconds a round
lock, locked = threading.Lock(), threading.Event()
reader, writer = os.pipe()
zeros = bytes(16 << 20)


def launch():
    cuda.cudaMemset(memory, 0, 64)
    cuda.cudaDeviceSynchronize()


def sleep():
    time.sleep(EACH)


def hold():
    while True:
        with lock:
            locked.set()
            time.sleep(EACH)
        locked.clear()
        time.sleep(0.002)


def wait_for_lock():
    locked.wait()
    with lock:
        pass


def write():
    while True:
        time.sleep(EACH)
        os.write(writer, b"x")


def read_pipe():
    os.read(reader, 1)


def busy():
    until = time.perf_counter() + EACH
    n = 0
    while n % 1000 or time.perf_counter() < until:
        n += 1


def work():  # as much processor time in each round, whatever the time
    until = time.thread_time() + EACH / 2
    n = 0
    while n % 1000 or time.thread_time() < until:
        n += 1


def fault():
    until = time.perf_counter() + EACH
    while time.perf_counter() < until:
        with mmap.mmap(-1, len(zeros)) as m:
            m[:] = zeros


CAUSES = {"sleep": (sleep, None), "lock": (wait_for_lock, hold), "pipe": (read_pipe, write), "busy": (busy, None),
          "starved": (work, None), "faults": (fault, None)}


def kernel_says():
    with open("/proc/thread-self/schedstat") as f:
        waited = int(f.read().split()[1]) / 1e9
    return time.perf_counter(), waited, resource.getrusage(resource.RUSAGE_THREAD).ru_stime


def main():
    cause, beside = CAUSES[sys.argv[1]]
    cuda.cudaMalloc(ctypes.byref(memory), 4096)
    if sys.argv[1] == "starved":
        cpu = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpu})
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    if beside:
        threading.Thread(target=beside, daemon=True).start()
    launch()
    total = waited = system = 0
    for _ in range(int(sys.argv[2])):
        before = kernel_says()
        cause()
        after = kernel_says()
        total, waited, system = total + after[0] - before[0], waited + after[1] - before[1], system + after[2] - before[2]
        launch()
    print(f"{waited / total:.4f} {system / total:.4f}")
    if sys.argv[1] == "starved":
        child.kill()
        child.wait()


main()
