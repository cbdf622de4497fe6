"""Compares a Chrome trace of occupancy.cu with what CUDA told that program. Usage: occupancy.py TRACE STDOUT"""
import gzip
import json
import re
import sys

trace = json.load(gzip.open(sys.argv[1]))
printed = open(sys.argv[2]).read()
faults = 0


def compare(what, got, want):
    global faults
    if got != want:
        faults += 1
        if faults <= 20:
            print(f"{what}: {got}, CUDA says {want}")


for name, value in re.findall(r"^device (\w+)=(\d+)", printed, re.M):
    compare(name, trace["deviceProperties"][0].get(name), int(value))
kernels = sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: e["ts"])
launches = re.findall(r"^launch blocks=(\d+) (.*)", printed, re.M)
compare("kernels", len(kernels), len(launches))
for kernel, (blocks, shape) in zip(kernels, launches):
    occupancy = kernel["args"].get("occupancy", {})
    compare(shape, occupancy.get("activeBlocksPerMultiprocessor", 0), int(blocks))
print(f"occupancy: {len(launches)} launches, {faults} differ from CUDA")
sys.exit(faults != 0 or not launches)
