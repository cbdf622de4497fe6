"""What is measured, and under what: a workload or a variant is a row here.

A variant's command is words with placeholders: {program} (the program and its arguments), {cudatrace}, {nsys}, {floor} (the library
built from kernels.c), {cupti} (libcupti), {out} (path of this run's files without suffix), {pid}. NAME=VALUE words in front are
environment variables. A command with {pid} in place of {program} attaches to the program; `before` starts that then.
"""
import os
import shlex
from dataclasses import dataclass

LOOPS, TRAIN = "loops", "train"
PLAIN, FLOOR = "plain", "floor"  # what the others are compared with
LONG_KERNEL_NS = 20_000_000


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    program: str
    unit: str       # the thing that is counted and timed
    count: int      # of a turn: about 80 ms
    sim_count: int  # the same on the simulated stack; 0: not run there
    scale: str      # the time unit in tables
    arg: int = 0    # the loop's own parameter

    @property
    def per(self):
        return {"ns": 1.0, "ms": 1e6}[self.scale]


WORKLOADS = [
    Workload("a", "empty kernels, synchronise every 500", LOOPS, "launch", 20_000, 40_000, "ns"),
    Workload("b", "copies of 1 KiB, synchronise every 500", LOOPS, "copy", 10_000, 20_000, "ns"),
    Workload("g", "CUDA graph of 20 empty kernels", LOOPS, "graph launch", 2_000, 1_000, "ns"),
    Workload("e", "{arg} threads launch on {arg} streams", LOOPS, "launch", 40_000, 40_000, "ns", arg=8),
    Workload("f", "kernels of 20 ms, memory-bound", LOOPS, "step", 4, 4, "ms"),
    Workload("c", "PyTorch training step, eager", TRAIN, "step", 8, 0, "ms"),
    Workload("d", "PyTorch training step as a CUDA graph", TRAIN, "step", 40, 0, "ms"),
    Workload("t", "PyTorch step of 20 ms, memory-bound", TRAIN, "step", 4, 0, "ms"),
    Workload("k", "PyTorch decoding, token by token", TRAIN, "token", 6, 0, "ms"),
]


@dataclass(frozen=True)
class Variant:
    name: str
    title: str
    command: str
    before: str = "{program}"  # of a command that attaches
    workloads: str = ""        # only these; "" is all
    setup: str = ""            # a line for the program, after its init

    @property
    def attaches(self):
        return "{pid}" in self.command

    @property
    def logs(self):
        return "{cudatrace}" in self.command

    @property
    def may_fail(self):
        """nsys's exit code says nothing of the loops."""
        return "{nsys}" in self.command

    def runs(self, workload):
        return not self.workloads or workload in self.workloads


RECORD = "{cudatrace} record -q --no-convert -o {out} "
NSYS = "{nsys} profile --force-overwrite=true -o {out} "
# By callback ID the driver's cuLaunchKernel (two), cuLaunchKernelEx, cuGraphLaunch, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync,
# cuMemcpyAsync, cuMemsetD8Async, cuMemsetD32Async; records of copies and memsets; cudaProfilerStart and cuProfilerStart.
RECORDS = "k1,k2,r171,d308,d307,d442,d652,d514,d277,d279,d306,d216,d220"
CUPTI = "CUDA_INJECTION64_PATH={floor} BENCH_CUPTI={cupti} BENCH_BYTES={out}.bytes "

VARIANTS = [
    Variant(PLAIN, "not traced", "{program}"),
    Variant("again", "not traced, once more", "{program}"),
    Variant(FLOOR, "floor: the records of CUPTI that cudatrace takes, thrown away", CUPTI + "BENCH_RECORDS=" + RECORDS + " {program}"),
    Variant("kernels", "CUPTI's records of kernels alone, thrown away", CUPTI + "{program}"),
    Variant("record", "`cudatrace record`", RECORD + "-- {program}"),
    Variant("python-off", "`--python off`", RECORD + "--python off -- {program}", workloads="cdtk"),
    Variant("sample-off", "`--sample off`", RECORD + "--sample off -- {program}", workloads="cdtk"),
    Variant("metrics-off", "`--gpu-metrics off`", RECORD + "--gpu-metrics off -- {program}"),
    Variant("cupti", "`--calls cupti`", RECORD + "--calls cupti -- {program}"),
    Variant("none", "`--calls none`", RECORD + "--calls none -- {program}"),
    Variant("uprobe", "`--calls uprobe`", RECORD + "--calls uprobe -- {program}"),
    Variant("probes", "`--gpu none`: probes alone", RECORD + "--gpu none -- {program}"),
    Variant("minimal", "`--api minimal`", RECORD + "--api minimal -- {program}"),
    Variant("counters", "`--gpu-metrics`: PM sampling, 1 kHz", RECORD + "--gpu-metrics -- {program}"),
    Variant("last", "`--last 10s`", RECORD + "--last 10s -- {program}"),
    Variant("pid", "`-p PID` of an armed program", "{cudatrace} record --no-convert -o {out} -p {pid}", before="{cudatrace} run --armed -- {program}"),
    Variant("nsys", "`nsys profile -t cuda`", NSYS + "-t cuda --sample=none --cpuctxsw=none {program}"),
    Variant("nsys-default", "`nsys profile`", NSYS + "{program}"),
    Variant("torch", "torch.profiler, CUDA", "{program}", workloads="cdtk", setup="profile torch"),
]

# The programs and variants of the first table of docs/overhead.md.
FACE_WORKLOADS, FACE_VARIANTS = "a,k,c", "again,floor,record,python-off,cupti,nsys,torch"


def extra(text):
    """A variant from a command line: NAME=COMMAND, or NAME@WORKLOADS=COMMAND."""
    head, found, command = text.partition("=")
    name, _, workloads = head.partition("@")
    if not found or not name or not ("{program}" in command or "{pid}" in command):
        raise ValueError(f"a variant is NAME=COMMAND, with {{program}} or {{pid}} in its command, not {text!r}")
    return Variant(name, f"`{name}`", command, workloads=workloads)


def chosen(table, names, what):
    """The rows of those names, in the table's order; all when there are none."""
    if unknown := set(names) - {row.name for row in table}:
        raise ValueError(f"there is no {what} {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in table)}")
    return [row for row in table if not names or row.name in names]


def filled(command, places, program):
    """Environment and words of a command. places has the values of the placeholders."""
    env, words = {}, []
    for word in shlex.split(command):
        if word == "{program}":
            words += program
            continue
        word = word.format_map(places)
        name, assigned, value = word.partition("=")
        if assigned and not words and name.replace("_", "").isalnum():
            env[name] = value
        else:
            words.append(word)
    return env, words


def argument(work, sim, passes):
    """The parameter of a workload's loop. Threads on the simulated stack: not more than the machine has processors."""
    if work.name in "ft":
        return passes
    return min(work.arg, os.cpu_count() or 1) if sim else work.arg
