"""Says how much work in the bodies of conditional.cu has its launching call. Usage: conditional.py TRACE STDOUT

Fails where work has the call of another launch, and where a shape has less joined work than is certain."""
import gzip
import json
import re
import sys

# The work of a queued launch of a graph without other nodes may be of the launch before. Without probes no wait names its stream,
# so that nothing says that the launch before has ended.
UNCERTAIN = ("bare-queued", "bare-between", "bare-two", "beside", "beside-queued")
UNCERTAIN_WITHOUT_PROBES = ("bare", "if")

path, printed = sys.argv[1], open(sys.argv[2]).read()
shape = re.search(r"conditional-(?:cupti-)?([a-z-]+)\.", path)[1]
want = [int(n) for n in re.search(r"^bodies(.*)", printed, re.M)[1].split()]
events = [e for e in json.load(gzip.open(path))["traceEvents"] if e.get("ph") == "X"]
calls = sorted((e for e in events if "GraphLaunch" in e["name"] and e["args"].get("correlation")), key=lambda e: e["ts"])
work = sorted((e for e in events if e["args"].get("graph id") and not e["name"].startswith("top")), key=lambda e: e["ts"])
got = [sum(w["args"].get("correlation") == c["args"]["correlation"] for w in work) for c in calls]
joined = sum(got)
wrong = sum(max(0, g - n) for g, n in zip(got, want))
for w in work[:12]:
    at = calls[0]["ts"] if calls else 0
    print(f"  {w['ts'] - at:10.3f} us after the first launch: {w['name']:20.20}",
          *(f"{name}={w['args'].get(name)}" for name in ("stream", "graph id", "graph node id", "correlation")))
faults = []
if len(calls) != len(want):
    faults.append(f"{len(calls)} launches, not {len(want)}")
if len(work) != sum(want):
    faults.append(f"{len(work)} pieces of body work, not {sum(want)}")
if wrong:
    faults.append(f"{wrong} have the call of another launch: {got}, not {want}")
without = UNCERTAIN_WITHOUT_PROBES if "conditional-cupti-" in path else ()
if joined < sum(want) and shape not in UNCERTAIN + without:
    faults.append(f"{sum(want) - joined} have no call: {got}, not {want}")
print(f"{shape}: {joined} of {len(work)} pieces of body work have their call, {wrong} a wrong one"
      f"{'; FAILED: ' + '; '.join(faults) if faults else ''}")
sys.exit(bool(faults))
