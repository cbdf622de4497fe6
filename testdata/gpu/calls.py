"""Compares recordings of calls.cu with what it called. Usage: calls.py CUDATRACE DIR

DIR has the logs calls (default), calls-cupti, calls-records (--calls cupti --api all) and calls-all (--api all), each with NAME.stdout. Prints the runtime functions that make several driver calls, and the functions that a mode counts wrong."""
import collections
import json
import re
import subprocess
import sys

cudatrace, folder = sys.argv[1], sys.argv[2]
# What docs/calls.md says: without probes each driver call of these counts.
PARTS = ("cudaMemcpyToArray", "cudaMemcpyToArrayAsync", "cudaMemcpyFromArray", "cudaMemcpyFromArrayAsync", "cudaMemcpyArrayToArray",
         "cudaMemset3D", "cudaMemset3DAsync")
KNOWN = {("calls-cupti", function) for function in PARTS}
modes = ("calls", "calls-cupti", "calls-records", "calls-all")


def printed(mode):
    return open(f"{folder}/{mode}.stdout").read()


def records(mode):
    command = [cudatrace, "dump", f"{folder}/{mode}.cudatrace", "--format", "ndjson", "--kind", "call,api,marker,function"]
    for line in subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        yield json.loads(line)


def spans(mode):
    """The calls of a log: (start, end, thread, function, is the driver's)."""
    for r in records(mode):
        if r["kind"] == "api":
            yield r["start"], r["start"] + r["dur"], r["tid"], r["name"], r["domain"] == 1, "api"
        elif r["kind"] == "call":
            yield r["enter"], r["enter"] + r["dur"], r["tid"], r["func"], r["func"].startswith("cu") and not r["func"].startswith("cuda"), "call"


# How many driver calls lie in each call that the program made in a range of its own.
labels = re.findall(r"^call (\S+) (\S+) (\S+)$", printed("calls-all"), re.M)
several = collections.defaultdict(list)
calls = sorted(c for c in spans("calls-all") if c[5] == "call")
drivers = [c for c in calls if c[4]]
for start, end, tid, name, driver, _ in calls:
    inside = [d[3] for d in drivers if d[2] == tid and d[0] >= start and d[1] <= end]
    if not driver and len(inside) != 1:
        several[name].append(inside)
print(f"{len(calls) - len(drivers)} probed calls of the runtime, {len(drivers)} of the driver")
for name, lists in sorted(several.items()):
    for inside, n in collections.Counter(tuple(i) for i in lists).items():
        print(f"  {n} x {name}: {len(inside)} driver calls: {' '.join(f'{f}*{inside.count(f)}' for f in dict.fromkeys(inside))}")

# How often each function was called, by the program and by each log.
faults = 0
counted = {mode: json.load(open(f"{folder}/{mode}.json"))["functions"] for mode in modes}
for functions in counted.values():  # by which nvcc launches; it jumps to the other
    functions["cudaLaunchKernel"] = functions.get("cudaLaunchKernel", 0) + functions.pop("__cudaLaunchKernel", 0)
print(f"{'function':40} {'called':>9} " + " ".join(f"{m[6:] or 'default':>9}" for m in modes))
truth = {f: (int(n), int(more)) for f, n, more in re.findall(r"^called (\S+) (\d+) or (\d+) more", printed("calls"), re.M)}
for function, (n, more) in sorted(truth.items()):
    got = [counted[m].get(function, 0) for m in modes]
    wrong = [m for m, g in zip(modes, got) if g and not n <= g <= n + more and (m, function) not in KNOWN]
    if wrong or 0 in got:
        print(f"{function:40} {n:9} " + " ".join(f"{g:9}" for g in got) + (f"  or {more} more" if more else "") + ("  WRONG" if wrong else ""))
    faults += bool(wrong)
for function in sorted(set().union(*counted.values()) - set(truth)):
    print(f"{function:40} {'':9} " + " ".join(f"{counted[m].get(function, 0):9}" for m in modes))
failed = [c for c in labels if c[2] != "cudaSuccess"]
print(f"{len(labels)} calls in ranges, {len(failed)} failed:", *(f"{c[0]} {c[1]} {c[2]}" for c in failed))
print("missing:", *re.findall(r"^call \S+ (\S+) missing$", printed("calls"), re.M))
print(f"calls: {len(truth)} functions, {faults} counted wrong in some mode")
sys.exit(faults != 0)
