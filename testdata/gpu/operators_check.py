"""Holds the operators of a recording of operators.py against what torch.profiler saw of the same loop in another process.

usage: operators_check.py CUDATRACE LOG STEPS PROFILE: STEPS is what the recorded one has printed. Of 3 steps, each launch of
each thread is compared with the profiler's: the operators that it was made in, and of backward ones the forward operator.
Exits with 1 where one differs or lacks its Python line.
"""
import bisect
import json
import subprocess
import sys

STEPS = 3
WORK = ("LaunchKernel", "Memcpy", "Memset")


def recorded(cudatrace, log, steps, pid=None):
    """The launches of 3 steps of the recording, by thread: operators, forward operator, whether there is a line. Of one
    process alone where there are several."""
    kinds = "api,operator_stack"
    run = subprocess.run([cudatrace, "dump", log, "--format", "ndjson", "--kind", kinds], capture_output=True, text=True, check=True)
    records = [json.loads(line) for line in run.stdout.splitlines()]
    operators = {r["id"]: r for r in records if r["kind"] == "operator_stack"}
    with open(steps) as f:
        times = [tuple(map(int, line.split())) for line in f if line.replace(" ", "").strip().isdigit()]
    begin, end = times[-STEPS - 1][0], sum(times[-2])
    threads = {}
    for r in sorted((r for r in records if r["kind"] == "api"), key=lambda r: r["start"]):
        if not begin <= r["start"] <= end or not any(w in r["name"] for w in WORK):
            continue
        if pid and r["pid"] != pid:
            continue
        names, made, number = [], None, r.get("operators", 0)
        while number:
            o = operators[number]
            names.append(o["name"])
            if made is None and o.get("forward"):
                made = operators[o["forward"]]["name"]
            number = o["parent"]
        threads.setdefault(r["tid"], []).append((names, made, bool(r.get("python"))))
    return threads


def profiled(path):
    """The same of torch.profiler's trace."""
    with open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    spans, made, threads = {}, {}, {}
    for e in events:
        if e.get("cat") in ("cpu_op", "user_annotation"):
            spans.setdefault(e["tid"], []).append(e)
    for list_ in spans.values():
        list_.sort(key=lambda e: (e["ts"], -e["dur"]))
        for e in list_:
            args = e["args"]
            if args.get("Sequence number", -1) >= 0 and args.get("Fwd thread id", 0) == 0:
                made[args["Sequence number"]] = e["name"]  # the one that began last made the node
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and any(w in e["name"] for w in WORK)]
    for c in sorted(calls, key=lambda e: e["ts"]):
        all_ = spans.get(c["tid"], [])
        before = all_[: bisect.bisect([e["ts"] for e in all_], c["ts"])]
        around = [e for e in reversed(before) if e["ts"] + e["dur"] >= c["ts"]]
        nodes = [e for e in around if e["args"].get("Fwd thread id", 0)]
        if not nodes and around and around[-1]["name"].startswith("autograd::engine"):  # behind its node
            nodes = [e for e in reversed(before) if e["ts"] > around[-1]["ts"] and e["args"].get("Fwd thread id", 0)]
        forward = made.get(nodes[0]["args"]["Sequence number"]) if nodes else None
        threads.setdefault(c["tid"], []).append(([e["name"] for e in around], forward))
    return threads


def main():
    ours, theirs = recorded(*sys.argv[1:4]), profiled(sys.argv[4])
    order = lambda threads: sorted(threads.values(), key=len)
    count = differ = forward = unlinked = lines = 0
    for a, b in zip(order(ours), order(theirs)):
        if len(a) != len(b):
            print(f"a thread has {len(a)} launches, in the profile {len(b)}")
            differ += abs(len(a) - len(b))
        for (names, made, line), (wanted, from_) in zip(a, b):
            count += 1
            lines += line
            forward += from_ is not None
            if names != wanted:
                differ += 1
                if differ < 5:
                    print("  recorded", names, "profiled", wanted)
            if made != from_:
                unlinked += 1
                if unlinked < 5:
                    print("  forward: recorded", made, "profiled", from_, "in", names)
    print(f"{count} launches of {STEPS} steps: operators of {differ} differ; {forward} have a forward operator, {unlinked} differ; "
          f"{lines} have a Python line")
    return count == 0 or differ or unlinked or lines < count


if __name__ == "__main__":
    sys.exit(main())
