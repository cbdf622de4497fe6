"""Records program.py with the real PyTorch of this machine and the simulated CUDA stack. In a folder with cudatrace and the
stack's lib: python3 check.py CUDATRACE LIB OUT. Prints a line for each check, and exits with 1 where one failed.

Each mode of the program prints and exits as it does alone. Where its own profiler ran, each launch has the operators, and of
backward ones the forward operator, that the profiler saw.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CUDATRACE, LIB, OUT = map(os.path.abspath, sys.argv[1:4])
MODES = sys.argv[4:] or ["train", "train spans", "script", "profiler", "workers", "fork", "threads", "exit", "_exit", "abort", "delete"]


def run(mode, *record, truth=""):
    env = dict(os.environ, LD_LIBRARY_PATH=LIB, CUDATRACE_OBSERVED="1" if record else "", PYTHONDONTWRITEBYTECODE="1")
    program = [sys.executable, os.path.join(HERE, "program.py"), mode] + ([truth] if truth else [])
    r = subprocess.run([*record, *program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return r


def launches(log):
    """The operators of each launch by the name of its range, the forward operator, and whether there is a line."""
    text = subprocess.run([CUDATRACE, "dump", log, "--format", "ndjson", "--kind", "api,operator_stack,operator_span,lost"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    records = [json.loads(line) for line in text.splitlines()]
    operators = {r["id"]: r for r in records if r["kind"] == "operator_stack"}
    found, without, lines = {}, 0, 0
    spans = [(operators[r["operators"]]["name"], r["start"], r["dur"]) for r in records if r["kind"] == "operator_span"]
    for r in records:
        if r["kind"] == "lost":
            print("  lost:", r)
        if r["kind"] != "api" or "Memset" not in r["name"]:
            continue
        names, made, number = [], None, r.get("operators", 0)
        while number:
            o = operators[number]
            names.append(o["name"])
            if made is None and o.get("forward"):
                made = operators[o["forward"]]["name"]
            number = o["parent"]
        without += not names
        lines += bool(r.get("python"))
        if names:
            found.setdefault(names[0], []).append((names, made))
    return found, without, lines, spans


def compare_spans(recorded, profiled, ns):
    """Operators that differ from the profiler's, from its first launch on to its last one: the names in the order of their
    begins, and by how many ns their lengths differ, in the median."""
    recorded.sort(key=lambda s: (s[1], -s[2]))
    profiled.sort(key=lambda s: (s[1], -s[2]))
    names = [s[0] for s in profiled]
    first = min(i for i, n in enumerate(names) if n.startswith("launch "))
    last = max(i for i, n in enumerate(names) if n.startswith("launch "))
    ours = [s[0] for s in recorded]
    a, b = recorded[ours.index(names[first]):ours.index(names[last]) + 1], profiled[first:last + 1]
    if not ns:  # within a microsecond the profiler's order is not known
        a.sort()
        b.sort()
    differ = abs(len(a) - len(b)) + sum(x[0] != y[0] for x, y in zip(a, b))
    lengths = sorted(abs(x[2] - y[2]) for x, y in zip(a, b)) if ns else [0]
    more = f", their lengths by {lengths[len(lengths) // 2]} ns in the median" if ns else ""
    return f"; of {len(b)} operators in a row {differ} differ{more}", differ


def compare(log, truth):
    found, without, lines, spans = launches(log)
    count = differ = forward = unlinked = 0
    if truth:
        with open(truth) as f:
            truth = json.load(f)
        for name, (names, made) in truth["launches"].items():
            count += 1
            got = found.get(name, [([], None)])
            forward += made is not None
            if got[0][0] != names:
                differ += 1
                if differ < 4:
                    print("  recorded", got[0][0], "\n  profiled", names)
            if got[0][1] != made:
                unlinked += 1
                if unlinked < 4:
                    print("  forward: recorded", got[0][1], "profiled", made, "in", names)
    known = sum(map(len, found.values()))
    said = f"{known} launches with operators, {without} without, {lines} with a line"
    if truth:
        said += f"; of {count} profiled {differ} differ, {forward} are backward, {unlinked} differ in the forward one"
        if spans:
            more, others = compare_spans(spans, truth["spans"], truth["ns"])
            said, differ = said + more, differ + others
    return said, differ or unlinked or truth and not count


def main():
    version = "import torch, sys; print(torch.__version__, sys.version.split()[0], torch.compiled_with_cxx11_abi())"
    print("PyTorch, Python, new ABI:", subprocess.run([sys.executable, "-c", version], stdout=subprocess.PIPE, text=True).stdout.strip())
    os.makedirs(OUT, exist_ok=True)
    failed = 0
    for mode in MODES:
        mode, _, spans = mode.partition(" ")
        log, truth = os.path.join(OUT, mode + spans + ".cudatrace"), os.path.join(OUT, mode + ".json")
        truth = truth if mode in ("train", "script") else ""
        alone = run(mode, truth=truth)
        r = run(mode, CUDATRACE, "record", "--pytorch", spans or "on", "--no-convert", "-o", log, truth=truth)
        with open(log + ".txt", "w") as f:
            f.write(r.stderr)
        said, wrong = compare(log, truth)
        code = 128 - alone.returncode if alone.returncode < 0 else alone.returncode  # after a signal
        if (code, alone.stdout) != (r.returncode, r.stdout):
            wrong = True
            said += f"\n  alone {alone.returncode} {alone.stdout!r} {alone.stderr[-500:]!r}, recorded {r.returncode} {r.stdout!r}"
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok'} {mode} {spans}: exit code {r.returncode}; {said}", flush=True)
    return failed > 0


sys.exit(main())
