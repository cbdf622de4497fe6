#!/usr/bin/env python3
# Compares what a log has of allocated memory with what its program, allocations.cu, says: a line for each use.
#
# Usage: allocations.py CUDATRACE LOG STDOUT uprobe|calls|cupti, with the source of --memory where calls are not probed
import json
import re
import subprocess
import sys

cudatrace, log, stdout, calls = sys.argv[1:]


def said(*command):
    return json.loads(subprocess.run([cudatrace, *command, "--format", "json"], check=True, capture_output=True).stdout)


truth, ordered = {}, {}
for line in open(stdout):
    words = dict(re.findall(r"(\w+)=(\d+)", line))
    if line.startswith("truth"):
        truth[line.split()[1]] = {k: int(v) for k, v in words.items()}
    elif line.startswith("ordered"):
        ordered = {k: int(v) for k, v in words.items()}
if len(truth) != 3 or not ordered:
    sys.exit(f"{stdout}: it says {truth} {ordered}")
if calls != "cupti":  # CUPTI's records lack these
    device = truth["device"]
    device["allocations"] += ordered["allocations"]
    device["frees"] += ordered["allocations"]
    device["bytes"] += ordered["bytes"]

reports = said("stats", log, "--report", "memory,memory_holders,unfreed")
failed = False
for use, want in truth.items():
    rows = [r for r in reports["memory"] if r["name"] == use]
    got = {
        "peak": max((r["peak_bytes"] for r in rows), default=0),
        "allocations": sum(r["allocations"] for r in rows),
        "frees": sum(r["frees"] for r in rows),
        "left": sum(r["not_freed"] for r in rows),
        "bytes": sum(r["allocated_bytes"] for r in rows),
    }
    odd = sum(r["unmatched_frees"] + r["replaced"] for r in rows)
    right = got == want and odd == 0
    failed |= not right
    print(f"memory {calls:6} {use:8} {got} {'ok' if right else f'WRONG: want {want}, {odd} odd records'}")
nowhere = sum(r["allocations"] for r in reports["memory_holders"] if "allocations" not in r["library"])
left = sorted(r["bytes"] for r in reports["unfreed"])
lacks = said("info", log)["memory_lacks"]
right = left == [128 << 10, 3 << 20] and (f"{ordered['allocations']} calls" in lacks) == (calls == "cupti")
failed |= not right
print(f"memory {calls:6} not freed {left}, {nowhere} allocations without a place, lacks {lacks!r}", "ok" if right else "WRONG")
sys.exit(failed)
