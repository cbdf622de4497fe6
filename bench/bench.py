"""Measures what tracing costs: the same loops under each variant, by turns.

All programs of a round live at once, one for each variant, and run their loops in turns of some 80 ms, in random order. A round's
programs are new ones. bench/run.sh builds the programs and starts this script. Results:
OUT/overhead.json, all raw measurements, and OUT/overhead.md, the tables, which are printed too. Both are rewritten after each round.
"""
import argparse
import concurrent.futures
import os
import random
import shutil
import signal
import sys
import tempfile

import child
import figures
import machine
import rows
from program import Channel, Failed, Program
from session import Session

GIVE_UP = 2  # failures of a variant in a row after which it is not run again
BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)


def arguments():
    p = argparse.ArgumentParser(description="Measures what tracing costs. docs/overhead.md explains the method.")
    p.add_argument("--sim", action="store_true", help="use the simulated CUDA stack, without a GPU")
    p.add_argument("--workloads", default="", metavar="NAMES", help="only these workloads: a,b,...")
    p.add_argument("--variants", default="", metavar="NAMES", help="only these variants: record,nsys,... (plain always runs)")
    p.add_argument("--face", action="store_true",
                   help=f"the first table of the docs: --workloads {rows.FACE_WORKLOADS} --variants {rows.FACE_VARIANTS}")
    p.add_argument("--variant", action="append", default=[], metavar="NAME[@WORKLOADS]=COMMAND",
                   help="add a variant (repeatable); rows.py lists the placeholders of a command")
    p.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    p.add_argument("--turns", type=int, default=40, metavar="N", help="turns of each program in a round (default: %(default)s)")
    p.add_argument("--budget", type=float, default=460, metavar="SECONDS", help="begin no round that would end later (default: %(default)s)")
    p.add_argument("--scale", type=float, default=1, metavar="FACTOR", help="multiply the length of a turn (default: %(default)s)")
    p.add_argument("--seed", type=int, default=1, help="seed of the random order of the variants (default: %(default)s)")
    p.add_argument("--out", default=os.environ.get("OUT") or os.path.join(ROOT, "build/bench"), metavar="FOLDER",
                   help="write the results to FOLDER (default: $OUT, or build/bench)")
    p.add_argument("--cudatrace", default=os.path.join(ROOT, "bin/cudatrace"), metavar="PATH", help="the recorder (default: bin/cudatrace)")
    p.add_argument("--build", default=os.path.join(ROOT, "build/bench"), metavar="FOLDER",
                   help="folder with the files that run.sh built (default: build/bench)")
    p.add_argument("--list", action="store_true", help="list the workloads and variants")
    args = p.parse_args()
    if args.face:
        args.workloads = args.workloads or rows.FACE_WORKLOADS
        args.variants = args.variants or rows.FACE_VARIANTS
    return args


class Setting:
    """The settings that all runs share."""

    def __init__(self, args, scratch):
        self.args, self.scratch, self.passes = args, scratch, 1
        loops = os.path.join(args.build, "loops-sim" if args.sim else "loops")
        self.programs = {rows.LOOPS: [loops], rows.TRAIN: [sys.executable, os.path.join(BENCH, "train.py")]}
        # Simulated kernels are short, so that launches bound the loop, as on a GPU.
        self.env = {"CUDASIM_KERNEL_NS": "100"} if args.sim else {}
        self.places = {"cudatrace": os.path.abspath(args.cudatrace), "nsys": "" if args.sim else machine.find_nsys(),
                       "cupti": os.path.join(ROOT, "build/sim/lib/libcupti.so.13") if args.sim else machine.find_cupti(),
                       "floor": os.path.join(args.build, "kernels.so")}

    def count(self, work):
        return max(1, round((work.sim_count if self.args.sim else work.count) * self.args.scale))

    def arg(self, work):
        return rows.argument(work, self.args.sim, self.passes)

    def lacks(self, variant):
        """The reason why a variant cannot run here, or ""."""
        for name in ("nsys", "cudatrace", "floor"):
            if "{" + name + "}" in variant.command and not os.access(self.places[name] or "/nowhere", os.R_OK):
                return f"there is no {self.places[name] or name}"
        return ""

    def calibrate(self):
        """Measures how many passes over its memory make a kernel take 20 ms."""
        folder = tempfile.mkdtemp(dir=self.scratch)
        channel = Channel(folder)
        program = Program(self.programs[rows.LOOPS] + channel.paths, self.env, folder, channel)
        try:
            program.ready(60)
            program.ask("init f", "init", 60)
            part = program.ask("run f 3 1", "part", 60)
            self.passes = 1 if self.args.sim else max(1, round(rows.LONG_KERNEL_NS / min(part["ns"])))
        finally:
            program.close()
            shutil.rmtree(folder, ignore_errors=True)


class Bench:
    """The rounds and their results."""

    def __init__(self, args, setting):
        self.args, self.setting = args, setting
        self.problems, self.runs, self.failures = [], [], {}
        self.works = [w for w in rows.chosen(rows.WORKLOADS, split(args.workloads), "workload") if w.sim_count or not args.sim]
        extras = [rows.extra(text) for text in args.variant]
        names = split(args.variants) and [*split(args.variants), rows.PLAIN, *(v.name for v in extras)]
        self.variants = [v for v in rows.chosen(rows.VARIANTS + extras, names, "variant")
                         if any(v.runs(w.name) for w in self.works) and not self.left_out(v)]
        self.random = random.Random(args.seed)
        self.machine = machine.describe(setting.places["cudatrace"], setting.places["nsys"], args.sim)
        self.began = child.monotonic()
        self.text = ""

    def left_out(self, variant):
        why = self.setting.lacks(variant)
        if why and not (self.args.sim and "{nsys}" in variant.command):
            self.problem(f"{variant.name} was left out: {why}")
        return bool(why)

    def problem(self, text):
        self.problems.append(text)
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def all(self):
        """Runs as many rounds as the budget allows."""
        if any(w.name in "ft" for w in self.works):
            self.setting.calibrate()
        longest = 0
        for number in range(1, self.args.rounds + 1):
            began = child.monotonic()
            if began + longest * 1.05 > self.began + self.args.budget:
                self.problem(f"{number - 1} of {self.args.rounds} rounds: {self.args.budget:.0f} s allow no more")
                break
            self.round(number)
            longest = max(longest, child.monotonic() - began)
            self.write(number)
            print(f"bench: round {number} of {self.args.rounds}, {child.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)

    def round(self, number):
        """One round of each program: all sessions live at once, and take turns."""
        for program in (rows.LOOPS, rows.TRAIN):
            works = [w for w in self.works if w.program == program]
            batch = [Session(self.setting, v, program, mine, number) for v in self.variants
                     if (mine := [w for w in works if v.runs(w.name)]) and self.failures.get((program, v.name), 0) < GIVE_UP]
            try:
                together(Session.start, batch)
                together(Session.begin, batch)
                for _ in range(self.args.turns if batch else 0):
                    for session in self.random.sample(batch, len(batch)):
                        session.step(Session.turn)
                together(Session.finish, batch)
            finally:
                for session in batch:
                    session.close()
                    self.keep(session.run)
                child.stop_all()  # processes that a tracer has left behind

    def keep(self, run):
        self.runs.append(run)
        key = run["program"], run["variant"]
        self.failures[key] = self.failures.get(key, 0) + 1 if run["error"] else 0
        if run["error"]:
            print(f"bench: {run['variant']} of {''.join(run['workloads'])}: {run['error']}", file=sys.stderr, flush=True)

    def write(self, number):
        """Writes both files with the results so far."""
        facts = dict(self.machine)
        facts.update((name, text) for name, text in (
            ("PyTorch", next((r["torch"] for r in self.runs if r.get("torch")), "")),
            ("CUPTI", next((r["info"]["cupti_version"] for r in self.runs if r.get("info", {}).get("cupti_version")), ""))) if text)
        result = {"version": 2, "machine": facts, "seed": self.args.seed, "rounds": number, "turns": self.args.turns,
                  "command": os.environ.get("BENCH_COMMAND") or " ".join(sys.argv), "args": {w.name: self.setting.arg(w) for w in self.works},
                  "summary": figures.summary(self.runs, self.works, self.variants), "problems": self.problems, "runs": self.runs}
        self.text = figures.write(self.args.out, result, self.works, self.variants)


def split(text):
    return [word for word in text.split(",") if word]


def together(step, sessions):
    """Takes a step of all sessions, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda session: session.step(step), sessions))


def main():
    args = arguments()
    if args.list:
        for w in rows.WORKLOADS:
            print(f"{w.name}  {w.title.format(arg=w.arg)}, {w.count} a turn" + (f", simulated {w.sim_count}" if w.sim_count else ""))
        for v in rows.VARIANTS:
            print(f"{v.name:12} {v.command}" + (f"   (only {v.workloads})" if v.workloads else ""))
        return
    os.makedirs(args.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    child.adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="cudatrace-bench-")
    try:
        bench = Bench(args, Setting(args, scratch))
        bench.all()
        print(bench.text, end="")
    except (ValueError, Failed, OSError) as error:
        sys.exit(f"bench: {error}")
    finally:
        child.stop_all()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
