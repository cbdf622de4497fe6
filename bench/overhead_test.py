"""Tests of the harness, without a GPU: python3 -m unittest discover -s bench -p '*_test.py'"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, BENCH)

import child
import claims
import figures
import overhead
import program
import session
import table
import variants
import workloads

FAKE = os.path.join(BENCH, "testdata/fake.py")


def run(variant, number, ns, workload="a", phase="", **more):
    part = {"name": workload, "count": 10, "ns": ns * 10, "cpu_ns": ns * 5, "hwm_kb": 1000, "phase": phase}
    return {"variant": variant, "program": "loops", "workloads": [workload], "round": number, "whole": False, "error": None,
            "parts": [part], "files": {}, "notes": [], **more}


class Figures(unittest.TestCase):
    def test_quantiles(self):
        self.assertEqual(figures.quantile([3, 1, 2], 0.5), 2)
        self.assertEqual(figures.quantile([0, 10], 0.1), 1)
        self.assertEqual(figures.quantile([7], 0.9), 7)

    def test_ratios_pair_the_runs_of_a_round(self):
        # The machine is ten times slower in round 2: ratios must not see it.
        runs = [run("plain", 1, 100), run("plain", 2, 1000), run("record", 1, 150), run("record", 2, 1500), run("record", 3, 9)]
        row = figures.row(figures.samples(runs), "a", "record")
        self.assertEqual(row["ratio"], 1.5)
        self.assertEqual(row["overhead"], 275)
        self.assertEqual(row["rounds"], 3)

    def test_failed_runs_and_whole_recordings_are_no_samples(self):
        runs = [run("plain", 1, 100), run("plain", 2, 50, error="no"), run("plain", 0, 70, whole=True)]
        self.assertEqual(figures.samples(runs), {("a", "plain"): {(1, 0): 100}})

    def test_overhead_against_a_reference(self):
        runs = [r for n in range(1, 6) for r in (run("plain", n, 100 + n), run("nsys", n, 200 + n), run("record", n, 150 + n))]
        found = figures.ratio_of_overheads(figures.samples(runs), "a", "record", "nsys")
        self.assertEqual((found["value"], found["low"], found["high"], found["rounds"]), (0.5, 0.5, 0.5, 5))

    def test_no_ratio_to_a_reference_that_costs_nothing(self):
        runs = [run("plain", 1, 100), run("nsys", 1, 90), run("record", 1, 150)]
        self.assertIsNone(figures.ratio_of_overheads(figures.samples(runs), "a", "record", "nsys"))

    def test_losses_and_failures_are_flagged(self):
        lost = {"lost": {"ring_buffer": 5, "cupti_queue": 0}, "complete": False, "reasons": ["5 lost"]}
        cut = {"lost": {"ring_buffer": 0}, "complete": False, "reasons": ["cut"]}
        runs = [run("record", 1, 1, info=lost), run("record", 2, 1, info=cut), run("record", 3, 1, error="exit code 9"),
                run("record", 4, 1, error="exit code 9")]
        self.assertEqual(figures.flags(runs, "a", "record"),
                         {"LOST ring_buffer": 1, "not complete: cut": 1, "failed: exit code 9": 2})

    def test_no_ratio_to_a_reference_within_noise(self):
        runs = [r for n, theirs in enumerate((110, 90, 120)) for r in (run("plain", n, 100), run("nsys", n, theirs), run("record", n, 150))]
        self.assertIsNone(figures.ratio_of_overheads(figures.samples(runs), "a", "record", "nsys"))

    def test_figures_of_a_recording_of_one_workload(self):
        info = {"kernels": 20, "copies": 0, "sets": 0, "graphs": 0, "lost": {}, "complete": True}
        runs = [run("record", 0, 1000, whole=True, info=info, files={".cudatrace": 100}, recorder_cpu_s=0.3, recorder_cpu_before_s=0.1)]
        self.assertEqual(figures.record_bytes(runs, "record", "a"), {".cudatrace": 5})
        self.assertAlmostEqual(figures.recorder_cpu(runs, "record", "a")["recorder_cpu_ns"], 0.2e9 / 10)
        runs[0]["parts"][0]["ns"] = 10 * figures.LONG_NS
        self.assertEqual(figures.record_bytes(runs, "record", "a"), {})

    def test_the_speed_after_detaching(self):
        runs = [run("pid", 1, 100, phase="before"), run("pid", 1, 103, phase="after")]
        runs[0]["parts"] += runs.pop()["parts"]
        self.assertAlmostEqual(figures.after_detach(runs)["median"], 0.03)


class Claims(unittest.TestCase):
    def judged(self, rows, **more):
        summary = {"rows": rows, "resources": [], "once": {}, "floor": None, "after_detach": None, **more}
        return {c["claim"]: c for c in claims.judge(summary)}

    def test_verdicts(self):
        rows = [{"workload": "a", "row": name, "rounds": 1, "overhead": ns, "ratio": 2}
                for name, ns in (("record", 1900), ("empty", 1000), ("kernels", 800), ("probes", 1300))]
        found = self.judged(rows)
        floor = found["empty kernels: `record` against empty traps + CUPTI kernel records alone"]
        self.assertEqual((floor["verdict"], floor["written"]), (claims.WITHIN, "1.06 ×"))
        probes = found["empty kernels: probes alone against empty traps"]
        self.assertEqual((probes["verdict"], probes["written"]), (claims.WITHIN, "1.30 ×"))
        self.assertEqual(found["PyTorch step: `record --python off` against nsys"]["verdict"], claims.UNKNOWN)

    def test_beyond(self):
        found = self.judged([], after_detach={"median": 0.5})
        self.assertEqual(found["after `-p` has detached: slower than before"]["verdict"], claims.BEYOND)


class Commands(unittest.TestCase):
    places = {"cudatrace": "/c t", "out": "/o", "convert": "", "pid": "7", "nsys": "/n", "python": "p", "bench": "/b",
              "floor": "/f", "cupti": "/u"}

    def test_places_are_filled_in(self):
        v = next(v for v in variants.VARIANTS if v.name == "record")
        self.assertEqual(variants.command(v, self.places, ["app", "x"]),
                         ({}, ["/c t", "record", "-o", "/o", "--", "app", "x"]))

    def test_environment(self):
        v = variants.extra("try@ac=A=1 B_2={out} {cudatrace} record -o {out} -- {program}")
        self.assertEqual(variants.command(v, self.places, ["app", "--x=1"]),
                         ({"A": "1", "B_2": "/o"}, ["/c t", "record", "-o", "/o", "--", "app", "--x=1"]))
        self.assertTrue(v.runs("a") and not v.runs("b"))
        self.assertEqual(v.log, ".cudatrace")

    def test_every_command_can_be_filled_in(self):
        for v in variants.VARIANTS:
            with self.subTest(v.name):
                _, words = variants.command(v, self.places, ["app"])
                self.assertEqual(v.kind == variants.ATTACH, "app" not in words)
                self.assertLessEqual(set(v.workloads + v.apart), {w.name for w in workloads.WORKLOADS})

    def test_bad_variants(self):
        for text in ("x", "=y", "x={cudatrace}"):
            with self.subTest(text), self.assertRaises(ValueError):
                variants.extra(text)
        with self.assertRaisesRegex(ValueError, "there is no variant nosuch"):
            variants.chosen(["nosuch"], [])
        with self.assertRaisesRegex(ValueError, "there is no workload z"):
            workloads.chosen(["z"], False)


class Sessions(unittest.TestCase):
    """Real processes: a fake program, whole or broken."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def measure(self, *mode, variant=variants.VARIANTS[0], **more):
        setting = types.SimpleNamespace(
            scratch=self.scratch.name, env={}, cupti="", programs={"loops": [sys.executable, FAKE, *mode]},
            places={"python": sys.executable, "cudatrace": "/nonexistent/cudatrace", "bench": BENCH, "nsys": "", "floor": ""},
            count=lambda work, whole: 100, arg=lambda work: 0)
        works = [w for w in workloads.WORKLOADS if w.name in "ab"]
        s = session.Session(setting, variant, "loops", works, 1, False)
        try:
            s.start()
            s.ready()
            for step in (s.begin, s.turn, s.finish):
                s.measure(step)
            s.collect()
        finally:
            s.close()
        self.assertEqual(os.listdir(self.scratch.name), [])
        return s.run

    def test_whole(self):
        found = self.measure()
        self.assertIsNone(found["error"])
        self.assertEqual([(p["name"], p["ns"] / p["count"]) for p in found["parts"]], [("a", 1000), ("b", 1000)])
        self.assertEqual(found["exit"], 0)
        self.assertGreater(found["done_s"], 0)

    def test_attached(self):
        v = variants.Variant("tool", "", "sh -c 'echo attached to {pid}; exec sleep 60'", kind=variants.ATTACH, ready="attached")
        found = self.measure(variant=v)
        # A tracer that SIGINT kills has not detached by itself.
        self.assertRegex(found["error"], "detached with exit code -2")
        self.assertEqual([(p["name"], p["phase"]) for p in found["parts"]], [("a", "before"), ("b", "before"), ("a", ""), ("b", "")])

    def test_broken_programs(self):
        # Those that never answer are given up early; the others have all the time that a busy machine needs.
        for mode, text, patience in (("die", "ended before 'part' .*exit code 7.*out of luck", {}),
                                     ("failed", "cudaErrorUnknown", {}), ("code", "exit code 3", {}),
                                     ("hang", "no 'part' within", {"LOOP_S": 0.3}),
                                     ("silent", "no 'ready' within", {"READY_S": 0.3})):
            with self.subTest(mode), mock.patch.multiple(session, **{"LOOP_S": 60, **patience}):
                self.assertRegex(self.measure(mode)["error"], text)

    def test_a_tracer_that_is_not_there(self):
        self.assertRegex(self.measure(variant=variants.VARIANTS[1])["error"], "/nonexistent/cudatrace: No such file")

    def test_a_tracer_that_cannot_attach(self):
        v = variants.Variant("tool", "", "sh -c 'echo no rights; exit 1'", kind=variants.ATTACH, ready="attached")
        self.assertRegex(self.measure(variant=v)["error"], "could not attach: no rights")

    def test_a_tracer_that_never_ends(self):
        v = variants.Variant("tool", "", "sh -c '\"$@\"; sleep 60' sh {program}", may_fail=True)
        with mock.patch.object(session, "FINISH_S", 0.3):
            found = self.measure(variant=v)
        self.assertIsNone(found["error"])
        self.assertRegex(found["notes"][0], "not finished")


class Train(unittest.TestCase):
    def test_protocol(self):
        lines = "init c d t k\nrun c 20 0\nrun d 20\nrun t 3 4\nrun k 600\nprofile torch {}\nrun c 20\nquit\n"
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, os.path.join(BENCH, "train.py"), "-", "-"],
                                  input=lines.format(os.path.join(folder, "p.json")), stdout=subprocess.PIPE, text=True,
                                  timeout=60, env={**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub"),
                                                   "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(os.listdir(folder), [])
        said = [program.parse(line) for line in done.stdout.splitlines()]
        self.assertEqual([event for event, _ in said], ["ready", "init", *["part"] * 5, "bye"])
        self.assertEqual([v["name"] for event, v in said if event == "part"], ["c", "d", "t", "k", "c"])
        self.assertEqual(said[6][1]["trace_bytes"], 2)
        self.assertEqual(done.returncode, 0)

    def test_failure_is_said(self):
        done = subprocess.run([sys.executable, os.path.join(BENCH, "train.py"), "-", "-"], input="run c 1\n", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                              env={**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub")})
        self.assertIn("failed KeyError", done.stdout)
        self.assertEqual(done.returncode, 1)


class Whole(unittest.TestCase):
    """The command itself, with a stub for PyTorch and shell scripts for tracers."""

    def test_rounds(self):
        self.rounds(1)

    def test_turns(self):
        self.rounds(3)

    def rounds(self, turns):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run(
                [sys.executable, os.path.join(BENCH, "overhead.py"), "--workloads", "c,d", "--variants", "torch", "--rounds", "2",
                 "--turns", str(turns), "--out", out, "--scale", "0.1", "--variant", "bad=false {program}", "--variant", "shell=X=1 sh -c '\"$@\"' sh {program}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100,
                env={**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub"), "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "overhead.json")) as f:
                result = json.load(f)
            with open(os.path.join(out, "overhead.md")) as f:
                self.assertEqual(f.read(), done.stdout)
        rows = {(r["workload"], r["row"]): r["rounds"] for r in result["summary"]["rows"]}
        self.assertEqual(rows, {(w, v): n * turns for w in "cd" for v, n in (("plain", 2), ("torch", 2), ("bad", 0), ("shell", 2))})
        self.assertIn("failed: the program ended before 'ready' (exit code 1)", done.stdout)
        self.assertEqual(result["machine"]["PyTorch"], "0.stub")

    def test_budget(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run(
                [sys.executable, os.path.join(BENCH, "overhead.py"), "--workloads", "c", "--variants", "plain", "--budget", "0",
                 "--no-whole", "--out", out, "--scale", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                env={**os.environ, "PYTHONPATH": os.path.join(BENCH, "testdata/stub"), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 of 10 rounds: 0 s allow no more", done.stdout)


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

    def test_own_cpu_time(self):
        before = child.cpu_ns(os.getpid())
        sum(range(2_000_000))
        self.assertGreater(child.cpu_ns(os.getpid()), before)
        self.assertIsNone(child.cpu_ns(1 << 30))


class Tables(unittest.TestCase):
    def test_cells_keep_the_table_whole(self):
        self.assertEqual(table.grid(["a"], [["x|y\nz"]]), ["| a |", "|---|", "| x\\|y z |", ""])

    def test_the_first_table(self):
        def figures(workload, row, median, *ratio):
            return {"workload": workload, "row": row, "rounds": 2, "median": median, **dict(zip(("ratio", "ratio_p10", "ratio_p90"), ratio))}
        rows = [figures("a", "plain", 2400), figures("a", "record", 3600, 1.5, 1.4, 1.6), figures("a", "probes", 1, 1, 1, 1),
                figures("k", "plain", 4e6), figures("k", "python-off", 5e6, 1.25, 1, 2), {"workload": "k", "row": "nsys", "rounds": 0}]
        works = [w for w in workloads.WORKLOADS if w.name in "abk"]
        self.assertEqual(table.face({"rows": rows}, works), [
            "|  | not traced | `cudatrace record` | without Python lines |", "|---|---|---|---|",
            "| launch loop, a launch | 2,400 ns | 3,600 ns: × 1.50 (1.40..1.60) |  |",
            "| PyTorch decoding | 250 tokens/s |  | 200 tokens/s: keeps 80 % (50..100) |", ""])
        self.assertEqual(table.face({"rows": rows[:1]}, works), [])

    def test_groups(self):
        with mock.patch.object(os, "cpu_count", return_value=2):
            self.assertEqual(overhead.groups([1, 2, 3]), [[1, 2], [3]])


if __name__ == "__main__":
    unittest.main()
