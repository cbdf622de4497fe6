"""The variants: ways to run a workload, plain or under a tracer. A new variant is a new row.

A command is words with placeholders: {program} (the program and its arguments), {cudatrace}, {nsys}, {python}, {bench}
(this folder), {floor} (the library built from kernels.c), {cupti} (libcupti), {out} (path of this run's files without
suffix), {pid}, {convert} (--no-convert, or nothing in the round that measures whole recordings). NAME=VALUE words in
front are environment variables.
"""
import shlex
from dataclasses import dataclass

RUN, ATTACH = "run", "attach"
# Two more rows of a variant that attaches: the process before attaching and after detaching.
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Variant:
    name: str
    title: str
    command: str
    kind: str = RUN           # ATTACH: the command attaches to a running program
    workloads: str = ""       # only these workloads; "" is all
    every: int = 1            # runs in every so many rounds; in all rounds on the simulated stack
    apart: str = ""           # workloads that are recorded alone in the round that measures whole recordings
    setup: str = ""           # a line for the program, after its init
    ready: str = ""           # text that the attaching command prints when it has attached
    log: str = ""             # suffix of the file whose appearance ends the recording
    files: tuple = ()         # suffixes of the resulting files
    may_fail: bool = False    # ignore the exit code when the loops ran
    staged: bool = True       # may start together with others and wait for its turn
    needs: tuple = ()         # some of nsys, cudatrace, floor

    def runs(self, workload):
        return not self.workloads or workload in self.workloads


RECORD = "{cudatrace} record {convert} -o {out}"
LOG = dict(log=".cudatrace", files=(".cudatrace", ".pftrace"), needs=("cudatrace",))
NSYS = "{nsys} profile -t cuda --sample=none --cpuctxsw=none --force-overwrite=true -o {out}"
NSYS_DEFAULT = "{nsys} profile --force-overwrite=true -o {out}"
NSYS_FILES = dict(files=(".qdstrm", ".nsys-rep"), may_fail=True, staged=False, needs=("nsys",))

# For kernels.c: copies, memsets, cudaProfilerStart and cuProfilerStart, which cudatrace switches on too, and by callback ID
# the driver's cuLaunchKernel, cuLaunchKernelEx, cuMemsetD8Async, cuMemsetD32Async, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync and
# cuMemcpyAsync.
RECORDS = "k1,k2,r171,d308,d307,d652,d216,d220,d277,d279,d306"

VARIANTS = [
    Variant("plain", "not traced", "{program}"),
    Variant("record", "`cudatrace record`", RECORD + " -- {program}", apart="abgefcdtk", **LOG),
    Variant("python-off", "`record --python off`", RECORD + " --python off -- {program}", workloads="ck", apart="ck", **LOG),
    Variant("sample-off", "`record --python off --sample off`", RECORD + " --python off --sample off -- {program}",
            workloads="ck", **LOG),
    Variant("cupti", "`record --calls cupti`", RECORD + " --calls cupti -- {program}", apart="ac", **LOG),
    Variant("cupti-python-off", "`record --calls cupti --python off`", RECORD + " --calls cupti --python off -- {program}",
            workloads="c", **LOG),
    Variant("none", "`record --calls none`", RECORD + " --calls none -- {program}", apart="ac", **LOG),
    Variant("minimal", "`record --api minimal`", RECORD + " --api minimal -- {program}", workloads="ac", apart="c", **LOG),
    Variant("cupti-minimal", "`record --calls cupti --api minimal`", RECORD + " --calls cupti --api minimal -- {program}",
            workloads="ac", **LOG),
    Variant("unsampled", "`record --gpu-metrics off`", RECORD + " --gpu-metrics off -- {program}", workloads="ac", **LOG),
    Variant("counters", "`record --gpu-metrics`: PM sampling, 1 kHz", RECORD + " --gpu-metrics -- {program}", workloads="ac", **LOG),
    Variant("pid", "`record -p PID`, attached", RECORD + " -p {pid}", kind=ATTACH, workloads="abce",
            ready="recording the calls", **LOG),
    Variant("nsys", "`nsys profile -t cuda`", NSYS + " {program}", apart="ac", **NSYS_FILES),
    Variant("nsys-default", "`nsys profile`", NSYS_DEFAULT + " {program}", workloads="ck", every=2, **NSYS_FILES),
    Variant("torch", "torch.profiler, CUDA", "{program}", workloads="cdtk", apart="c", setup="profile torch"),
    Variant("nsys-node", "`nsys --cuda-graph-trace=node`", NSYS + " --cuda-graph-trace=node {program}", workloads="gd",
            every=2, **NSYS_FILES),
    Variant("probes", "`record --gpu none`: probes alone", RECORD + " --gpu none -- {program}", workloads="aec",
            every=2, **LOG),
    Variant("kernels", "floor: CUPTI kernel records alone",
            "CUDA_INJECTION64_PATH={floor} BENCH_CUPTI={cupti} BENCH_BYTES={out}.bytes {program}", workloads="aec",
            every=2, files=(".bytes",), needs=("floor",)),
    Variant("records", "floor: CUPTI's records of kernels, copies, memsets and of the driver's calls that make them",
            "CUDA_INJECTION64_PATH={floor} BENCH_CUPTI={cupti} BENCH_BYTES={out}.bytes BENCH_RECORDS=" + RECORDS + " {program}",
            workloads="aec", every=2, files=(".bytes",), needs=("floor",)),
    Variant("empty", "floor: entry and return traps, empty programs", "{python} {bench}/emptyprobes.py {pid}",
            kind=ATTACH, workloads="aec", every=2, ready="attached"),
]

# The workloads and the variants of --face: those of the first table, and some to compare them with.
FACE_WORKLOADS, FACE_VARIANTS = "a,c,k", "record,python-off,cupti,nsys,torch"


def extra(text):
    """A variant from a command line: NAME=COMMAND, or NAME@WORKLOADS=COMMAND."""
    head, found, command = text.partition("=")
    name, _, workloads = head.partition("@")
    if not found or not name or not command:
        raise ValueError(f"a variant is NAME=COMMAND, not {text!r}")
    kind = ATTACH if "{pid}" in command else RUN
    if kind == RUN and "{program}" not in command:
        raise ValueError(f"variant {name}: its command needs {{program}} or {{pid}}")
    more = LOG if "{cudatrace}" in command else {}
    ready = "recording the calls" if more else "attached"
    return Variant(name, name, command, kind=kind, workloads=workloads, ready=ready, **more)


def chosen(names, extras):
    """The variants of those names, plain always among them; all when names is empty."""
    table = VARIANTS + extras
    known = {v.name for v in table}
    if unknown := set(names) - known:
        raise ValueError(f"there is no variant {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    wanted = set(names) | {"plain"} | {v.name for v in extras}
    return [v for v in table if not names or v.name in wanted]


def command(variant, places, program):
    """Environment and words of a variant's command. places has the values of the placeholders."""
    env, words = {}, []
    for word in shlex.split(variant.command):
        if word == "{program}":
            words += program
            continue
        word = word.format_map(places)
        name, assigned, value = word.partition("=")
        if assigned and not words and name.replace("_", "").isalnum():
            env[name] = value
        elif word:
            words.append(word)
    return env, words
