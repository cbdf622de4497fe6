"""What an option of cudatrace record costs a program, measured inside one process: an armed program is recorded again and again, by turns
with one set of options and with another.

Usage: switched.py ROUNDS 'OPTIONS A' 'OPTIONS B' -- PROGRAM [ARG...]      (needs cudatrace in PATH, root)

{} in the program's arguments is the file to which it writes its steps: a number of them, then the beginning and the end of each, uint64
of CLOCK_MONOTONIC (steps.py). Prints the medians of a step with A and with B, and the median and the quartiles of their differences, B - A,
of one round each; and the same of steps without a recording.
"""
import os
import random
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SECONDS, MARGIN_S = 1.5, 0.15  # of a recording, and what is left out at both of its ends


def steps(path, begin, end):
    """The lengths of the steps between two times, ms."""
    with open(path, "rb") as f:
        data = f.read()
    (count,) = struct.unpack_from("Q", data)
    pairs = struct.iter_unpack("QQ", data[8:8 + 16 * count])
    return [(b - a) / 1e6 for a, b in pairs if a >= begin and b <= end]


def window(pid, options, folder):
    """Records for some seconds. Returns when recording began and ended."""
    words = ["cudatrace", "record", "--no-convert", "-p", str(pid), "-d", f"{SECONDS}s", "-o", os.path.join(folder, "log"), *shlex.split(options)]
    recorder = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said, began = "", None
    for line in recorder.stderr:
        said += line
        if "recording the calls" in line and began is None:
            began = time.monotonic_ns()
    if recorder.wait() != 0 or began is None:
        sys.exit(f"{' '.join(words)}: exit code {recorder.returncode}\n{said}")
    return began + int(MARGIN_S * 1e9), began + int((SECONDS - MARGIN_S) * 1e9)


def main():
    at = sys.argv.index("--")
    rounds, sets, words = int(sys.argv[1]), sys.argv[2:4], sys.argv[at + 1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "steps")
        program = subprocess.Popen(["cudatrace", "run", "--armed", *(w.replace("{}", path) for w in words)], stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(path) or not steps(path, 0, time.monotonic_ns()):
                if program.poll() is not None:
                    sys.exit(f"the program ended with {program.returncode}")
                time.sleep(0.1)
            time.sleep(2)
            window(program.pid, "", folder)  # CUPTI starts
            found, plain = [], []
            for _ in range(rounds):
                one = {}
                for i in random.sample((0, 1), 2):
                    one[i] = statistics.median(steps(path, *window(program.pid, sets[i], folder)))
                found.append(one)
                begin = time.monotonic_ns()
                time.sleep(0.5)
                plain.append(statistics.median(steps(path, begin, time.monotonic_ns())))
        finally:
            program.kill()
            program.wait()
    more = [one[1] - one[0] for one in found]
    low, _, high = statistics.quantiles(more, n=4)
    middle = [statistics.median(one[i] for one in found) for i in (0, 1)]
    print(f"a step: {middle[0]:.3f} ms with '{sets[0]}', {middle[1]:.3f} ms with '{sets[1]}', {statistics.median(plain):.3f} ms between recordings")
    print(f"difference: {statistics.median(more):+.3f} ms (quartiles {low:+.3f}, {high:+.3f}), {statistics.median(more) / middle[0]:+.2%}, of {rounds} rounds")


if __name__ == "__main__":
    main()
