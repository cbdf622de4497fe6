"""What the parts of CUPTI cost: switched on and off inside one process, in random order (overhead.py --parts).

Results: OUT/parts.json, all raw measurements, and OUT/parts.md, the tables. Both are rewritten after each round.
"""
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass

import child
import figures
import machine
import table
import workloads
from program import Channel, Failed, Program

# The parts as lists for kernels.c: records of kernels, copies and memsets; by callback ID the driver's cuLaunchKernel (two),
# cuLaunchKernelEx, cuGraphLaunch, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyAsync, cuMemsetD8Async, cuMemsetD32Async; the
# runtime's cudaLaunchKernel, cudaLaunchKernelExC, cudaGraphLaunch, cudaMemcpy, cudaMemcpyAsync, cudaMemsetAsync;
# cudaProfilerStart, which no workload calls.
LISTS = {
    "gpu": "k10,k1,k2",
    "driver": "d307,d442,d652,d514,d277,d279,d306,d216,d220",
    "runtime": "r211,r430,r311,r31,r41,r51",
    "idle": "r171",
    "walks": "w",
}
KINDS = {"gpu": "GPU records", "driver": "API records of the driver", "runtime": "API records of the runtime",
         "walks": "walks that found the caller"}
SHARE = 1 / 3         # of a workload's units in each measurement
CHECK_UNITS = 5       # so few that the programs do not warm up first
READY_S, INIT_S, LOOP_S = 60, 60, 45
LONG = "ft"           # workloads of long kernels, which hide the cost of every part


@dataclass(frozen=True)
class Set:
    """Parts that are on together."""
    name: str
    title: str
    parts: tuple

    @property
    def listed(self):
        return ",".join(LISTS[part] for part in self.parts)

    def explains(self, kind, count):
        """Whether these parts can have made so many records, or walks. CUPTI makes no record of a driver call inside a
        recorded runtime call."""
        if kind == "driver" and "runtime" in self.parts and kind in self.parts:
            return True
        return (count > 0) == (kind in self.parts)


# Parts that are on when the program starts: kernels.c says why.
FIRST = ",".join(LISTS[part] for part in ("gpu", "driver", "runtime"))

# figures.py compares with the set named plain.
SETS = [
    Set("plain", "nothing", ()),
    Set("kernels", "kernel records", ("gpu",)),
    Set("driver", "+ the driver's API records", ("gpu", "driver")),
    Set("walk", "+ the driver's API records, walk up the stack", ("gpu", "driver", "walks")),
    Set("idle", "+ the driver's API records, a runtime call that is never made", ("gpu", "driver", "idle")),
    Set("runtime", "+ the runtime's API records", ("gpu", "runtime")),
    Set("both", "+ both", ("gpu", "driver", "runtime")),
    Set("calls", "the driver's API records alone", ("driver",)),
]


def chosen(names, sim):
    """The workloads of those names; a launch loop and a PyTorch step when there are none."""
    if wrong := set(names) & set(LONG):
        raise ValueError(f"--parts does not measure {', '.join(sorted(wrong))}")
    return workloads.chosen(names or ["a", "c"], sim)


class Switched:
    """A program whose parts of CUPTI can be switched."""

    def __init__(self, setting, name, scratch):
        self.setting = setting
        self.folder = tempfile.mkdtemp(dir=scratch)
        self.channel = Channel(self.folder)
        env = {"CUDA_INJECTION64_PATH": setting.places["floor"], "BENCH_CUPTI": setting.cupti, "BENCH_RECORDS": "t",
               "BENCH_PARTS": FIRST}
        self.program = Program(setting.programs[name] + self.channel.paths, {**setting.env, **env}, self.folder, self.channel)

    def start(self, works):
        """Starts CUDA. The versions that the program reports."""
        ready = self.program.ready(READY_S)
        self.program.ask("init " + " ".join(w.name for w in works), "init", INIT_S)
        return ready

    def switch(self, listed):
        """Switches to the parts of a list. What CUPTI counted before."""
        return self.program.ask(f"parts {listed}", "parts", LOOP_S)

    def run(self, work, count):
        return self.program.ask(f"run {work.name} {count} {self.setting.arg(work)}", "part", LOOP_S)

    def count(self, work, parts):
        """What CUPTI delivers in CHECK_UNITS units with those parts on."""
        self.switch(",".join(filter(None, (parts.listed, "c"))))
        self.run(work, CHECK_UNITS)
        return self.switch("")

    def close(self):
        self.program.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Parts:
    """The rounds and their results."""

    def __init__(self, args, setting, names, scratch):
        self.args, self.setting, self.scratch = args, setting, scratch
        self.works = chosen(names, args.sim)
        self.random = random.Random(args.seed)
        self.machine = machine.describe(setting.places["cudatrace"], "", args.sim)
        self.runs, self.checks, self.problems = [], {}, []
        self.began = child.monotonic()

    def problem(self, text):
        self.problems.append(text)
        print(f"parts: {text}", file=sys.stderr, flush=True)

    def all(self):
        """Measures each program, with an equal share of the budget."""
        programs = list(dict.fromkeys(w.program for w in self.works))
        for number, name in enumerate(programs, 1):
            try:
                self.measure(name, self.began + self.args.budget * number / len(programs))
            except (Failed, OSError) as error:
                self.problem(f"{name}: {error}")
        self.write()
        if not self.runs:
            raise Failed("nothing was measured")

    def measure(self, name, until):
        """Measures the workloads of one program, in one process."""
        works = [w for w in self.works if w.program == name]
        switched = Switched(self.setting, name, self.scratch)
        try:
            ready = switched.start(works)
            self.machine.update({k: v for k, v in (("PyTorch", ready.get("torch")),) if v})
            for work in works:
                self.checks[work.name] = {s.name: self.check(work, s, switched.count(work, s)) for s in SETS}
            self.rounds(switched, works, until)
        finally:
            switched.close()

    def check(self, work, parts, counts):
        """Says which parts had no effect and which others were on."""
        for kind, title in KINDS.items():
            if not parts.explains(kind, counts[kind]):
                self.problem(f"{work.name}, {parts.title}: {counts[kind]} {title} in {CHECK_UNITS} units")
        return {kind: n / CHECK_UNITS for kind, n in counts.items()}

    def rounds(self, switched, works, until):
        longest = 0
        for number in range(1, self.args.rounds + 1):
            began = child.monotonic()
            if began + longest * 1.05 > until:
                self.problem(f"{works[0].program}: {number - 1} of {self.args.rounds} rounds: {self.args.budget:.0f} s allow no more")
                return
            for work in works:
                self.round(switched, work, number)
            longest = max(longest, child.monotonic() - began)
            self.write()
            print(f"parts: {works[0].program}, round {number} of {self.args.rounds}", file=sys.stderr, flush=True)

    def round(self, switched, work, number):
        """Runs a workload with each set of parts, in random order."""
        count = workloads.count(work, self.args.sim, self.args.scale * SHARE)
        for parts in self.random.sample(SETS, len(SETS)):
            switched.switch(parts.listed)
            part = switched.run(work, count)
            self.runs.append({"variant": parts.name, "round": number, "whole": False, "error": None, "parts": [part]})
        switched.switch("")

    def write(self):
        """Writes both files with the results so far."""
        command = os.environ.get("BENCH_COMMAND") or " ".join(sys.argv)
        self.document = document(self, command)
        result = {"version": 1, "machine": self.machine, "seed": self.args.seed, "command": command,
                  "sets": [{"name": s.name, "title": s.title, "list": s.listed} for s in SETS], "checks": self.checks,
                  "problems": self.problems, "runs": self.runs}
        table.replace(os.path.join(self.args.out, "parts.json"), json.dumps(result))
        table.replace(os.path.join(self.args.out, "parts.md"), self.document)


def rows(runs, work, checks):
    """A row for each set that was measured."""
    samples = figures.samples(runs)
    for parts in SETS:
        values = samples.get((work.name, parts.name))
        if values:
            kinds = (f"{checks[parts.name][kind]:,.4g}" for kind in ("gpu", "driver", "runtime"))
            yield [parts.title, table.written(work, figures.median(values.values())), *added(samples, work, parts), *kinds,
                   len(values)]


def added(samples, work, parts):
    """The time that a set adds, median and quartiles of the paired differences; nothing for the set that is compared with."""
    extra = figures.overhead(samples, work.name, parts.name).values()
    if parts.name == "plain" or not extra:
        return "", ""
    low, middle, high = (table.signed(table.written(work, figures.quantile(extra, q))) for q in (0.25, 0.5, 0.75))
    return middle, f"{low}..{high}"


def document(found, command):
    """The tables as markdown."""
    lines = table.head(found.machine, max((r["round"] for r in found.runs), default=0), 1, command)
    for work in found.works:
        title = table.title(work, found.setting.arg(work))
        unit = work.unit
        head = ["on", "median", "added", "quartiles", f"GPU records a {unit}", "driver's", "runtime's", "rounds"]
        lines += table.titled(title, head, list(rows(found.runs, work, found.checks.get(work.name, {}))))
    return "\n".join(lines + [f"- {problem}" for problem in found.problems]) + "\n"
