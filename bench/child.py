"""Processes: starting them, looking at them in /proc, ending them."""
import ctypes
import os
import select
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes orphaned grandchildren our own children, so that stop_all finds them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(words, env, stderr, stdout):
    """Starts a command in a new session, without input. SIGINT ends the command, even if a script runs us with &."""
    return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def parents():
    """The parent of each process."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as f:
                    table[int(name)] = int(f.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                pass  # it has ended
    return table


def descendants(pid):
    """Every process below pid."""
    table = parents()
    found, last = set(), {pid}
    while last:
        last = {p for p, parent in table.items() if parent in last and p not in found}
        found |= last
    return found


def signalled(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def stop_tree(proc):
    """Ends a command and all processes that it started."""
    if proc.poll() is None:
        for pid in descendants(proc.pid) | {proc.pid}:
            signalled(pid, signal.SIGKILL)
    proc.wait()


def stop_all():
    """Ends all processes that we started."""
    for _ in range(3):
        for pid in descendants(os.getpid()):
            signalled(pid, signal.SIGKILL)
        reap()


def reap():
    """Collects orphans that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


class Ended:
    """True once a process has ended, which need not be our child."""

    def __init__(self, pid):
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.fd = None

    def __bool__(self):
        if self.fd is None:
            return True
        if not select.select([self.fd], [], [], 0)[0]:
            return False
        os.close(self.fd)
        self.fd = None
        return True


def monotonic():
    """Seconds of CLOCK_MONOTONIC, which the programs report in ns."""
    return time.monotonic_ns() / 1e9
