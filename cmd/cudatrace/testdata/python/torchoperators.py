"""Asks the simulated allocator of PyTorch for memory, and gives it back, in operators and between them, on several threads:
python3 torchoperators.py STEPS TRUTH. Writes to the file TRUTH each block in order: address, bytes, and the operators
that it was asked for in, the innermost first. It waits until operators are observed."""
import ctypes
import json
import sys
import threading
import time

cuda = ctypes.CDLL("libcudart.so.13")
c10 = ctypes.CDLL("libc10.so")
torch = ctypes.CDLL("libtorch_cpu.so")
c10.sim_c10_malloc.restype = ctypes.c_uint64
body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
truth, lock = [], threading.Lock()


def churn(names):
    """Asks for a block and gives it back."""
    for _ in range(2):
        with lock:
            address = c10.sim_c10_malloc(ctypes.c_uint64(512), 0)
            truth.append([address, 512, names])
            c10.sim_c10_free(ctypes.c_uint64(address), 0)
            truth.append([address, -512, names])


def operate(name, outer, inner, node=False):
    """Asks before, in and behind an operator within the operator name."""
    names = [name, *outer]

    def run(_):
        churn(names)
        inner(names)
        churn(names)
    torch.sim_torch_operate(name.encode(), node, body(run), None)


def step(outer=()):
    operate("aten::linear", outer, lambda names: operate("aten::addmm", names, churn))
    churn(list(outer))
    operate("aten::gelu", outer, churn)


def ranged():
    torch.sim_torch_range(b"epoch/1", body(lambda _: step(["epoch/1"])), None)


def backward():
    """autograd's thread runs aten::mm in the node, and then aten::sum in the evaluation."""
    operate("aten::linear", [], churn, True)
    places = iter([["aten::mm", "aten::linearBackward0"], ["aten::sum", "aten::linearBackward0"]])
    torch.sim_torch_backward(body(lambda _: churn(next(places))), None)


memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
deadline = time.monotonic() + 20
while torch.sim_torch_observed() == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
steps = int(sys.argv[1])
threads = [threading.Thread(target=lambda: [step() for _ in range(steps)]) for _ in range(3)]
for t in threads:
    t.start()
for _ in range(steps):
    ranged()
    backward()
for t in threads:
    t.join()
cuda.cudaDeviceSynchronize()
with open(sys.argv[2], "w") as f:
    json.dump(truth, f)
