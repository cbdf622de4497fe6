"""A measured program, perhaps under a tracer. One pipe carries commands to it, another its reports."""
import os
import select

import child


class Failed(Exception):
    """A run without results; the text is the reason."""


def parse(line):
    """The event and the values in a line of the program's report."""
    event, _, rest = line.partition(" ")
    if event == "failed":
        return event, {"message": rest}
    values = {}
    for word in rest.split():
        name, _, value = word.partition("=")
        if name == "ns":
            values[name] = [int(n) for n in value.split(",")]
        else:
            values[name] = int(value) if value.lstrip("-").isdigit() else value
    return event, values


class Channel:
    """The two pipes. Both ends are held open here, so that neither side ever waits for the other to open."""

    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in ("control", "report")]
        for path in self.paths:
            os.mkfifo(path)
        self.control, self.report = (os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in self.paths)
        self.rest = b""

    def send(self, line):
        os.write(self.control, line.encode() + b"\n")

    def line(self, timeout):
        """The next line, or None when none came within timeout seconds."""
        while b"\n" not in self.rest:
            if not select.select([self.report], [], [], timeout)[0]:
                return None
            self.rest += os.read(self.report, 65536)
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode(errors="replace")

    def close(self):
        os.close(self.control)
        os.close(self.report)


class Program:
    """A program that has been started. Its command may be a tracer that starts it.

    The program ends by itself or the caller kills it; the caller calls close in both cases.
    """

    def __init__(self, words, env, folder, channel):
        self.folder = folder
        self.channel = channel
        self.stderr = os.path.join(folder, "stderr")
        with open(self.stderr, "wb") as err, open(os.path.join(folder, "stdout"), "wb") as out:
            self.proc = child.start(words, {**os.environ, **env}, err, out)
        self.pid = None
        self.ended = None

    def said(self):
        """The last lines that the command wrote to its error output."""
        return last_lines(self.stderr)

    def expect(self, event, timeout):
        """Waits for an event of the program and returns the event's values."""
        until = child.monotonic() + timeout
        while True:
            line = self.channel.line(0.02)
            if line is not None:
                got, values = parse(line)
                if got == "failed":
                    raise Failed(f"the program says: {values['message']}")
                if got != event:
                    raise Failed(f"the program says {line!r} instead of {event}")
                return values
            if self.proc.poll() is not None or (self.ended is not None and self.ended):
                line = self.channel.line(0)
                if line is None:
                    raise Failed(f"the program ended before '{event}' ({self.exit_words()}): {self.said()}")
                self.channel.rest = line.encode() + b"\n" + self.channel.rest
            elif child.monotonic() > until:
                raise Failed(f"no '{event}' within {timeout:.0f} s: {self.said()}")

    def exit_words(self):
        code = self.proc.poll()
        return "its tracer runs on" if code is None else f"exit code {code}"

    def ready(self, timeout):
        """Waits until the program has started."""
        values = self.expect("ready", timeout)
        self.pid = values["pid"]
        self.ended = child.Ended(self.pid)
        return values

    def ask(self, line, event, timeout):
        self.channel.send(line)
        return self.expect(event, timeout)

    def close(self):
        child.stop_tree(self.proc)
        self.channel.close()


def last_lines(path, count=3):
    try:
        with open(path, "rb") as f:
            lines = f.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return " | ".join([line.strip() for line in lines if line.strip()][-count:])[-400:]
