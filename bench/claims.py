"""The bounds for the results, and the verdict on each."""
from figures import median

WITHIN, BEYOND, UNKNOWN = "met", "NOT MET", "not measured"


class Figures:
    """The rows of a summary, by name."""

    def __init__(self, summary):
        self.summary = summary
        self.rows = {(r["workload"], r["row"]): r for r in summary["rows"] if r["rounds"]}

    def overhead(self, workload, row):
        """ns that tracing adds to a unit; None when it was not measured."""
        return self.rows.get((workload, row), {}).get("overhead")

    def of(self, workload, row, reference):
        found = self.rows.get((workload, row), {}).get("of_" + reference)
        return found and found["value"]

    def of_floor(self, workload, row, *floors):
        """Overhead over the sum of those of the floors."""
        below = [self.overhead(workload, f) for f in floors]
        ours = self.overhead(workload, row)
        return None if ours is None or None in below or sum(below) <= 0 else ours / sum(below)

    def added(self, workload, row):
        """The share of the plain loop's time that tracing adds."""
        ratio = self.rows.get((workload, row), {}).get("ratio")
        return None if ratio is None else ratio - 1

    def of_one_thread(self, row):
        one, many = self.overhead("a", row), self.overhead("e", row)
        return None if one is None or many is None or one <= 0 else many / one

    def recorder_share(self, row):
        """Share of one core that the recorder takes at 200,000 launches a second."""
        found = [r["recorder_cpu_ns"] for r in self.summary["resources"]
                 if r["variant"] == row and r["workload"] in ("a", "e") and r.get("alone")]
        return median(found) * 200_000 / 1e9 if found else None

    def growth(self):
        """The largest growth of the program's memory under a recording, MB."""
        once = self.summary["once"]
        found = [once[v]["rss_bytes"] for v in ("record", "python-off", "cupti", "none") if "rss_bytes" in once.get(v, {})]
        return max(found) / 1e6 if found else None

    def after_detach(self):
        """How much slower the loops are after -p has detached than before it attached, relative."""
        found = self.summary["after_detach"]
        return found and found["median"]

    def benchmark(self):
        """A probed call over one with empty traps, by the benchmark of record/probe."""
        floor = self.summary.get("floor") or {}
        if not {"plain", "session", "floor-session"} <= set(floor):
            return None
        return (floor["session"] - floor["plain"]) / (floor["floor-session"] - floor["plain"])


def percent(value):
    return f"{100 * value:.1f} %"


def times(value):
    return f"{value:.2f} ×"


def megabytes(value):
    return f"{value:.0f} MB"


GPU, ANYWHERE = "gpu", "anywhere"

# claim; where it applies; figure; bound; format
CLAIMS = [
    # nsys and torch.profiler record no Python frames as they are run here.
    ("PyTorch step: `record --python off` against nsys", GPU, lambda f: f.of("c", "python-off", "nsys"), 0.6, times),
    ("PyTorch step: `record --python off` against torch.profiler", GPU, lambda f: f.of("c", "python-off", "torch"), 0.7, times),
    ("PyTorch step: `--calls cupti --python off` against nsys", GPU, lambda f: f.of("c", "cupti-python-off", "nsys"), 0.4, times),
    ("empty kernels: `record` against empty traps + CUPTI kernel records alone", GPU,
     lambda f: f.of_floor("a", "record", "empty", "kernels"), 1.1, times),
    ("empty kernels: `--calls cupti` against nsys", GPU, lambda f: f.of("a", "cupti", "nsys"), 0.9, times),
    ("empty kernels: probes alone against empty traps", ANYWHERE, lambda f: f.of_floor("a", "probes", "empty"), 1.35,
     times),
    ("a call of `cuLaunchKernel` alone: probes against empty traps", ANYWHERE, lambda f: f.benchmark(), 1.35, times),
    ("long kernels: `record` adds", GPU, lambda f: f.added("f", "record"), 0.005, percent),
    ("8 threads: `record` a launch, against one thread", GPU, lambda f: f.of_one_thread("record"), 1.0, times),
    ("recorder's share of a core at 200,000 launches a second", GPU, lambda f: f.recorder_share("record"), 0.1, percent),
    ("growth of the program's memory", ANYWHERE, lambda f: f.growth(), 64, megabytes),
    ("after `-p` has detached: slower than before", ANYWHERE, lambda f: f.after_detach(), 0.02, percent),
]


def judge(summary, sim=False):
    """Each claim with its figure and its bound, also as text, and the verdict. On the simulated stack only the claims
    that apply there."""
    figures = Figures(summary)
    result = []
    for text, where, value, bound, write in CLAIMS:
        if sim and where == GPU:
            continue
        got = value(figures)
        verdict = UNKNOWN if got is None else WITHIN if got <= bound else BEYOND
        result.append({"claim": text, "value": got, "bound": bound, "verdict": verdict,
                       "written": "" if got is None else write(got), "written_bound": write(bound)})
    return result
