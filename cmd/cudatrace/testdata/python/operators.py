"""Launches work inside operators of the simulated PyTorch: python3 operators.py STEPS TRUTH [SECONDS]. Writes to the file
TRUTH, for each launch, the operators that it was made in, the innermost first, and the line that it belongs to: that of
a backward one is the forward operator's. It waits SECONDS at most until operators are observed."""
import ctypes
import json
import sys
import time


class Fill(ctypes.Structure):
    _fields_ = [("set", ctypes.c_void_p), ("memory", ctypes.c_void_p)]


cuda = ctypes.CDLL("libcudart.so.13")
torch = ctypes.CDLL("libtorch_cpu.so")
body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
fill = Fill(ctypes.cast(cuda.cudaMemset, ctypes.c_void_p).value, 0)
truth = []
nodes = []  # the operators that have made one, and their lines


def launch(names):
    line = sys._getframe().f_lineno + 2
    truth.append([names, line])
    cuda.cudaMemset(ctypes.c_void_p(fill.memory), 0, 64)


def operate(name, inner, outer, node=False):
    f = body(lambda _: inner([name, *outer]))
    line = sys._getframe().f_lineno + 1
    torch.sim_torch_operate(name.encode(), node, f, None)
    if node:
        nodes.append((name, line))


def forward(name):
    operate(name, lambda names: operate(name + "_kernel", launch, names), [], True)


def backward():
    while nodes:
        name, line = nodes.pop()
        evaluation = "autograd::engine::evaluate_function: " + name + "Backward0"
        truth.append([["aten::mm", name + "Backward0", evaluation], line])
        truth.append([["aten::sum", evaluation], line])
    torch.sim_torch_backward(torch.sim_torch_fill, ctypes.byref(fill))


def step():
    forward("aten::linear")
    forward("aten::gelu")
    backward()
    name = "Optimizer.step"
    f = body(lambda _: operate("aten::add_", launch, [name]))
    torch.sim_torch_range(name.encode(), f, None)


memory = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(memory), 64)
fill.memory = memory.value
deadline = time.monotonic() + (int(sys.argv[3]) if len(sys.argv) > 3 else 60)
while torch.sim_torch_observed() == 0 and time.monotonic() < deadline:
    time.sleep(0.01)
observed = torch.sim_torch_observed()
for _ in range(int(sys.argv[1])):
    step()
for outer in range(40):  # many stacks, each of which has a number of its own
    operate(f"outer{outer}", lambda names: [operate(f"inner{inner}", launch, names) for inner in range(40)], [])
cuda.cudaDeviceSynchronize()
with open(sys.argv[2], "w") as f:
    json.dump({"observed": observed, "launches": truth}, f)
