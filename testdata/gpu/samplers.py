"""The processes that sample GPU metrics: what they take, and what happens when they are killed.

Usage: samplers.py share|killed CUDATRACE OUTDIR PROGRAM [ARG...]
"""
import json
import os
import signal
import subprocess
import sys
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


recorder = subprocess.Popen([cudatrace, "record", "-q", "--no-convert", "--gpu-metrics", "-o", log, *program],
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
