"""What samples and states of threads cost a program, measured inside one recording: the perf events of the recorder are switched off and on
from outside by turns, a few steps each.

Usage: samples.py SECONDS [OPTION...] -- PROGRAM [ARG...]      (needs cudatrace in PATH, root; options are those of cudatrace record)

{} in the program's arguments is the file to which it writes its steps, as for switched.py. Prints the median of a step with the events off
and on, and the median, the quartiles and the mean with its standard error of the differences, on - off, of pairs of turns beside each other.
"""
import ctypes
import fcntl
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from switched import steps

TURN_S, MARGIN_S = 0.25, 0.02
ENABLE, DISABLE = 0x2400, 0x2401  # PERF_EVENT_IOC_*
PIDFD_OPEN, PIDFD_GETFD = 434, 438
syscall = ctypes.CDLL(None, use_errno=True).syscall


def switch(pid, on):
    """Switches all perf events of a process. Returns their number. None is kept, since that would keep it alive."""
    pidfd, count = syscall(PIDFD_OPEN, pid, 0), 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if "perf_event" not in os.readlink(f"/proc/{pid}/fd/{fd}"):
                continue
        except FileNotFoundError:  # closed meanwhile
            continue
        if (mine := syscall(PIDFD_GETFD, pidfd, int(fd), 0)) < 0:
            continue
        fcntl.ioctl(mine, ENABLE if on else DISABLE, 0)
        os.close(mine)
        count += 1
    os.close(pidfd)
    return count


def main():
    at = sys.argv.index("--")
    seconds, options, words = float(sys.argv[1]), sys.argv[2:at], sys.argv[at + 1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "steps")
        command = ["cudatrace", "record", "-q", "--no-convert", "-o", os.path.join(folder, "log"), *options]
        recorder = subprocess.Popen([*command, "--", *(w.replace("{}", path) for w in words)], stdout=subprocess.DEVNULL)
        turns = []
        try:
            while not os.path.exists(path) or len(steps(path, 0, time.monotonic_ns())) < 20:
                if recorder.poll() is not None:
                    sys.exit(f"the program ended with {recorder.returncode}")
                time.sleep(0.1)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for on in random.sample((False, True), 2):
                    count = switch(recorder.pid, on)
                    begun = time.monotonic()
                    time.sleep(TURN_S)
                    turns.append((on, int((begun + MARGIN_S) * 1e9), time.monotonic_ns()))
            if not count:
                sys.exit("the recorder has no perf events: nothing was measured")
            found = [(on, steps(path, begin, end)) for on, begin, end in turns]
        finally:
            subprocess.run(["pkill", "-9", "-P", str(recorder.pid), "-f", path])
            recorder.wait()
        recorded = subprocess.run(["cudatrace", "info", os.path.join(folder, "log.cudatrace")], capture_output=True, text=True)
    pairs = [{on: statistics.median(lengths) for on, lengths in found[i:i + 2]} for i in range(0, len(found) - 1, 2) if found[i][1] and found[i + 1][1]]
    more = [pair[True] - pair[False] for pair in pairs]
    low, middle, high = statistics.quantiles(more, n=4)
    off = statistics.median(pair[False] for pair in pairs)
    error = statistics.stdev(more) / len(more) ** 0.5
    print(f"a step: {off:.3f} ms without samples and states, {statistics.median(pair[True] for pair in pairs):.3f} ms with them; {count} threads, {len(pairs)} pairs")
    print(f"difference: {middle:+.4f} ms (quartiles {low:+.4f}, {high:+.4f}), {middle / off:+.2%}; mean {statistics.mean(more):+.4f} +- {error:.4f} ms, {statistics.mean(more) / off:+.2%}")
    print("\n".join(line for line in (recorded.stdout + recorded.stderr).splitlines() if "sample" in line or "state" in line or "lost" in line))


if __name__ == "__main__":
    main()
