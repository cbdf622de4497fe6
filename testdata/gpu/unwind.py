"""Compares the callers in a log with those that full unwinding finds.

Usage: unwind.py CUDATRACE OUTDIR [--symbols FILE] PROGRAM [ARG...]

The program runs once with the injected library of unwind.c, whose path is in UNWIND_LIBRARY, and once under each
way of recording. It has to do the same each time. --symbols names a file with the symbols that the program was stripped of.
"""
import collections
import functools
import glob
import json
import os
import re
import subprocess
import sys

MODES = {"default": [], "cupti": ["--calls", "cupti"]}
WORK = re.compile(r"cu(Launch(?!HostFunc)|Memcpy|Memset|GraphLaunch|MemPrefetch|MemDiscardAndPrefetch)")
MOST_INNER = 4  # frames of a runtime without symbols


def base(name):
    """cuMemcpyHtoD for cuMemcpyHtoD_v2_ptds."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)


def is_runtime(file):
    return file.startswith("libcudart")


class Symbols:
    """The functions of files, by address; none of a stripped file."""

    def __init__(self, paths):
        self.paths = paths  # by name of the file

    @functools.lru_cache(None)
    def functions(self, file):
        found = []
        if file in self.paths:
            listed = subprocess.run(["nm", "--defined-only", "-S", self.paths[file]], capture_output=True, text=True).stdout
            for line in listed.splitlines():
                parts = line.split()
                if len(parts) == 4 and parts[2] in "tTwWiu":
                    found.append((int(parts[0], 16), int(parts[1], 16), parts[3]))
        return sorted(found)

    @functools.lru_cache(None)
    def at(self, file, address):
        """The names of the function that a return address is in."""
        return {name for start, size, name in self.functions(file) if start < address <= start + size}


class Unwound:
    """The chains that unwinding found: file and address of each return address above libcuda, innermost first."""

    def __init__(self, files):
        self.chains, self.without = collections.Counter(), 0
        for file in files:
            for line in open(file):
                count, name, *frames = line.rstrip("\n").split("\t")
                if name == "no chain":
                    self.without += int(count)
                else:
                    self.chains[(base(name), tuple(parse(f) for f in frames))] += int(count)


def family(file):
    """libcublasLt.so.13 for libcublasLt.so.13.1.0.3: a file may be mapped by either name."""
    return re.sub(r"(\.so\.\d+)\..*$", r"\1", file)


def parse(frame):
    file, _, address = frame.rpartition("+")
    return family(file), int(address, 16)


def places(chain, symbols):
    """The (function of the runtime, file, address) that may be the caller of this chain. The function is None where
    nothing names it, and "" where there is none."""
    if is_runtime(chain[0][0]):
        outer = next((f for f in chain if not is_runtime(f[0])), None)
        return {(None, *outer)} if outer else set()
    found = {("", *chain[0])}
    for inner, outer in zip(chain[:MOST_INNER], chain[1:]):
        if inner[0] != chain[0][0] or outer[0] != chain[0][0]:
            break
        found |= {(name, *outer) for name in symbols.at(*inner) or {None}}
    return found


def possible(chains, symbols):
    """How many calls each caller can have made, by what places says."""
    most = collections.Counter()
    for (name, chain), count in chains.items():
        for place in places(chain, symbols):
            most[(name, *place)] += count
    return most


class Recorded:
    """The callers that a log has, with their number of calls."""

    def __init__(self, cudatrace, log):
        callers, calls = {}, []
        dump = subprocess.run([cudatrace, "dump", "--format", "ndjson", log], capture_output=True, text=True, check=True)
        for line in dump.stdout.splitlines():
            if line.startswith(('{"kind":"caller"', '{"kind":"call"', '{"kind":"api"')):
                record = json.loads(line)
                if record["kind"] == "caller":
                    callers[record["id"]] = record
                else:
                    calls.append(record)
        self.calls, self.without, self.paths = collections.Counter(), 0, set()
        named = [(base(c.get("func") or c["name"]), c) for c in calls]
        probed = {name for name, c in named if c["kind"] == "call"}  # a launch has an API record alone
        for name, call in named:
            if (call["kind"] == "call") == (name in probed) and WORK.match(name):
                self.add(name, callers.get(call["caller"]))

    def add(self, name, caller):
        if not caller or not caller["module"]:
            self.without += 1
            return
        self.paths.add(caller["module"])
        file = family(os.path.basename(caller["module"]))
        self.calls[(name, caller["function"], file, int(str(caller["address"]), 0))] += 1


def unwind(out, program):
    for old in glob.glob(out + ".tsv.*"):
        os.remove(old)
    environ = dict(os.environ, CUDA_INJECTION64_PATH=os.environ["UNWIND_LIBRARY"], UNWIND_OUT=out + ".tsv")
    done = subprocess.run(program, env=environ, capture_output=True, text=True)
    files = glob.glob(out + ".tsv.*")
    if done.returncode != 0 or not files:
        sys.exit(f"unwinding {program}: exit code {done.returncode}, {len(files)} results\n{done.stdout}{done.stderr}")
    return Unwound(files)


def record(cudatrace, flags, out, program):
    done = subprocess.run([cudatrace, "record", *flags, "-q", "--no-convert", "-o", out, *program], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"recording {program}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return Recorded(cudatrace, out + ".cudatrace")


def compare(recorded, most):
    """The numbers of calls with an equal caller, with one that is right more often than unwinding found it, and the
    wrong ones."""
    equal, more, wrong = 0, 0, {}
    for (name, function, file, address), count in recorded.calls.items():
        there = sum(most[(name, f, file, address)] for f in {function, None if function else ""})
        if there == 0:
            wrong[(name, function, file, address)] = count
        equal += min(count, there)
        more += max(count - there, 0) if there else 0
    return equal, more, wrong


def report_unclaimed(recorded, unwound, symbols):
    """Prints the chains that no recorded caller stands for: those that the wrong ones should be."""
    claimed = {(name, file, address) for name, _, file, address in recorded.calls}
    for (name, chain), count in sorted(unwound.chains.items(), key=lambda c: -c[1]):
        if not any((name, file, address) in claimed for _, file, address in places(chain, symbols)):
            print(f"    unwound {count} {name}:", " ".join(f"{file}+{address:x}" for file, address in chain))


def main(cudatrace, outdir, *program):
    files = {}
    if program[0] == "--symbols":
        files[os.path.basename(program[2])] = program[1]
        program = program[2:]
    label = os.path.basename(program[-1 if program[0].endswith("python3") else 0])
    out = os.path.join(outdir, label)
    unwound = unwind(out, program)
    calls, failed = sum(unwound.chains.values()), False
    for mode, flags in MODES.items():
        recorded = record(cudatrace, flags, f"{out}-{mode}", program)
        symbols = Symbols({family(os.path.basename(p)): p for p in recorded.paths if os.path.exists(p)} | files)
        equal, more, wrong = compare(recorded, possible(unwound.chains, symbols))
        total = sum(recorded.calls.values()) + recorded.without
        print(f"{label:18} {mode:8} unwound {calls:6} (no chain {unwound.without}) recorded {total:6} equal {equal:6} "
              f"more often {more:4} without caller {recorded.without:5} WRONG {sum(wrong.values())}", flush=True)
        for (name, function, file, address), count in sorted(wrong.items(), key=lambda w: -w[1])[:5]:
            print(f"    {count} {name} in {function or '(no function)'}: {file}+{address:x}")
        if wrong:
            report_unclaimed(recorded, unwound, symbols)
        failed |= bool(wrong) or calls == 0
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
