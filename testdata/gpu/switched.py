"""What recording costs a program, measured inside one process: recording begins and ends again and again while it runs, and its steps are
compared with those between recordings. Runs of their own differ by more than what is measured, since a machine's processors are not alike.

Usage: switched.py ROUNDS OPTIONS... -- PROGRAM [ARG...]      (needs cudatrace in PATH, root)

Each OPTIONS is a set of options of cudatrace record in one argument ('' for none), used by turns on one armed program; or nsys, or torch, alone:
nsys profiles in a session, and torch has the program start and stop PyTorch's profiler (SIGUSR1, SIGUSR2; steps.py). {} in the program's arguments is
the file to which it writes its steps: a number of them, then the beginning and the end of each, uint64 of CLOCK_MONOTONIC (steps.py).
Prints for each set the median step, and medians and quartiles of how it compares with the steps before it and with the first set of its round.
"""
import os
import random
import shlex
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
SECONDS, PLAIN_S, MARGIN_S = 1.5, 0.7, 0.15  # of a recording, between recordings, and what is left out at both ends


def steps(path, begin, end):
    """The lengths of the steps between two times, ms."""
    with open(path, "rb") as f:
        data = f.read()
    (count,) = struct.unpack_from("Q", data)
    pairs = struct.iter_unpack("QQ", data[8:8 + 16 * count])
    return [(b - a) / 1e6 for a, b in pairs if a >= begin and b <= end]


def called(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")


def armed(pid, options, folder):
    """Records for some seconds. Returns when recording began."""
    words = ["cudatrace", "record", "--no-convert", "-p", str(pid), "-d", f"{SECONDS}s", "-o", os.path.join(folder, "log"), *shlex.split(options)]
    recorder = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said, began = "", None
    for line in recorder.stderr:
        said += line
        if "recording the calls" in line and began is None:
            began = time.monotonic_ns()
    if recorder.wait() != 0 or began is None:
        sys.exit(f"{' '.join(words)}: exit code {recorder.returncode}\n{said}")
    return began


def nsys(pid, options, folder):
    called(find_nsys(), "start", "--session=switched", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "-o", os.path.join(folder, "report"))
    began = time.monotonic_ns()
    time.sleep(SECONDS)
    called(find_nsys(), "stop", "--session=switched")
    return began


def torch(pid, options, folder):
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.3)
    began = time.monotonic_ns()
    time.sleep(SECONDS)
    os.kill(pid, signal.SIGUSR2)
    time.sleep(0.8)  # the program reads its records
    return began


def find_nsys():
    import machine
    return machine.find_nsys() or sys.exit("there is no nsys")


def main():
    at = sys.argv.index("--")
    rounds, sets, words = max(int(sys.argv[1]), 2), sys.argv[2:at], sys.argv[at + 1:]
    window, before = {"nsys": (nsys, lambda: [find_nsys(), "launch", "--trace=cuda", "--session-new=switched"]),
                      "torch": (torch, lambda: [])}.get(sets[0], (armed, lambda: ["cudatrace", "run", "--armed"]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "steps")
        program = subprocess.Popen([*before(), *(w.replace("{}", path) for w in words)], stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            while not os.path.exists(path) or not steps(path, 0, time.monotonic_ns()):
                if program.poll() is not None:
                    sys.exit(f"the program ended with {program.returncode}")
                time.sleep(0.1)
            time.sleep(2)
            window(program.pid, sets[0], folder)  # CUPTI starts
            found = []  # of each round, (before it, with it) of each set
            for _ in range(rounds):
                one = {}
                for i in random.sample(range(len(sets)), len(sets)):
                    time.sleep(MARGIN_S)
                    begun = time.monotonic_ns()
                    time.sleep(PLAIN_S)
                    plain = statistics.median(steps(path, begun, time.monotonic_ns()))
                    begun = window(program.pid, sets[i], folder)
                    lengths = steps(path, begun + int(MARGIN_S * 1e9), begun + int((SECONDS - MARGIN_S) * 1e9))
                    one[i] = plain, statistics.median(lengths)
                found.append(one)
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    for i, options in enumerate(sets):
        shares = [one[i][1] / one[i][0] for one in found]
        low, middle, high = statistics.quantiles(shares, n=4)
        print(f"'{options}': a step of {statistics.median(one[i][1] for one in found):.3f} ms, {statistics.median(one[i][0] for one in found):.3f} before it; "
              f"x {middle:.3f} ({low:.3f}..{high:.3f}), keeps {1 / middle:.0%} of the speed ({1 / high:.0%}..{1 / low:.0%}), {len(found)} rounds")
        if i:
            low, middle, high = statistics.quantiles([one[i][1] - one[0][1] for one in found], n=4)
            print(f"  beyond '{sets[0]}': {middle:+.3f} ms ({low:+.3f}..{high:+.3f})")


if __name__ == "__main__":
    main()
