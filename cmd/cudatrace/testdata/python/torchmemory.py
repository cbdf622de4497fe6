"""Asks the simulated allocator of PyTorch for memory: python3 torchmemory.py TRUTH. Writes to the file TRUTH each block
that was handed out or taken back, in order: address, bytes, what was allocated and reserved then, device, line (0 of
what is taken back), whether there was no memory; and the bytes that each line held of device 0 at the peak, and at the end, when
there was none."""
import collections
import ctypes
import json
import os
import sys
import threading
import time

cuda = ctypes.CDLL("libcudart.so.13")
c10 = ctypes.CDLL("libc10.so")
for name in ("malloc", "allocated", "reserved"):
    getattr(c10, "sim_c10_" + name).restype = ctypes.c_uint64
truth, held, peak = [], {}, {"bytes": 0}
lock = threading.Lock()


def state(device):
    return c10.sim_c10_allocated(device), c10.sim_c10_reserved(device), device


def note(device, event):
    """Notes an event, and what the lines hold if that is the most so far."""
    truth.append(event)
    if device == 0 and event[2] > peak["bytes"]:
        peak.update(bytes=event[2], lines=holders(device))


def holders(device):
    lines = collections.Counter()
    for size, line, of in held.values():
        if of == device:
            lines[line] += size
    return lines.most_common()


# A function of a package: it is not the program's own line that asks for memory.
exec(compile("""
def allocate(size, device=0):
    line = sys._getframe(1).f_lineno
    with lock:
        address = c10.sim_c10_malloc(ctypes.c_uint64(size), device)
        size = (size + 511) // 512 * 512
        if address:
            held[address] = (size, line, device)
        note(device, [address, size, *state(device), line, int(address == 0)])
    return address
""", "/opt/site-packages/torch/memory.py", "exec"))


def free(address, device=0):
    with lock:
        c10.sim_c10_free(ctypes.c_uint64(address), device)
        size = held.pop(address)[0]
        note(device, [address, -size, *state(device), 0, 0])


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
for k in kept:
    free(k)
while not truth[-1][-1]:
    kept.append(allocate(10 << 20))
cuda.cudaDeviceSynchronize()
with open(sys.argv[1], "w") as f:
    json.dump({"events": truth, "peak": peak["lines"], "held": holders(0), "pid": os.getpid()}, f)
time.sleep(1)  # the recorder reads the names of lines while the process lives
