"""What the Python frames above a call cost, in parts and at several depths. Needs gcc, and an interpreter that record/internal/pyframes
knows; no GPU. Each part is measured in turns with the others, behind work that touches so much memory (KiB).

python3 bench/pywalk.py [--rounds N] [KIB...]
"""
import ctypes
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INJECT = os.path.join(HERE, "..", "record", "internal", "cupti", "inject")
PARTS = ["nothing", "thread", "pointers", "frames", "codes", "whole"]
# As record/internal/pyframes has them: minor, finalizing, interpreters, thread_*, frame_*, instruction_unit, frame_owner, code_*, text_*
LAYOUTS = {
    9: (16, 32, 16, 176, 24, -1, -1, 32, 24, 104, 1, -1, -1, 40, 104, 112, 120, -1, 48, 72),
    10: (16, 32, 16, 176, 24, -1, -1, 32, 24, 96, 2, -1, -1, 40, 104, 112, 120, -1, 48, 72),
    11: (24, 40, 16, 152, 56, 8, 296, 32, 48, 56, 0, 69, 184, 72, 112, 128, 136, -1, 48, 72),
    12: (24, 40, 16, 136, 56, 0, 232, 0, 8, 56, 0, 70, 192, 68, 112, 128, 136, 92, 40, 56),
    13: (608, 632, 16, 152, 72, -1, 232, 0, 8, 56, 0, 70, 200, 68, 112, 128, 136, 92, 40, 56),
    14: (784, 808, 16, 152, 72, -1, 232, 0, 8, 56, 0, 74, 208, 68, 112, 128, 136, 92, 40, 56),
    15: (912, 936, 16, 176, 72, -1, 256, 0, 8, 56, 0, 74, 208, 68, 112, 128, 136, 92, 40, 56),
}


class Layout(ctypes.Structure):
    _fields_ = [("addresses", ctypes.c_uint64 * 3), ("minor", ctypes.c_uint32), ("offsets", ctypes.c_int32 * 20), ("pad", ctypes.c_uint32)]


def build():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pywalk.so")
        sources = [os.path.join(HERE, "pywalk.c")] + [os.path.join(INJECT, n) for n in ("python.c", "stack.c", "guard.c")]
        subprocess.check_call(["gcc", "-O2", "-D_GNU_SOURCE", "-fPIC", "-shared", "-pthread", "-I", INJECT, "-o", path, *sources])
        library = ctypes.CDLL(path)
    p = ctypes.PyDLL(None)
    at = [ctypes.addressof(ctypes.c_char.in_dll(p, n)) for n in ("_PyRuntime", "PyGILState_GetThisThreadState", "PyCode_Type")]
    layout = Layout((ctypes.c_uint64 * 3)(*at), sys.version_info[1], (ctypes.c_int32 * 20)(*LAYOUTS[sys.version_info[1]]))
    if not library.pywalk_start(ctypes.byref(layout)):
        sys.exit("no memory")
    return library


def alike(depth, run):
    return run() if depth == 0 else alike(depth - 1, run)


def chain(depth):
    """As many functions, each of its own, every third one called from C: a frame of the interpreter's own comes between."""
    names = {}
    for i in range(depth + 1):
        call = "run()" if i == depth else "f%d(run)" % (i + 1) if i % 3 else "max((f%d(run), 0), key=id)" % (i + 1)
        if i % 3 == 2 and i < depth:
            call = "next(map(f%d, (run,)))" % (i + 1)
        exec("def f%d(run):\n    a = b = c = d = 0\n    return %s\n" % (i, call), names)
    return names["f0"]


def main():
    args = sys.argv[1:]
    rounds = 301
    if args[:1] == ["--rounds"]:
        rounds, args = int(args[1]), args[2:]
    library = build()
    times = (ctypes.c_double * len(PARTS))()
    print("ns", sys.version.split()[0], *["%9s" % p for p in PARTS[1:]])
    for other in [int(a) for a in args] or [0, 64, 1024, 8192]:
        for kind in ("alike", "chain"):
            for depth in (0, 10, 30, 60):
                run = lambda: library.pywalk_run(ctypes.c_uint32(rounds), ctypes.c_size_t(other << 10), times)
                for _ in range(2):
                    alike(depth, run) if kind == "alike" else chain(depth)(run)
                print("%5d KiB %s +%-3d" % (other, kind, depth), *["%9.0f" % (t - times[0]) for t in times[1:]])


if __name__ == "__main__":
    main()
