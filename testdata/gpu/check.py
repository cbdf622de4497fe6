"""Holds one recording against its program. Usage: check.py NAME DIR PLAIN_EXIT EXIT"""
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
expect("matched", info["matched"], work)
expect("early", info["early"], 0)
expect("lost", sum(info["lost"].values()), 0)
expect("complete", info["complete"], True)
expect("unprobed", info["unprobed"], 0)
expect("API records joined", info["api_records_joined"], info["api_records"])
counts = dict(re.findall(r"(kernels|copies|sets)=(\d+)", printed))
for what, n in counts.items():
    expect(what, info[what], int(n))
if not work:
    faults.append("no GPU work")
print(f"{name:16} kernels {info['kernels']:7} copies {info['copies']:6} sets {info['sets']:6} "
      f"matched {info['matched']:7} calls {info['calls']:7} pairs {info['uprobe_pairs']:7} "
      f"{'ok' if not faults else 'FAILED: ' + '; '.join(faults)}")
sys.exit(bool(faults))
