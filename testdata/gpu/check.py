"""Compares one recording with the counts of its program. Usage: check.py NAME DIR PLAIN_EXIT EXIT"""
import json
import re
import sys

name, folder, plain, code = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
info = json.load(open(f"{folder}/{name}.json"))
printed = open(f"{folder}/{name}.stdout").read()
faults = []


def expect(what, got, want):
    if got != want:
        faults.append(f"{what} is {got}, not {want}")


work = info["kernels"] + info["copies"] + info["sets"]
expect("exit code", code, plain)
if not name.startswith("conditional-"):  # conditional.py looks there
    expect("matched", info["matched"], work)
expect("early", info["early"], 0)
lost = sum(info["lost"].values())
if name == "counters-10000":  # near what can be decoded: up to 1 % may be lost, and is counted
    expect("lost in bounds", lost < 1250, True)
else:
    expect("lost", lost, 0)
# PyTorch's profiler takes CUPTI over; the log must say so.
taken = name in ("train-profiler", "counters-profiler")
expect("complete", info["complete"], not taken and lost == 0)
if taken:
    expect("said so", any("another CUPTI client" in r for r in info["reasons"]), True)
lines = re.findall(r"^counts (.*)", printed, re.M)
if lines and name != "script" and work:
    for what in ("kernels", "copies", "sets"):
        expect(what, info[what], sum(int(n) for line in lines for n in re.findall(what + r"=(\d+)", line)))
if name == "train-marks":
    expect("ranges", info["nvtx_ranges"], 2041)
if not work and not (name.endswith("-probes") and info["launches"]):
    faults.append("no GPU work")
print(f"{name:16} kernels {info['kernels']:7} copies {info['copies']:6} memsets {info['sets']:6} "
      f"matched {info['matched']:7} calls {info['calls']:7} pairs {info['uprobe_pairs']:7} "
      f"{'ok' if not faults else 'FAILED: ' + '; '.join(faults)}")
sys.exit(bool(faults))
