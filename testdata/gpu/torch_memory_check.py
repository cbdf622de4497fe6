"""Holds recordings of torch_memory.py against what PyTorch says of itself.

usage: torch_memory_check.py train CUDATRACE LOG MOMENTS   at each moment: allocated, reserved and their peaks, to the byte
       torch_memory_check.py oom CUDATRACE LOG TRUTH       the ten lines that held most when there was no memory
Exits with 1 where one differs.
"""
import json
import re
import subprocess
import sys

mode, cudatrace, log, truth = sys.argv[1:]


def run(*args):
    return subprocess.run([cudatrace, *args], capture_output=True, text=True, check=True).stdout


def train():
    records = [json.loads(line) for line in run("dump", log, "--format", "ndjson", "--kind", "torch_memory").splitlines()]
    records = sorted((r for r in records if r["kind"] == "torch_memory"), key=lambda r: r["time"])
    with_lines = sum(1 for r in records if r["bytes"] > 0 and r["python"])
    handed_out = sum(1 for r in records if r["bytes"] > 0)
    print(f"{len(records)} records, {handed_out} blocks handed out, {with_lines} of these with Python frames")
    wrong = 0
    with open(truth) as f:
        moments = [json.loads(line) for line in f]
    for m in moments:
        before = [r for r in records if r["time"] <= m["time"]]
        got = {"allocated_bytes.all.current": before[-1]["allocated"] if before else 0,
               "reserved_bytes.all.current": before[-1]["reserved"] if before else 0,
               "allocated_bytes.all.peak": max((r["allocated"] for r in before), default=0),
               "reserved_bytes.all.peak": max((r["reserved"] for r in before), default=0)}
        for key, n in got.items():
            if n != m[key]:
                print(f"  DIFFERS at {m['time']}: {key} is {m[key]} by PyTorch, {n} in the log")
                wrong += 1
    print(f"{len(moments)} moments of four figures, {wrong} figures differ")
    return wrong == 0 and len(moments) == 10 and handed_out > 0


def oom():
    said = json.loads(run("stats", log, "--report", "torch_memory,findings", "--format", "json"))
    got = []
    for row in said["torch_memory"]:
        line = re.search(r"torch_memory\.py:(\d+) ", row["name"])
        if row["failure_bytes"]:
            got.append([int(line.group(1)) if line else 0, row["failure_bytes"]])
    with open(truth) as f:
        want = json.load(f)
    got.sort(key=lambda x: -x[1])
    wrong = [(w, g) for w, g in zip(want, got[:10]) if w != g]
    print(f"{len(want)} lines by torch.cuda.memory._snapshot, {len(wrong)} differ (its figure, ours): {wrong}")
    found = [f for f in said["findings"] if f["name"] == "pytorch_out_of_memory"]
    for f in found:
        print("  " + f["title"], "  " + f["evidence"], "  " + f["try"], sep="\n")
    return not wrong and len(want) == 10 == len(got[:10]) and found


sys.exit(0 if {"train": train, "oom": oom}[mode]() else 1)
