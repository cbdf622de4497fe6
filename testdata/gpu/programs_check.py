"""Holds recordings of programs.py against torch.profiler's traces of the same steps in another process, and prints a row.

usage: programs_check.py CUDATRACE LOG NAME RANKS: beside LOG (NAME.cudatrace) are NAME.times and NAME.profile, with .RANK behind
each for several, and plain.times. Exits with 1 where something differs.
"""
import json
import os
import re
import statistics
import subprocess
import sys

from operators_check import STEPS, profiled, recorded

# Ranges that PyTorch opens only while torch.profiler is on, and the launchers of Triton's kernels, which are operators then.
ONLY_PROFILED = re.compile(r"triton_|Torch-Compiled Region|## Call CompiledFxGraph|TorchDynamo|Pregraph bytecode|AOTDispatcher|"
                           r"PythonOp|CachingHostAllocator")


def compare(ours, theirs, name):
    """How many launches there are, how many differ in operators, in the forward operator, and examples."""
    order = lambda threads: sorted(threads.values(), key=len)
    count = differ = unlinked = 0
    if [len(a) for a in order(ours)] != [len(b) for b in order(theirs)]:
        print(f"  {name}: launches by thread: recorded {[len(a) for a in order(ours)]}, profiled {[len(b) for b in order(theirs)]}")
        differ += abs(sum(map(len, ours.values())) - sum(map(len, theirs.values())))
    for a, b in zip(order(ours), order(theirs)):
        for i, ((names, made, _), (wanted, from_)) in enumerate(zip(a, b)):
            count += 1
            wanted = [n for n in wanted if not ONLY_PROFILED.match(n)]
            if names != wanted:
                differ += 1
                if differ < 4:
                    beside = lambda l: [x[0][:1] for x in l[max(i - 3, 0):i + 4]]
                    print(f"  {name}: launch {i} of {len(a)}: recorded {names}, profiled {wanted}; the launches around it: recorded "
                          f"{beside(a)}, profiled {beside(b)}")
            if made != from_:
                unlinked += 1
                if unlinked < 4:
                    print(f"  {name}: forward operator: recorded {made}, profiled {from_}, in {names}")
    return count, differ, unlinked


def compiled(work):
    """Kernels of Inductor's, and how many have not the operators that their name lists."""
    count = wrong = 0
    for w in work:
        named = re.fullmatch(r"triton_[a-z]+_fused_?(.*?)_?\d+", w["name"])
        if w["kind"] != "kernel" or not named:
            continue
        count += 1
        operator = w.get("operator", "")
        atens = sorted({o.split(".")[-1] for o in operator.removesuffix(" (compiled)").split(", ")})
        if not operator.endswith(" (compiled)") or "_".join(atens) != named[1]:
            wrong += 1
            if wrong < 4:
                print(f"  compile: {w['name']} has operator {operator!r}")
    return count, wrong


def steps(path):
    """Median time of the second half of the steps, ms."""
    with open(path) as f:
        times = [int(line.split()[1]) for line in f if not line.startswith("pid")]
    return statistics.median(times[len(times) // 2:]) / 1e6


def main():
    cudatrace, log, name, ranks = sys.argv[1:]
    folder = os.path.dirname(log)
    convert = [cudatrace, "convert", log, "--format", "ndjson", "-o", "-"]
    rows = subprocess.run(convert, capture_output=True, text=True, check=True).stdout
    work = [r for r in map(json.loads, rows.splitlines()) if r.get("table") == "work"]
    count = differ = unlinked = 0
    for suffix in [""] if ranks == "1" else [f".{r}" for r in range(int(ranks))]:
        times = f"{folder}/{name}.times{suffix}"
        with open(times) as f:
            pid = int(f.readline().split()[1])
        of = compare(recorded(cudatrace, log, times, pid), profiled(f"{folder}/{name}.profile{suffix}"), name)
        count, differ, unlinked = count + of[0], differ + of[1], unlinked + of[2]
    kernels, wrong = compiled(work)
    first = "" if ranks == "1" else ".0"
    share = lambda key: f"{100 * sum(key in w for w in work) / max(len(work), 1):6.1f}"
    print(f"{len(work):7} {share('operator')} {share('stack_id')} {count:9} {differ:6} {unlinked:8} {kernels:8} {wrong:6} "
          f"{steps(f'{folder}/{name}.plain{first}'):8.2f} {steps(f'{folder}/{name}.times{first}'):8.2f}")
    return count == 0 or differ or unlinked or wrong


if __name__ == "__main__":
    sys.exit(main())
