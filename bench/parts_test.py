"""Tests of --parts, on the simulated CUDA stack."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, BENCH)

import parts
import program
import workloads

LAUNCHES = workloads.chosen(["a"], False)[0]


def run(name, number, ns):
    part = {"name": "a", "count": 10, "ns": ns * 10}
    return {"variant": name, "round": number, "whole": False, "error": None, "parts": [part]}


class Tables(unittest.TestCase):
    def test_differences_are_paired_by_round(self):
        # The machine is slower in every round: the added time must not see it.
        runs = [r for n in range(1, 6) for r in (run("plain", n, 1000 * n), run("kernels", n, 1000 * n + 400 + 10 * n))]
        counts = {"gpu": 1, "driver": 0, "runtime": 0}
        found = list(parts.rows(runs, LAUNCHES, {"plain": counts, "kernels": counts}))
        self.assertEqual(found, [["nothing", "3,000", "", "", "1", "0", "0", 5],
                                 ["kernel records", "3,430", "+430", "+420..+440", "1", "0", "0", 5]])


class Sets(unittest.TestCase):
    def named(self, name):
        return next(s for s in parts.SETS if s.name == name)

    def test_a_part_without_effect_is_noticed(self):
        self.assertTrue(self.named("driver").explains("driver", 5))
        self.assertFalse(self.named("driver").explains("driver", 0))
        self.assertFalse(self.named("driver").explains("runtime", 1))

    def test_no_record_of_a_driver_call_inside_a_recorded_call(self):
        self.assertTrue(self.named("both").explains("driver", 0))
        self.assertFalse(self.named("both").explains("runtime", 0))

    def test_lists_fit(self):
        for s in parts.SETS:
            self.assertLess(len(f"parts {s.listed},c\n"), 256)

    def test_long_kernels_are_refused(self):
        self.assertRaisesRegex(ValueError, "does not measure f", parts.chosen, ["a", "f"], False)


class Budget(unittest.TestCase):
    def test_no_round_begins_late(self):
        measured = parts.Parts.__new__(parts.Parts)
        measured.args, measured.problems = argparse.Namespace(rounds=3, budget=0), []
        measured.rounds(None, [LAUNCHES], parts.child.monotonic() - 1)
        self.assertEqual(measured.problems, ["loops: 0 of 3 rounds: 0 s allow no more"])


@unittest.skipUnless(shutil.which("gcc"), "needs gcc")
class Train(unittest.TestCase):
    def parts(self, body):
        """What train.py answers when the injected library is that code."""
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "stub.so")
            subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=body, text=True, check=True)
            done = subprocess.run([sys.executable, os.path.join(BENCH, "train.py"), "-", "-"], input="parts k10,w\nquit\n",
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                                  env={**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub"),
                                       "PYTHONDONTWRITEBYTECODE": "1", "CUDA_INJECTION64_PATH": library})
        return program.parse(done.stdout.splitlines()[1])

    def test_counts_are_reported(self):
        said = self.parts('#include <string.h>\nconst char *bench_parts(const char *l) { return strcmp(l, "k10,w") ? 0 : "gpu=3 walks=6"; }')
        self.assertEqual(said, ("parts", {"gpu": 3, "walks": 6}))

    def test_a_refusal_is_said(self):
        event, values = self.parts("const char *bench_parts(const char *l) { return 0; }")
        self.assertEqual(event, "failed")
        self.assertIn("CUPTI refuses", values["message"])


@unittest.skipUnless(shutil.which("gcc"), "needs gcc")
class Whole(unittest.TestCase):
    """The command itself, on the simulated CUDA stack."""

    def measure(self, **env):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([os.path.join(BENCH, "run.sh"), "--sim", "--parts", "--rounds", "2", "--scale", "0.02"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                                  env={**os.environ, "OUT": out, **env})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "parts.json")) as f:
                result = json.load(f)
            with open(os.path.join(out, "parts.md")) as f:
                self.assertEqual(f.read(), done.stdout)
        return types.SimpleNamespace(**result)

    def test_every_part_has_its_records(self):
        result = self.measure()
        self.assertEqual(result.problems, [])
        counts = {name: (c["gpu"], c["driver"], c["runtime"]) for name, c in result.checks["a"].items()}
        self.assertEqual(counts, {"plain": (0, 0, 0), "kernels": (1, 0, 0), "driver": (1, 1, 0), "walk": (1, 1, 0),
                                  "idle": (1, 1, 0), "runtime": (1, 0, 1), "both": (1, 0, 1), "calls": (0, 1, 0)})
        self.assertEqual(result.checks["a"]["walk"]["walks"], 2)
        order = [[r["variant"] for r in result.runs if r["round"] == n] for n in (1, 2)]
        self.assertEqual([sorted(o) for o in order], [sorted(s.name for s in parts.SETS)] * 2)
        self.assertNotEqual(order[0], order[1])

    def test_a_callback_that_cupti_ignores_is_noticed(self):
        result = self.measure(CUDASIM_CUPTI_IGNORE_CALLBACK="1")
        self.assertEqual(result.problems, ["a, + the driver's API records, walk up the stack: 0 walks that found the caller in 5 units"])


if __name__ == "__main__":
    unittest.main()
