"""One program under one variant: from its start to the last file."""
import json
import os
import shutil
import signal
import subprocess
import time

import child
import rows
from program import Channel, Failed, Program, last_lines

# Seconds after which a step is given up.
READY_S, INIT_S, LOOP_S, ATTACH_S, FINISH_S = 60, 60, 45, 20, 45
SETTLE_S = 0.01  # for a tracer to finish with a turn


class Session:
    """A run of some workloads of one program. self.run has the results, ready for JSON."""

    def __init__(self, setting, variant, program, works, number):
        self.setting, self.variant, self.works, self.turns = setting, variant, works, 0
        self.run = {"variant": variant.name, "program": program, "workloads": [w.name for w in works], "round": number,
                    "parts": [], "error": None}
        self.folder = os.path.join(setting.scratch, f"{number}-{program}-{variant.name}")
        os.makedirs(self.folder)
        self.out = os.path.join(self.folder, "trace")
        self.channel = Channel(self.folder)
        self.program = self.tracer = None

    def step(self, step):
        """Takes a step unless an earlier one failed. run["error"] has the reason of a failure."""
        if self.run["error"] is not None:
            return
        try:
            step(self)
        except Failed as error:
            self.run["error"] = str(error)
        except OSError as error:
            self.run["error"] = f"{error.filename or 'a pipe to the program'}: {error.strerror}"

    def places(self, pid=""):
        return {**self.setting.places, "out": self.out, "pid": str(pid)}

    def start(self):
        """Starts the command; the program waits for its turn."""
        words = self.setting.programs[self.run["program"]] + self.channel.paths
        command = self.variant.before if self.variant.attaches else self.variant.command
        env, words = rows.filled(command, self.places(), words)
        self.program = Program(words, {**self.setting.env, **env}, self.folder, self.channel)

    def begin(self):
        """Has the program prepare its loops."""
        self.run["torch"] = self.program.ready(READY_S).get("torch")
        init = self.program.ask("init " + " ".join(w.name for w in self.works), "init", INIT_S)
        self.run["first_s"] = init["first_ns"] / 1e9
        if self.variant.setup:
            self.program.channel.send(self.variant.setup)
        if self.variant.attaches:
            self.attach()

    def attach(self):
        env, words = rows.filled(self.variant.command, self.places(self.program.pid), [])
        path = os.path.join(self.folder, "tracer")
        began = child.monotonic()
        with open(path, "wb") as f:
            self.tracer = child.start(words, {**os.environ, **self.setting.env, **env}, f, f)
        while self.variant.logs and "recording the calls" not in contents(path):
            if self.tracer.poll() is not None or child.monotonic() - began > ATTACH_S:
                raise Failed(f"not attached: {last_lines(path)}")
            time.sleep(0.005)

    def turn(self):
        """Runs each loop once more."""
        for work in self.works:
            part = self.program.ask(f"run {work.name} {self.setting.count(work)} {self.setting.arg(work)}", "part", LOOP_S)
            part["turn"] = self.turns
            self.run["parts"].append(part)
            time.sleep(SETTLE_S)
        self.turns += 1

    def finish(self):
        """Ends tracer and program, waits until the last file is there, and looks what a log says of itself."""
        if self.tracer is not None:
            self.tracer.send_signal(signal.SIGINT)
            if waited(self.tracer) != 0:
                raise Failed(f"detached with exit code {self.tracer.poll()}: {last_lines(os.path.join(self.folder, 'tracer'))}")
        self.program.ask("quit", "bye", LOOP_S)
        code = waited(self.program.proc)
        if code != 0 and not self.variant.may_fail:
            raise Failed(f"exit code {code} (None: it did not end): {self.program.said()}")
        if "{floor}" in self.variant.command and not int(contents(self.out + ".bytes") or 0):
            raise Failed(f"CUPTI recorded nothing: {self.program.said()}")
        if self.variant.logs:
            self.look_into_log()

    def look_into_log(self):
        words = [self.setting.places["cudatrace"], "info", self.out + ".cudatrace", "--format", "json"]
        try:
            info = json.loads(subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60).stdout)
        except (subprocess.TimeoutExpired, ValueError) as error:
            raise Failed(f"cudatrace info cannot read the log: {error}; {self.program.said()}") from None
        keep = ("kernels", "copies", "sets", "calls", "launches", "uprobe_pairs", "unmatched", "lost", "complete", "reasons", "cupti_version")
        self.run["info"] = {k: info[k] for k in keep if k in info}

    def close(self):
        if self.tracer is not None:
            child.stop_tree(self.tracer)
        if self.program is not None:
            self.program.close()
        else:
            self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def waited(proc):
    """The exit code of a process that ends; None where it does not."""
    try:
        return proc.wait(FINISH_S)
    except subprocess.TimeoutExpired:
        return None


def contents(path):
    """The text of a file; "" while there is none."""
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""
