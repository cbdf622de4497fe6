"""One program under one variant: from its start to the last file."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

import child
import variants
from program import Channel, Failed, Program, last_lines

# Seconds after which a step is given up.
READY_S, INIT_S, LOOP_S, ATTACH_S, FINISH_S = 60, 60, 45, 20, 45
# A recorder has caught up when it took less than a tenth of one core for this long; seconds.
SETTLE_STEP, SETTLE_MOST = 0.01, 0.2


class Session:
    """A run of some workloads of one program. self.run has the results, ready for JSON."""

    def __init__(self, setting, variant, program, works, number, whole):
        self.setting, self.variant, self.works = setting, variant, works
        self.run = {"variant": variant.name, "program": program, "workloads": [w.name for w in works], "round": number,
                    "whole": whole, "parts": [], "files": {}, "error": None, "notes": []}
        self.folder = os.path.join(setting.scratch, f"{number}-{variant.name}-{''.join(w.name for w in works)}")
        os.makedirs(self.folder)
        self.out = os.path.join(self.folder, "trace")
        self.channel = Channel(self.folder)
        self.words = setting.programs[program] + self.channel.paths
        self.whole = whole
        self.turns = 0  # that it has had
        self.program = None
        self.tracer = None
        self.recorder = None  # PID of the process whose CPU time is the tracer's

    def places(self, pid=""):
        return {**self.setting.places, "out": self.out, "pid": str(pid), "cupti": self.setting.cupti,
                "convert": "" if self.whole else "--no-convert"}

    def start(self):
        """Starts the command; the program waits for its turn."""
        env, words = {}, self.words
        if self.variant.kind == variants.RUN:
            env, words = variants.command(self.variant, self.places(), self.words)
        try:
            self.program = Program(words, {**self.setting.env, **env}, self.folder, self.channel)
        except OSError as error:
            self.run["error"] = f"{words[0]}: {error.strerror}"

    def measure(self, step):
        """Takes a step of the measurement: begin, turn or finish."""
        began = child.monotonic()
        self.guarded(step)
        self.run["measured_s"] = self.run.get("measured_s", 0) + child.monotonic() - began

    def guarded(self, step):
        """Takes a step unless an earlier step failed. run["error"] has the reason of a failure."""
        if self.run["error"] is not None:
            return
        try:
            step()
        except Failed as error:
            self.run["error"] = str(error)
        except OSError as error:
            self.run["error"] = f"{error.filename or 'a pipe to the program'}: {error.strerror}"

    def ready(self):
        """Waits until the program has started and can begin."""
        self.guarded(self.wait_ready)

    def wait_ready(self):
        ready = self.program.ready(READY_S)
        self.run["start_s"] = ready["start_s"]
        self.run["torch"] = ready.get("torch")

    def begin(self):
        """Has the program prepare its loops."""
        began = child.monotonic()
        init = self.program.ask("init " + " ".join(w.name for w in self.works), "init", INIT_S)
        self.run["init_s"] = child.monotonic() - began
        self.run["first_s"] = init["first_ns"] / 1e9
        if self.variant.setup:
            path = os.path.join(self.folder, "profile.json") if self.whole else ""
            self.program.channel.send(f"{self.variant.setup} {path}")
        if self.variant.kind == variants.RUN:
            self.recorder = self.program.proc.pid
            self.run["recorder_cpu_before_s"] = self.recorder_cpu() / 1e9

    def turn(self):
        """Runs each loop once more."""
        if self.variant.kind == variants.RUN:
            self.every_loop("")
        else:
            self.attached_loops()
        self.turns += 1

    def every_loop(self, phase):
        for work in self.works:
            line = f"run {work.name} {self.setting.count(work, self.whole)} {self.setting.arg(work)}"
            before = self.recorder_cpu()
            part = self.program.ask(line, "part", LOOP_S)
            part["phase"], part["turn"] = phase, self.turns
            self.settle()
            if self.traced():
                part["recorder_cpu_ns"] = self.recorder_cpu() - before
            self.run["parts"].append(part)

    def settle(self):
        """Gives the tracer time to catch up, so that its work for one loop does not count for the next."""
        if not self.traced():
            time.sleep(SETTLE_STEP)
            return
        until, last = child.monotonic() + SETTLE_MOST, self.recorder_cpu()
        while child.monotonic() < until:
            time.sleep(SETTLE_STEP)
            now = self.recorder_cpu()
            if now - last < SETTLE_STEP * 1e8:
                return
            last = now

    def recorder_cpu(self):
        """CPU time of the recorder, ns; 0 without a recorder to measure."""
        return child.cpu_ns(self.recorder) or 0 if self.traced() else 0

    def traced(self):
        """Whether there is a recorder whose CPU time can be measured."""
        return bool(self.variant.log) and self.recorder is not None and self.recorder != self.program.pid

    def attached_loops(self):
        self.every_loop(variants.BEFORE)
        self.attach()
        self.every_loop("")
        self.detach()
        self.every_loop(variants.AFTER)

    def attach(self):
        env, words = variants.command(self.variant, self.places(self.program.pid), [])
        path = os.path.join(self.folder, "tracer")
        began = child.monotonic()
        with open(path, "wb") as f:
            self.tracer = child.start(words, {**os.environ, **self.setting.env, **env}, f, f)
        while self.variant.ready not in contents(path):
            if self.tracer.poll() is not None:
                raise Failed(f"the tracer could not attach: {last_lines(path)}")
            if child.monotonic() - began > ATTACH_S:
                raise Failed(f"not attached within {ATTACH_S} s: {last_lines(path)}")
            time.sleep(0.005)
        self.run["attach_s"] = child.monotonic() - began
        self.recorder = self.tracer.pid

    def detach(self):
        began = child.monotonic()
        self.run["recorder_cpu_s"] = (child.cpu_ns(self.recorder) or 0) / 1e9
        self.tracer.send_signal(signal.SIGINT)
        try:
            code = self.tracer.wait(FINISH_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"not detached within {FINISH_S} s") from None
        self.run["detach_s"] = child.monotonic() - began
        self.recorder = None
        if code != 0:
            raise Failed(f"detached with exit code {code}: {last_lines(os.path.join(self.folder, 'tracer'))}")

    def finish(self):
        """Ends the program and waits until the last file is there."""
        bye = self.program.ask("quit", "bye", LOOP_S)["t"] / 1e9
        proc, until = self.program.proc, child.monotonic() + FINISH_S
        log = self.out + self.variant.log if self.variant.log and self.variant.kind == variants.RUN else None
        exited = logged = cpu = None
        while proc.poll() is None:
            if child.monotonic() > until:
                self.late()
            if exited is None and self.program.ended:
                exited = child.monotonic()
            if self.traced() and logged is None:
                cpu = self.recorder_cpu() or cpu
            if log and logged is None and os.path.exists(log):
                logged = child.monotonic()
            time.sleep(0.002)
        done = child.monotonic()
        self.times(bye, exited or done, logged or done, done)
        if cpu is not None:
            self.run["recorder_cpu_s"] = cpu / 1e9
        self.exit(proc.returncode)

    def late(self):
        """Handles files that take too long: a failure, unless the variant may fail after its loops."""
        text = f"not finished {FINISH_S} s after the program's end: {self.program.said()}"
        if not self.variant.may_fail:
            raise Failed(text)
        self.run["notes"].append(text)
        child.stop_tree(self.program.proc)

    def times(self, bye, exited, logged, done):
        self.run["exit_s"] = exited - bye
        self.run["log_s"] = logged - bye
        self.run["done_s"] = done - bye

    def exit(self, code):
        self.run["exit"] = code
        if code != 0 and not self.variant.may_fail:
            raise Failed(f"exit code {code}: {self.program.said()}")
        if code != 0:
            self.run["notes"].append(f"exit code {code}: {self.program.said()}")

    def collect(self):
        """Collects the sizes of the files and the summary of the log."""
        self.guarded(self.look_at_files)

    def look_at_files(self):
        for suffix in self.variant.files:
            if os.path.exists(self.out + suffix):
                self.run["files"][suffix] = os.path.getsize(self.out + suffix)
        if ".bytes" in self.variant.files:
            if not int(contents(self.out + ".bytes") or 0):
                raise Failed(f"CUPTI recorded nothing: {self.program.said()}")
        elif self.variant.log:
            self.look_into_log()

    def look_into_log(self):
        log = self.out + self.variant.log
        if not os.path.exists(log):
            left = "".join(f", but {os.path.basename(path)}" for path in glob.glob(self.out + "*"))
            raise Failed(f"there is no log{left}: {self.program.said()}")
        words = [self.setting.places["cudatrace"], "info", log, "--format", "json"]
        try:
            info = json.loads(subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60).stdout)
        except (subprocess.TimeoutExpired, ValueError, OSError) as error:
            raise Failed(f"cudatrace info cannot read the log: {error}") from None
        keep = ("kernels", "copies", "sets", "graphs", "calls", "launches", "uprobe_pairs", "unprobed", "unmatched",
                "lost", "complete", "reasons", "cupti_version", "driver_version", "gpus", "notes")
        self.run["info"] = {k: info[k] for k in keep if k in info}

    def close(self):
        if self.tracer is not None:
            child.stop_tree(self.tracer)
        if self.program is not None:
            self.program.close()
        else:
            self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def contents(path):
    """The text of a file; "" while there is none."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""
