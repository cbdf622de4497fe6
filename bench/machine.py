"""The machine that runs the measurement, and the paths of its tools."""
import datetime
import glob
import os
import re
import shutil
import subprocess

NSYS_PLACES = [
    "/opt/nvidia/nsight-systems*/*/bin/nsys", "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys", "/usr/local/cuda*/nsight-systems*/bin/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys", "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
]
CUPTI_PLACES = [
    "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1?", "/usr/local/cuda*/targets/*/lib/libcupti.so.1?",
    "/usr/lib/*/libcupti.so.1?",
]


def output(*words, timeout=30):
    """The output of a command; "" when it cannot be run."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def find_nsys():
    """The first nsys that answers, or ""."""
    candidates = [shutil.which("nsys") or ""]
    for place in NSYS_PLACES:
        candidates += sorted(glob.glob(place), reverse=True)
    return next((c for c in candidates if c and output(c, "--version")), "")


def find_cupti():
    """The newest libcupti of a toolkit, or ""."""
    found = [path for place in CUPTI_PLACES for path in glob.glob(place)]
    return max(found, key=lambda path: (int(path.rpartition(".")[2]), path), default="")


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return os.uname().machine


def describe(cudatrace, nsys, sim):
    """The machine and the versions, name to text; unknown ones are left out."""
    smi = "" if sim else output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpu, _, driver = smi.partition("\n")[0].partition(", ")
    nvcc = "" if sim else re.search(r"release ([\d.]+)", output("nvcc", "--version"))
    facts = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "GPU": "none: the simulated CUDA stack" if sim else gpu,
        "driver": driver,
        "CUDA": nvcc[1] if nvcc else "",
        "nsys": re.sub(r".*version ", "", output(nsys, "--version").partition("\n")[0]) if nsys else "",
        "Linux": os.uname().release,
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "cudatrace": (output(cudatrace, "version").splitlines() or [""])[0].removeprefix("cudatrace "),
    }
    return {name: text for name, text in facts.items() if text}
