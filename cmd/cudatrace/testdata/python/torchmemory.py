"""Asks the simulated allocator of PyTorch for memory: python3 torchmemory.py TRUTH. Writes to the file TRUTH each block
that was handed out or taken back, in order: address, bytes, what was allocated and reserved then, device, line (0 of
what is taken back), whether there was no memory; and the bytes that each line held when there was none."""
import collections
import ctypes
import json
import os
import sys
import threading

cuda = ctypes.CDLL("libcudart.so.13")
c10 = ctypes.CDLL("libc10.so")
for name in ("malloc", "allocated", "reserved"):
    getattr(c10, "sim_c10_" + name).restype = ctypes.c_uint64
truth, held = [], {}
lock = threading.Lock()


def state(device):
    return c10.sim_c10_allocated(device), c10.sim_c10_reserved(device), device


def allocate(size, device=0):
    line = sys._getframe(1).f_lineno
    with lock:
        address = c10.sim_c10_malloc(ctypes.c_uint64(size), device)
        size = (size + 511) // 512 * 512
        truth.append([address, size, *state(device), line, int(address == 0)])
        if address:
            held[address] = (size, line)
    return address


def free(address, device=0):
    with lock:
        c10.sim_c10_free(ctypes.c_uint64(address), device)
        size, _ = held.pop(address)
        truth.append([address, -size, *state(device), 0, 0])


def step(kept):
    activations = [allocate(3 << 20) for _ in range(4)]
    kept.append(allocate(5_000_000))
    for a in activations:
        free(a)


def other():
    for _ in range(20):
        a = allocate(100_000, 1)
        b = allocate(2000)
        free(a, 1)
        free(b)


memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
c10.sim_c10_host(ctypes.c_uint64(4096), ctypes.c_int64(4096))
weights = [allocate(20 << 20) for _ in range(3)]
kept = []
threads = [threading.Thread(target=other) for _ in range(2)]
for t in threads:
    t.start()
for _ in range(5):
    step(kept)
for t in threads:
    t.join()
while not truth[-1][-1]:
    kept.append(allocate(10 << 20))
lines = collections.Counter()
for size, line in held.values():
    lines[line] += size
cuda.cudaDeviceSynchronize()
with open(sys.argv[1], "w") as f:
    json.dump({"events": truth, "held": lines.most_common(), "pid": os.getpid()}, f)
