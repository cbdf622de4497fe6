"""The processes that sample GPU metrics: what they take, and what happens when they are killed.

Usage: samplers.py share|killed|cost CUDATRACE OUTDIR PROGRAM [ARG...]

share: their share of a core. killed: both are killed while the program runs.
cost: what the sampler of NVML and GPM costs the program, which prints its windows (metrics SECONDS launches, train.py STEPS windows).
The sampler is stopped and continued in turns of half a second, in random order.
"""
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

mode, cudatrace, out, program = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
log = f"{out}/samplers-{mode}.cudatrace"


def stat(pid):
    """Fields of /proc/PID/stat from the parent's PID on; none of a process that has ended."""
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    except OSError:
        return None


def samplers(recorder):
    """The recorder's samplers by what they sample: NVML and GPM, or the counters by PM sampling."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = stat(pid)
        if fields and int(fields[1]) == recorder and open(f"/proc/{pid}/comm").read().strip() == "cudatrace-gpu":
            found["PM" if open(f"/proc/{pid}/cmdline").read().count("\0") > 1 else "NVML, GPM"] = int(pid)
    return found


def processor_time(pid):
    """In ns, of all threads."""
    return sum(int(open(f"/proc/{pid}/task/{tid}/schedstat").read().split()[0]) for tid in os.listdir(f"/proc/{pid}/task"))


def take_turns(recorder, sampler):
    """Stops and continues the sampler until the program has said all. Returns the turns, (time in ns, runs), and its output."""
    order, turns, output = random.Random(1), [], []
    reader = threading.Thread(target=lambda: output.append(recorder.stdout.read()))
    reader.start()
    try:
        while reader.is_alive():
            for runs in order.sample([True, False], 2):
                os.kill(sampler, signal.SIGCONT if runs else signal.SIGSTOP)
                turns.append((time.monotonic_ns(), runs))
                reader.join(0.5)
        os.kill(sampler, signal.SIGCONT)
    except ProcessLookupError:  # it ends with the recording
        reader.join()
    return turns, output[0]


def cost(turns, output):
    """The median ratio of neighbouring turns, the sampler running against stopped, and its 5 % and 95 % points."""
    windows = [tuple(map(int, w)) for w in re.findall(r"window start=(\d+) end=(\d+) count=(\d+)", output)]
    means = []
    for (start, _), (end, _) in zip(turns, turns[1:]):
        inside = [w for w in windows if w[0] >= start + 20e6 and w[1] <= end]
        means.append(statistics.mean((w[1] - w[0]) / w[2] for w in inside) if inside else None)
    ratios = []
    for i in range(0, len(means) - 1, 2):
        if means[i] and means[i + 1]:
            ratios.append(means[i] / means[i + 1] if turns[i][1] else means[i + 1] / means[i])
    drawn = random.Random(2)
    medians = sorted(statistics.median(drawn.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.4f} ({medians[100]:.4f}..{medians[1900]:.4f}), {len(ratios)} pairs of turns"


flags = [] if mode == "cost" else ["--gpu-metrics"]
recorder = subprocess.Popen([cudatrace, "record", "-q", "--no-convert", *flags, "-o", log, *program],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
recorder.stdout.readline()  # the program is at work: its GPU is known
failed = 0
if mode == "share":
    time.sleep(4)
    found = samplers(recorder.pid)
    failed += len(found) != 2
    before, start = {what: processor_time(pid) for what, pid in found.items()}, time.monotonic()
    time.sleep(20)
    for what, pid in found.items():
        print(f"sampler of {what}: {(processor_time(pid) - before[what]) / 1e7 / (time.monotonic() - start):.2f} % of a core")
elif mode == "cost":
    time.sleep(2)
    found = samplers(recorder.pid)
    failed += list(found) != ["NVML, GPM"]
    print("program's time with the sampler of NVML and GPM, of that without:", cost(*take_turns(recorder, found["NVML, GPM"])))
else:
    time.sleep(3)
    found = samplers(recorder.pid)
    failed += len(found) != 2
    for pid in found.values():
        os.kill(pid, signal.SIGKILL)
stdout, stderr = recorder.communicate()
print(stderr, end="")
failed += recorder.returncode != 0
info = json.loads(subprocess.run([cudatrace, "info", "--format", "json", log], check=True, stdout=subprocess.PIPE).stdout)
work = info["kernels"] + info["copies"] + info["sets"]
failed += info["matched"] != work or not work
if mode == "killed":
    failed += not ("the sampler of GPU metrics has failed" in stderr and "the sampler of PM sampling has failed" in stderr)
    failed += not info["lost"].get("gpu_metrics")
print(f"samplers, {mode}: exit code {recorder.returncode}, {info['matched']} of {work} pieces of work matched, lost {info['lost']}:",
      "FAILED" if failed else "ok")
sys.exit(failed != 0)
