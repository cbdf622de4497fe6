"""Measures the cost of tracing: runs every workload plain and under each tracer, by turns and in random order.

bench/run.sh builds the programs and starts this script. Results: OUT/overhead.json, all raw measurements, and
OUT/overhead.md, the tables, which are printed too. Both are rewritten after each round.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import child
import claims
import figures
import machine
import parts
import table
import variants
import workloads
from program import Channel, Failed, Program
from session import Session

GIVE_UP = 3     # failures of a variant in a row after which it is not run again
FACE_TURNS = 8  # of a round, with --face
BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)


def arguments():
    p = argparse.ArgumentParser(description="Measures the cost of tracing. docs/overhead.md explains the method.")
    p.add_argument("--sim", action="store_true", help="use the simulated CUDA stack, without a GPU")
    p.add_argument("--workloads", default="", metavar="NAMES", help="only these workloads: a,b,...")
    p.add_argument("--variants", default="", metavar="NAMES", help="only these variants: record,nsys,... (plain always runs)")
    p.add_argument("--face", action="store_true",
                   help=f"measure little more than the first table: --workloads {variants.FACE_WORKLOADS} "
                        f"--variants {variants.FACE_VARIANTS} --turns {FACE_TURNS} --no-whole")
    p.add_argument("--variant", action="append", default=[], metavar="NAME[@WORKLOADS]=COMMAND",
                   help="add a variant (repeatable); variants.py lists the placeholders of a command")
    p.add_argument("--rounds", type=int, default=10, help="number of rounds (default: %(default)s)")
    p.add_argument("--turns", type=int, metavar="N", help="have the programs of a round live at once and run their loops N times, by turns (default: 1)")
    p.add_argument("--budget", type=float, default=520, metavar="SECONDS",
                   help="begin no round that would end later (default: %(default)s)")
    p.add_argument("--scale", type=float, default=1, metavar="FACTOR",
                   help="multiply the length of the loops (default: %(default)s)")
    p.add_argument("--seed", type=int, default=1,
                   help="seed of the random order of the variants (default: %(default)s)")
    p.add_argument("--no-whole", action="store_true", help="skip the round that measures whole recordings")
    p.add_argument("--out", default=os.environ.get("OUT") or os.path.join(ROOT, "build/bench"), metavar="FOLDER",
                   help="write the results to FOLDER (default: $OUT, or build/bench)")
    p.add_argument("--cudatrace", default=os.path.join(ROOT, "bin/cudatrace"), metavar="PATH",
                   help="the recorder (default: bin/cudatrace)")
    p.add_argument("--build", default=os.path.join(ROOT, "build/bench"), metavar="FOLDER",
                   help="folder with the files that run.sh built (default: build/bench)")
    p.add_argument("--probe-test", default="", metavar="PATH",
                   help="test binary of record/probe; its benchmark runs too")
    p.add_argument("--parts", action="store_true",
                   help="measure the parts of CUPTI, each on and off inside one process, in place of the variants")
    p.add_argument("--list", action="store_true", help="list the workloads and variants")
    args = p.parse_args()
    if args.face:
        args.workloads = args.workloads or variants.FACE_WORKLOADS
        args.variants = args.variants or variants.FACE_VARIANTS
        args.no_whole = True
    args.turns = args.turns or (FACE_TURNS if args.face else 1)
    if args.parts and (args.variants or args.variant):
        p.error("--parts measures no variants")
    return args


class Setting:
    """The settings that all runs share."""

    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch
        self.passes = 1
        loops = os.path.join(args.build, "loops-sim" if args.sim else "loops")
        self.programs = {workloads.LOOPS: [loops], workloads.TRAIN: [sys.executable, os.path.join(BENCH, "train.py")]}
        self.cupti = os.path.join(ROOT, "build/sim/lib/libcupti.so.13") if args.sim else machine.find_cupti()
        # Simulated kernels are short, so that launches bound the loop, as on a GPU.
        self.env = {"CUDASIM_KERNEL_NS": "100"} if args.sim else {}
        self.places = {"cudatrace": os.path.abspath(args.cudatrace), "nsys": "" if args.sim else machine.find_nsys(),
                       "python": sys.executable, "bench": BENCH, "floor": os.path.join(args.build, "kernels.so")}

    def count(self, work, whole=False):
        return workloads.count(work, self.args.sim, self.args.scale, whole)

    def arg(self, work):
        return {"e": workloads.thread_count(work, self.args.sim), "f": self.passes, "t": self.passes}.get(work.name, 0)

    def lacks(self, variant):
        """The reason why a variant cannot run here, or ""."""
        if "nsys" in variant.needs and not self.places["nsys"]:
            return "no nsys was found"
        if "cudatrace" in variant.needs and not os.access(self.places["cudatrace"], os.X_OK):
            return f"there is no {self.places['cudatrace']}"
        if "floor" in variant.needs and not os.path.exists(self.places["floor"]):
            return f"there is no {self.places['floor']}"
        return ""

    def calibrate(self):
        """Measures how many passes over its memory make a kernel take 20 ms."""
        folder = tempfile.mkdtemp(dir=self.scratch)
        channel = Channel(folder)
        program = Program(self.programs[workloads.LOOPS] + channel.paths, {**os.environ, **self.env}, folder, channel)
        try:
            program.ready(60)
            program.ask("init f", "init", 60)
            part = program.ask("run f 3 1", "part", 60)
            self.passes = 1 if self.args.sim else workloads.passes(part["ns"] / part["count"])
        finally:
            program.close()
            shutil.rmtree(folder, ignore_errors=True)


class Bench:
    """The rounds and their results."""

    def __init__(self, args, setting):
        self.args, self.setting = args, setting
        self.works = workloads.chosen(split(args.workloads), args.sim)
        asked = variants.chosen(split(args.variants), [variants.extra(text) for text in args.variant])
        asked = [v for v in asked if any(v.runs(w.name) for w in self.works)]
        self.problems = []
        self.chosen = [v for v in asked if not self.left_out(v)]
        self.runs, self.began, self.longest, self.rounds = [], child.monotonic(), 0, 0
        self.random = random.Random(args.seed)
        self.failures = {}  # successive failures, by program and variant
        self.machine = machine.describe(setting.places["cudatrace"], setting.places["nsys"], args.sim)
        self.floor = None

    def left_out(self, variant):
        why = self.setting.lacks(variant)
        if why and not (self.args.sim and "nsys" in variant.needs):
            self.problem(f"{variant.name} was left out: {why}")
        return bool(why)

    def problem(self, text):
        self.problems.append(text)
        print(f"overhead: {text}", file=sys.stderr, flush=True)

    def programs(self):
        """Each program with its workloads."""
        return [(name, [w for w in self.works if w.program == name]) for name in (workloads.LOOPS, workloads.TRAIN)
                if any(w.program == name for w in self.works)]

    def all(self):
        """Runs as many rounds as the budget allows."""
        if any(w.name in "ft" for w in self.works):
            self.calibrate()
        if self.args.probe_test:
            self.floor = probe_floor(os.path.abspath(self.args.probe_test))
        if not self.args.no_whole:
            self.whole()
        for number in range(1, self.args.rounds + 1):
            left = self.args.budget - (child.monotonic() - self.began)
            if left < self.longest * 1.05:
                self.problem(f"{number - 1} of {self.args.rounds} rounds: {self.args.budget:.0f} s allow no more")
                break
            self.round(number)
        self.write()

    def calibrate(self):
        try:
            self.setting.calibrate()
        except (Failed, OSError) as error:
            self.setting.passes = 10
            self.problem(f"the memory-bound kernels were not calibrated: {error}")

    def whole(self):
        """Records and converts each workload alone, for sizes and for the time to the finished trace."""
        for program, works in self.programs():
            batch = [Session(self.setting, v, program, [w], 0, True)
                     for w in works for v in self.chosen if w.name in v.apart]
            self.take_turns(batch)
        self.write()
        self.progress("whole recordings")

    def round(self, number):
        began = child.monotonic()
        for program, works in self.programs():
            batch = []
            for v in self.chosen:
                mine = [w for w in works if v.runs(w.name)]
                due = self.args.sim or (number - 1) % v.every == 0
                if mine and due and not self.given_up(program, v):
                    batch.append(Session(self.setting, v, program, mine, number, False))
            self.take_turns(batch, self.args.turns)
        self.rounds = number
        self.longest = max(self.longest, child.monotonic() - began)
        self.write()
        self.progress(f"round {number} of {self.args.rounds}")

    def take_turns(self, batch, turns=1):
        """Runs the sessions one by one, in random order; with several turns all of them live at once, and each runs its loops once a turn.
        Programs that take seconds to start are started together, before any of them is measured."""
        self.random.shuffle(batch)
        for group in groups(batch) if turns == 1 else [batch]:
            early = [s for s in group if s.variant.staged and s.run["program"] == workloads.TRAIN]
            for s in early:
                s.start()
            for s in early:
                s.ready()
            for s in group:
                if s not in early:
                    s.start()
                    s.ready()
                if turns == 1:
                    for step in (s.begin, s.turn, s.finish):
                        s.measure(step)
            if turns > 1:
                together(lambda s: s.measure(s.begin), group)
                for _ in range(turns):
                    self.random.shuffle(group)
                    for s in group:
                        s.measure(s.turn)
                for s in group:
                    s.measure(s.finish)
            together(lambda s: s.collect(), group)
            for s in group:
                s.close()
                self.keep(s)
            child.stop_all()  # processes that a tracer has left behind

    def given_up(self, program, variant):
        """Whether a variant has failed too often to run again."""
        return self.failures.get((program, variant.name), 0) >= GIVE_UP

    def keep(self, session):
        run = session.run
        self.runs.append(run)
        print(f"overhead: {run['variant']} of {''.join(run['workloads'])}: {run.get('measured_s', 0):.1f} s, {run.get('init_s', 0):.1f} s of them before its loops, "
              f"{run.get('done_s', 0):.1f} s after them", file=sys.stderr, flush=True)
        key = run["program"], run["variant"]
        self.failures[key] = self.failures.get(key, 0) + 1 if run["error"] else 0
        if run["error"]:
            works = "".join(run["workloads"])
            print(f"overhead: {run['variant']} of {works}: {run['error']}", file=sys.stderr, flush=True)
        if self.failures[key] == GIVE_UP:
            self.problem(f"{run['variant']} failed {GIVE_UP} times in a row on {run['program']} and was not run again")

    def progress(self, what):
        print(f"overhead: {what}, {child.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)

    def summary(self):
        found = {"rounds": self.rounds, "floor": self.floor, "after_detach": figures.after_detach(self.runs),
                 "rows": figures.rows(self.runs, self.works, self.chosen),
                 "resources": figures.resources(self.runs, self.works, self.chosen),
                 "once": {v.name: once for v in self.chosen if (once := figures.seconds(self.runs, v.name))}}
        found["claims"] = claims.judge(found, self.args.sim)
        return found

    def result(self):
        facts = dict(self.machine)
        torch = next((r["torch"] for r in self.runs if r.get("torch")), "")
        cupti = next((r["info"]["cupti_version"] for r in self.runs if r.get("info", {}).get("cupti_version")), "")
        facts.update({k: v for k, v in (("PyTorch", torch), ("CUPTI", cupti)) if v})
        return {"version": 1, "machine": facts, "seed": self.args.seed,
                "turns": self.args.turns, "command": os.environ.get("BENCH_COMMAND") or " ".join(sys.argv),
                "workloads": [{"name": w.name, "title": w.title, "unit": w.unit, "count": self.setting.count(w),
                               "arg": self.setting.arg(w)} for w in self.works],
                "variants": [{"name": v.name, "title": v.title, "command": v.command} for v in self.chosen],
                "problems": self.problems, "summary": self.summary(), "runs": self.runs}

    def write(self):
        """Writes both files with the results so far."""
        result = self.result()
        self.document = table.document(result, self.works, self.chosen)
        table.replace(os.path.join(self.args.out, "overhead.json"), json.dumps(result))
        table.replace(os.path.join(self.args.out, "overhead.md"), self.document)


def split(text):
    return [word for word in text.split(",") if word]


def together(step, sessions):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(step, sessions))


def groups(batch):
    """Splits a batch into groups whose programs may wait together: no more than the machine has processors."""
    size = max(1, min(12, os.cpu_count() or 1))
    return [batch[i:i + size] for i in range(0, len(batch), size)]


def probe_floor(binary):
    """Results of the benchmark of record/probe, name to ns. It runs in its source folder, since it compiles files there."""
    words = [binary, "-test.run", "^$", "-test.bench", "^BenchmarkCall$", "-test.benchtime", "5x"]
    try:
        done = subprocess.run(words, cwd=os.path.join(ROOT, "record/probe"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    text = done.stdout.decode(errors="replace")
    found = {name: float(ns) for ns, name in re.findall(r"([\d.]+) (\S+)-ns\b", text)}
    return found or {"error": " ".join(text.split())[-300:]}


def listing(args):
    for w in workloads.WORKLOADS:
        simulated = f", simulated {w.sim_count}" if w.sim_count else ""
        print(f"{w.name}  {w.title.format(arg=w.arg)}, {w.count} times{simulated}")
    for v in variants.chosen([], [variants.extra(text) for text in args.variant]):
        print(f"{v.name:10} {v.command}" + (f"   (only {v.workloads})" if v.workloads else ""))


def main():
    args = arguments()
    if args.list:
        return listing(args)
    os.makedirs(args.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    child.adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="cudatrace-bench-")
    try:
        setting = Setting(args, scratch)
        bench = parts.Parts(args, setting, split(args.workloads), scratch) if args.parts else Bench(args, setting)
        bench.all()
        print(bench.document, end="")
    except (ValueError, Failed) as error:
        sys.exit(f"overhead: {error}")
    finally:
        child.stop_all()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
