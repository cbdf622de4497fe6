#!/usr/bin/env python3
"""Records a program with every way to end, and compares each log with the program's counts.

Usage: exits.py CUDATRACE EXITS OUTDIR [-n KERNELS] [MODE...]     (root, for probes)

EXITS is exits.cu built with nvcc, or the program of that name on the simulated stack. Each
mode runs twice, alone and recorded; exit code and output must be equal. Prints a table in
Markdown and exits with 1 when a row is wrong.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

MODES = ["return", "exit", "_exit", "quick-exit", "abort", "segv", "int", "term", "hup", "kill",
         "exception", "exec", "thread-exit", "fork-child", "daemon", "device-reset", "hang"]
OWN = ["int", "term", "hup", "segv", "abort"]  # also with handlers of the program's own


def status(code):
    """The status as a shell shows it."""
    return 128 - code if code < 0 else code


def plain(command):
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    line = ""
    if "hang" in command:
        line = p.stdout.readline()
        time.sleep(2)
        os.killpg(p.pid, signal.SIGINT)
    out, _ = p.communicate(timeout=120)
    return status(p.returncode), line + out


def recorded(cudatrace, base, command, flags):
    began = time.monotonic()
    p = subprocess.Popen([cudatrace, "record", "--no-convert", "-o", base, *flags, *command],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    line = ""
    if "hang" in command:
        line = p.stdout.readline()
        time.sleep(3)
        os.killpg(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=120)
    open(base + ".stderr", "w").write(err)
    return status(p.returncode), line + out, time.monotonic() - began


def counts(text):
    found = re.findall(r"kernels=(\d+)", text)
    return sum(int(n) for n in found)


def row(cudatrace, exits, folder, n, mode, flags=(), extra=()):
    name = mode + "".join(extra) + "".join(flags).replace("--calls", "-")
    command = [exits, mode, "-n", str(n), "-c", "7", *extra]
    faults = []
    code, out = plain(command)
    base = f"{folder}/exit-{name}"
    got, printed, took = recorded(cudatrace, base, command, flags)
    info = json.loads(subprocess.run([cudatrace, "info", "--format", "json", base + ".cudatrace"],
                                     stdout=subprocess.PIPE).stdout)
    if got != code:
        faults.append(f"exit code {got}, by itself {code}")
    if printed != out:
        faults.append("it printed something else")
    launched = counts(out)
    unasked = bool(flags) and mode in ("_exit", "exec")  # nothing notices these without a breakpoint
    partial = mode == "kill" or unasked
    if info["launches"] != launched and not unasked:
        faults.append(f"{info['launches']} launches of {launched}")
    if info["kernels"] != launched and not partial:
        faults.append(f"{info['kernels']} kernels")
    if info["unmatched"] and not partial or info["early"]:
        faults.append(f"{info['unmatched']} unmatched, {info['early']} early")
    if info["complete"] != (not partial and mode != "hang"):
        faults.append(f"complete {info['complete']}")
    if mode == "hang" and info["unfinished_calls"] != 1:
        faults.append(f"{info['unfinished_calls']} unfinished calls")
    verdict = "ok" if not faults else "**" + "; ".join(faults) + "**"
    said = "; ".join(info["reasons"]) or "complete"
    print(f"| {name} | {got} | {launched} | {info['launches']} | {info['kernels']} | {info['unfinished_calls']} | {took:.1f} | {said} | {verdict} |", flush=True)
    return not faults


def main():
    args = sys.argv[1:]
    n = 100000
    if "-n" in args:
        i = args.index("-n")
        n = int(args[i + 1])
        del args[i:i + 2]
    if len(args) < 3:
        sys.exit(__doc__)
    cudatrace, exits, folder = (os.path.abspath(a) for a in args[:3])
    os.makedirs(folder, exist_ok=True)
    print("| end | exit code | launched | calls in the log | kernels in the log | unfinished calls | s | what the log says | |")
    print("|---|---|---|---|---|---|---|---|---|")
    good = True
    jobs = [(m, (), ()) for m in args[3:] or MODES]
    if not args[3:]:
        jobs += [(m, (), (h,)) for m in OWN for h in ("--handlers", "--handlers-late")]
        jobs += [(m, ("--calls", "cupti"), ()) for m in MODES if m not in ("kill", "hang")]
        jobs += [(m, (), ("--group",)) for m in ("int", "term", "hup")]
    for mode, flags, extra in jobs:
        try:
            good = row(cudatrace, exits, folder, n, mode, flags, extra) and good
        except (OSError, ValueError, subprocess.TimeoutExpired) as e:
            good = False
            print(f"| {mode} {' '.join(flags + extra)} | | | | | | | | **{e}** |", flush=True)
    sys.exit(not good)


main()
