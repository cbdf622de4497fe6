"""Leaves a GPU idle for one known reason: python3 gaps.py CAUSE ROUNDS. Between two launches the launching thread spends
its time with the cause: as much processor time in each round, if it needs any. Prints which part of that time the kernel says that it
waited for a processor, and which part it ran in system calls."""
import ctypes
import mmap
import os
import random
import subprocess
import sys
import time

cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
EACH = 0.05  # seconds a round
zeros = bytes(16 << 20)
chance = random.Random(1)  # lengths in no rhythm, which that of the samples might follow
zero, room = open("/dev/zero", "rb", buffering=0), memoryview(bytearray(4 << 20))
in_calls = 0.0


def launch():
    cuda.cudaMemset(memory, 0, 64)
    cuda.cudaDeviceSynchronize()


def sleep():
    time.sleep(5 * EACH)  # on a busy machine a recorder looks later


def busy():
    until = time.thread_time() + EACH
    n = 0
    while n % 1000 or time.thread_time() < until:
        n += 1


def fault():
    until = time.thread_time() + EACH
    while time.thread_time() < until:
        with mmap.mmap(-1, len(zeros)) as m:
            m[:] = zeros


def call():
    global in_calls
    now = time.thread_time()
    until = now + EACH
    while now < until:
        for _ in range(chance.randrange(20000)):
            pass
        before = time.thread_time()
        zero.readinto(room[:chance.randrange(len(room))])
        now = time.thread_time()
        in_calls += now - before


CAUSES = {"sleep": sleep, "busy": busy, "starved": busy, "faults": fault, "calls": call}


def kernel_says():
    with open("/proc/thread-self/schedstat") as f:
        waited = int(f.read().split()[1]) / 1e9
    return time.perf_counter(), waited


def main():
    cause = CAUSES[sys.argv[1]]
    cuda.cudaMalloc(ctypes.byref(memory), 4096)
    if sys.argv[1] == "starved":
        cpu = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpu})
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    launch()
    total = waited = 0
    for _ in range(int(sys.argv[2])):
        before = kernel_says()
        cause()
        after = kernel_says()
        total, waited = total + after[0] - before[0], waited + after[1] - before[1]
        launch()
    print(f"{waited / total:.4f} {in_calls / total:.4f}")
    if sys.argv[1] == "starved":
        child.kill()
        child.wait()


main()
