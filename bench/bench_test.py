"""Tests of the harness, without a GPU: python3 -m unittest discover -s bench -p '*_test.py'"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, BENCH)

import child
import figures
import program
import rows
import session

FAKE = os.path.join(BENCH, "testdata/fake.py")
STUB = {**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub"), "PYTHONDONTWRITEBYTECODE": "1"}


def run(variant, number, *ns, **more):
    parts = [{"name": "a", "unit": 10, "ns": [n * 10], "turn": i} for i, n in enumerate(ns)]
    return {"variant": variant, "program": "loops", "workloads": ["a"], "round": number, "error": None, "parts": parts, **more}


class Figures(unittest.TestCase):
    def test_a_slow_processor_is_not_seen(self):
        plain, record = [100 + i % 7 for i in range(40)], [150 + i % 7 for i in range(40)]
        plain[5:35], record[15:30] = [190] * 30, [290] * 15  # slow in other turns
        table = figures.samples([run("plain", 1, *plain), run("record", 1, *record), run("record", 2, 1, error="no")])
        found = figures.ratio(table["a", "record"], table["a", "plain"])
        self.assertAlmostEqual(found["ratio"], 1.5, delta=0.02)
        self.assertTrue(1.4 < found["low"] <= found["ratio"] <= found["high"] < 1.6, found)
        self.assertAlmostEqual(found["mean"], statistics.mean(record) / statistics.mean(plain))

    def test_few_turns_have_no_interval(self):
        self.assertIsNone(figures.ratio([[110]] * 5, [[100]] * 9)["low"])

    def test_flags(self):
        cut = {"complete": False, "reasons": ["cut"]}
        runs = [run("record", 1, 1, info=cut), run("record", 2, error="exit code 12345"), run("record", 3, error="exit code 54321")]
        self.assertEqual(figures.flags(runs, "record"), {"not complete: cut": 1, "failed: exit code N": 2})

    def test_document(self):
        works, variants = [w for w in rows.WORKLOADS if w.name == "a"], rows.chosen(rows.VARIANTS, ["plain", "floor", "record"], "variant")
        runs = [run("plain", 1, 1000), run("floor", 1, 1250), run("record", 1, 1500), run("record", 2, error="gone|away")]
        result = {"machine": {"GPU": "none"}, "rounds": 1, "turns": 1, "command": "bench", "args": {"a": 0}, "problems": ["few"], "runs": runs,
                  "summary": figures.summary(runs, works, variants)}
        self.assertEqual(figures.document(result, works, variants).splitlines()[3:], [
            "**a: empty kernels, synchronise every 500** (not traced: 1,000 ns a launch)", "",
            "|  | × not traced (95 %) | added, ns | × the floor (95 %) | × not traced, means | turns |", "| --- | --- | --- | --- | --- | --- |",
            "| floor: the records of CUPTI that cudatrace takes, thrown away | × 1.250 | +250 |  | 1.25 | 1 |",
            "| `cudatrace record` | × 1.500 | +500 | × 1.200 | 1.50 | 1 |", "", "- `cudatrace record`: failed: gone|away (1 ×)", "- few"])


class Commands(unittest.TestCase):
    places = {"cudatrace": "/c t", "out": "/o", "pid": "7", "nsys": "/n", "floor": "/f", "cupti": "/u"}

    def test_every_command_can_be_filled_in(self):
        for v in rows.VARIANTS:
            with self.subTest(v.name):
                _, words = rows.filled(v.before if v.attaches else v.command, self.places, ["app", "--x=1"])
                self.assertEqual(words[-2:], ["app", "--x=1"])
                self.assertLessEqual(set(v.workloads), {w.name for w in rows.WORKLOADS})

    def test_from_a_command_line(self):
        v = rows.extra("try@ac=A=1 B_2={out} {cudatrace} record -o {out} -- {program}")
        self.assertEqual(rows.filled(v.command, self.places, ["app"]), ({"A": "1", "B_2": "/o"}, ["/c t", "record", "-o", "/o", "--", "app"]))
        self.assertTrue(v.runs("a") and not v.runs("b") and v.logs and not v.attaches)
        for text in ("x", "=y", "x={cudatrace}"):
            with self.subTest(text), self.assertRaises(ValueError):
                rows.extra(text)
        with self.assertRaisesRegex(ValueError, "there is no variant nosuch"):
            rows.chosen(rows.VARIANTS, ["nosuch"], "variant")


class Sessions(unittest.TestCase):
    """Real processes: a fake program, whole or broken."""

    def measure(self, *mode, variant=rows.VARIANTS[0]):
        with tempfile.TemporaryDirectory() as scratch:
            setting = types.SimpleNamespace(scratch=scratch, env={}, programs={"loops": [sys.executable, FAKE, *mode]},
                                            places={"cudatrace": "/nonexistent/cudatrace"}, count=lambda work: 100, arg=lambda work: 0)
            s = session.Session(setting, variant, "loops", [w for w in rows.WORKLOADS if w.name in "ab"], 1)
            try:
                for step in (session.Session.start, session.Session.begin, session.Session.turn, session.Session.finish):
                    s.step(step)
            finally:
                s.close()
            self.assertEqual(os.listdir(scratch), [])
        return s.run

    def test_whole(self):
        found = self.measure()
        self.assertIsNone(found["error"])
        self.assertEqual([(p["name"], p["ns"], p["turn"]) for p in found["parts"]], [("a", [100_000], 0), ("b", [100_000], 0)])

    def test_attached(self):
        found = self.measure(variant=rows.Variant("tool", "", "sh -c 'exec sleep 60' {pid}"))
        self.assertRegex(found["error"], "detached with exit code -2")  # SIGINT has killed it
        self.assertEqual(len(found["parts"]), 2)

    def test_broken_programs(self):
        # Those that never answer are given up early; the others have all the time that a busy machine needs.
        for mode, text, patience in (("die", "ended before 'part' .*exit code 7.*out of luck", {}),
                                     ("failed", "cudaErrorUnknown", {}), ("code", "exit code 3", {}),
                                     ("hang", "no 'part' within", {"LOOP_S": 0.3}),
                                     ("silent", "no 'ready' within", {"READY_S": 0.3})):
            with self.subTest(mode), mock.patch.multiple(session, **{"LOOP_S": 60, **patience}):
                self.assertRegex(self.measure(mode)["error"], text)

    def test_broken_tracers(self):
        record = next(v for v in rows.VARIANTS if v.name == "record")
        self.assertRegex(self.measure(variant=record)["error"], "/nonexistent/cudatrace: No such file")
        with mock.patch.object(session, "FINISH_S", 0.3):
            found = self.measure(variant=rows.Variant("tool", "", "sh -c '\"$@\"; sleep 60' sh {program}"))
        self.assertRegex(found["error"], "it did not end")


class Train(unittest.TestCase):
    def said(self, lines):
        done = subprocess.run([sys.executable, os.path.join(BENCH, "train.py"), "-", "-"], input=lines, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60, env=STUB)
        return done.returncode, [program.parse(line) for line in done.stdout.splitlines()]

    def test_protocol(self):
        code, said = self.said("init c d t k\nrun c 20 0\nrun d 20\nrun t 3 4\nprofile torch\nrun k 600\nquit\n")
        self.assertEqual([event for event, _ in said], ["ready", "init", *["part"] * 4, "bye"])
        self.assertEqual([v["name"] for event, v in said if event == "part"], ["c", "d", "t", "k"])
        self.assertEqual(len(said[2][1]["ns"]), 20)
        self.assertEqual(code, 0)

    def test_failure_is_said(self):
        code, said = self.said("run c 1\n")
        self.assertEqual((code, said[-1][0]), (1, "failed"))


class Whole(unittest.TestCase):
    """The command itself, with a stub for PyTorch and shell scripts for tracers."""

    def bench(self, *words):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, os.path.join(BENCH, "bench.py"), "--out", out, "--scale", "0.1", *words],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100, env=STUB)
            self.assertEqual(done.returncode, 0, done.stderr)
            if not os.path.exists(os.path.join(out, "overhead.json")):
                return None, done.stderr
            with open(os.path.join(out, "overhead.json")) as f, open(os.path.join(out, "overhead.md")) as text:
                self.assertEqual(text.read(), done.stdout)
                return json.load(f), done.stdout

    def test_rounds(self):
        result, text = self.bench("--workloads", "c,d", "--variants", "torch", "--rounds", "2", "--turns", "3", "--variant", "bad=false {program}",
                                  "--variant", "shell=X=1 sh -c '\"$@\"' sh {program}")
        found = {(run["variant"], part["name"], part["turn"]) for run in result["runs"] for part in run["parts"]}
        self.assertEqual(found, {(v, w, t) for v in ("plain", "torch", "shell") for w in "cd" for t in range(3)})
        self.assertIn("failed: the program ended before 'ready' (exit code 1)", text)
        self.assertEqual(result["machine"]["PyTorch"], "0.stub")

    def test_budget(self):
        self.assertIn("0 of 3 rounds: -1 s allow no more", self.bench("--workloads", "c", "--variants", "plain", "--budget", "-1")[1])


class Processes(unittest.TestCase):
    def test_a_tree_is_ended_whole(self):
        proc = child.start(["sh", "-c", "setsid sleep 60 & echo $!; wait"], dict(os.environ), subprocess.DEVNULL, subprocess.PIPE)
        below = int(proc.stdout.readline())
        ended = child.Ended(below)
        child.stop_tree(proc)
        proc.stdout.close()
        self.assertEqual(proc.returncode, -signal.SIGKILL)
        for _ in range(200):
            if ended:
                break
            child.time.sleep(0.01)
        self.assertTrue(ended)


if __name__ == "__main__":
    unittest.main()
