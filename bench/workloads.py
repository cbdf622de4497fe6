"""The workloads: each is one loop of a program that speaks the protocol of loops.cu."""
import os
from dataclasses import dataclass

LOOPS, TRAIN = "loops", "train"
LONG_KERNEL_NS = 20_000_000


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    program: str
    unit: str        # the thing that is counted and timed
    count: int       # number of units in a measured loop
    sim_count: int   # number of units on the simulated stack; 0: not run there
    arg: int = 0     # the loop's own parameter
    scale: str = "us"  # the time unit in tables
    whole: int = 1   # factor of count in a whole recording, so that beginning and end weigh little

    @property
    def per(self):
        return {"us": 1e3, "ms": 1e6, "ns": 1.0}[self.scale]


WORKLOADS = [
    Workload("a", "empty kernels, synchronise every 500", LOOPS, "launch", 200_000, 150_000, scale="ns", whole=3),
    Workload("b", "copies of 1 KiB, synchronise every 500", LOOPS, "copy", 30_000, 50_000, scale="ns"),
    Workload("g", "CUDA graph of 20 empty kernels", LOOPS, "graph launch", 3_000, 2_000),
    Workload("e", "{arg} threads launch on {arg} streams", LOOPS, "launch", 96_000, 100_000, arg=8, scale="ns", whole=10),
    Workload("f", "kernels of 20 ms, memory-bound", LOOPS, "step", 12, 5, scale="ms"),
    Workload("c", "PyTorch training step, eager", TRAIN, "step", 60, 0, scale="ms"),
    Workload("d", "PyTorch training step as a CUDA graph", TRAIN, "step", 150, 0, scale="ms"),
    Workload("t", "PyTorch step of 20 ms, memory-bound", TRAIN, "step", 12, 0, scale="ms"),
    Workload("k", "PyTorch decoding, token by token", TRAIN, "token", 60, 0, scale="ms"),
]


def chosen(names, sim):
    """The workloads of those names, in their own order; all that can run when names is empty."""
    known = {w.name for w in WORKLOADS}
    if unknown := set(names) - known:
        raise ValueError(f"there is no workload {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return [w for w in WORKLOADS if (not names or w.name in names) and (w.sim_count or not sim)]


def count(workload, sim, scale, whole=False):
    """The number of units in a loop, scaled by --scale."""
    units = workload.sim_count if sim else workload.count * (workload.whole if whole else 1)
    return max(1, round(units * scale))


def thread_count(workload, sim):
    """Threads of workload e: on the simulated stack not more than the machine has processors."""
    return min(workload.arg, os.cpu_count() or 1) if sim else workload.arg


def passes(one_pass_ns):
    """The number of passes with which a memory-bound kernel takes 20 ms, from the time of one pass."""
    return max(1, round(LONG_KERNEL_NS / max(one_pass_ns, 1)))
