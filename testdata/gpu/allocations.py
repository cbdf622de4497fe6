#!/usr/bin/env python3
# Compares what a log has of allocated memory with what its program, allocations.cu, says: a line for each use, and for
# the second GPU and the second process.
#
# Usage: allocations.py CUDATRACE LOG STDOUT uprobe|calls
import json
import re
import subprocess
import sys

cudatrace, log, stdout, calls = sys.argv[1:]


def said(*command):
    return json.loads(subprocess.run([cudatrace, *command, "--format", "json"], check=True, capture_output=True).stdout)


truth, ordered = [], {}
for line in open(stdout):
    words = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)}
    if line.startswith("truth"):
        truth.append({"use": line.split()[1], **words})
    elif line.startswith("ordered"):
        ordered = words
    elif line.startswith("skipped"):
        print(line, end="")
if len(truth) < 3 or not ordered:
    sys.exit(f"{stdout}: it says {truth} {ordered}")
device = truth[0]
device["allocations"] += ordered["allocations"]
device["frees"] += ordered["allocations"]
device["bytes"] += ordered["bytes"]

reports = said("stats", log, "--report", "memory,memory_holders,unfreed")
got = [
    {
        "use": r["name"],
        "peak": r["peak_bytes"],
        "allocations": r["allocations"],
        "frees": r["frees"],
        "left": r["not_freed"],
        "bytes": r["allocated_bytes"],
    }
    for r in reports["memory"]
]
odd = sum(r["unmatched_frees"] + r["replaced"] for r in reports["memory"])
failed = odd > 0
for row in truth + [r for r in got if r not in truth]:
    right = row in truth and row in got
    failed |= not right
    whose = "" if right else "WRONG: not recorded so" if row in truth else "WRONG: recorded, not true"
    print(f"memory {calls:6} {row} {whose or 'ok'}")
if odd:
    print(f"memory {calls:6} WRONG: {odd} odd records")
nowhere = sum(r["allocations"] for r in reports["memory_holders"] if "allocations" not in r["library"])
left = sorted(r["bytes"] for r in reports["unfreed"])
right = left == [128 << 10, 3 << 20]
failed |= not right
print(f"memory {calls:6} not freed {left}, {nowhere} allocations without a place", "ok" if right else "WRONG")
sys.exit(failed)
