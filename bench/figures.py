"""Computes figures from runs: medians, paired ratios, the time that tracing adds to each unit."""
import random
import re

import variants

REFERENCES = ("nsys", "torch")
LONG_NS = 10_000_000  # loops with units this long have too few units for figures per unit


def quantile(values, q):
    """The q-quantile, interpolated."""
    values = sorted(values)
    at = (len(values) - 1) * q
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def row_name(variant, phase):
    return f"{variant}:{phase}" if phase else variant


def samples(runs):
    """(workload, row) to {(round, turn): ns of a unit}, without failed runs and runs of whole recordings."""
    table = {}
    for run in runs:
        if run["whole"] or run["error"]:
            continue
        for part in run["parts"]:
            key = part["name"], row_name(run["variant"], part.get("phase", ""))
            table.setdefault(key, {})[run["round"], part.get("turn", 0)] = part["ns"] / part["count"]
    return table


def paired(values, base, how):
    """how(value, base) of each round that has both."""
    return {r: how(values[r], base[r]) for r in values if r in base}


def overhead(table, workload, row):
    """{round: ns that tracing adds to a unit}."""
    return paired(table.get((workload, row), {}), table.get((workload, "plain"), {}), lambda v, p: v - p)


def ratio_of_overheads(table, workload, row, reference, resamples=1000):
    """The median overhead divided by that of the reference, over the rounds that have both, with its 5 % and 95 % points
    when the rounds are drawn again. None without a reference, or when the reference's overhead is within noise."""
    ours, theirs = overhead(table, workload, row), overhead(table, workload, reference)
    rounds = sorted(set(ours) & set(theirs))
    if not rounds or quantile([theirs[r] for r in rounds], 0.1) <= 0:
        return None
    least = min(t for t in theirs.values() if t > 0)

    def ratio(drawn):
        return median([ours[r] for r in drawn]) / max(median([theirs[r] for r in drawn]), least)

    value = ratio(rounds)
    draw = random.Random(1)
    again = sorted(ratio([draw.choice(rounds) for _ in rounds]) for _ in range(resamples))
    return {"value": value, "low": again[resamples // 20], "high": again[-resamples // 20], "rounds": len(rounds)}


def row(table, workload, name):
    """The figures of one variant on one workload, ns."""
    values = table[workload, name]
    base = table.get((workload, "plain"), {})
    ratios = list(paired(values, base, lambda v, p: v / p).values())
    extra = list(overhead(table, workload, name).values())
    figures = {"workload": workload, "row": name, "rounds": len(values), "median": median(values.values()),
               "p10": quantile(values.values(), 0.1), "p90": quantile(values.values(), 0.9),
               "ratio": median(ratios) if ratios else None, "ratio_p10": quantile(ratios, 0.1) if ratios else None,
               "ratio_p90": quantile(ratios, 0.9) if ratios else None, "overhead": median(extra) if extra else None,
               "overhead_p10": quantile(extra, 0.1) if extra else None,
               "overhead_p90": quantile(extra, 0.9) if extra else None}
    for reference in REFERENCES:
        if name not in (reference, "plain") and ":" not in name:
            figures["of_" + reference] = ratio_of_overheads(table, workload, name, reference)
    return figures


def flags(runs, workload, variant):
    """The faults in the runs of a variant: failures, losses, logs that are not complete. Text to number of runs."""
    found = {}
    for run in runs:
        if run["variant"] != variant or workload not in run["workloads"]:
            continue
        info = run.get("info", {})
        lost = sum(info.get("lost", {}).values())
        if run["error"]:
            text = "failed: " + re.sub(r"\b\d{4,}\b", "N", run["error"])  # PIDs
        elif lost:
            text = "LOST " + ", ".join(sorted(f"{k}" for k, n in info["lost"].items() if n))
        elif info and not info["complete"]:
            text = "not complete: " + "; ".join(info["reasons"])
        else:
            continue
        found[text] = found.get(text, 0) + 1
    return found


def rows(runs, works, chosen):
    """Every row of the table in order: figures, or only flags where no run of a variant succeeded."""
    table = samples(runs)
    result = []
    for work in works:
        for variant in chosen:
            if not variant.runs(work.name):
                continue
            names = [variant.name]
            if variant.kind == variants.ATTACH and variant.log:
                names = [row_name(variant.name, variants.BEFORE), variant.name, row_name(variant.name, variants.AFTER)]
            for name in names:
                measured = (work.name, name) in table
                figures = row(table, work.name, name) if measured else {"workload": work.name, "row": name, "rounds": 0}
                if name == variant.name:
                    figures["flags"] = flags(runs, work.name, variant.name)
                result.append(figures)
    return result


def differences(runs, variant, get):
    """get(run) of a variant's runs minus get(run) of the plain run of that round, program and workloads."""
    def key(run):
        return run["round"], run["program"], tuple(run["workloads"])

    def value(run):
        try:
            return None if run["error"] else get(run)
        except (KeyError, IndexError, TypeError):
            return None

    base = {key(r): value(r) for r in runs if r["variant"] == "plain"}
    pairs = [(value(r), base.get(key(r))) for r in runs if r["variant"] == variant]
    return [v - p for v, p in pairs if v is not None and p is not None]


def per_unit(runs, variant, workload, field):
    """field / count of a workload's loops under a variant, one value per round."""
    parts = [part for run in runs if run["variant"] == variant and not run["error"] and not run["whole"]
             for part in run["parts"]]
    return [p[field] / p["count"] for p in parts if p["name"] == workload and not p.get("phase") and field in p]


def is_alone(run, variant, workload):
    """Whether a run is a recording of that workload alone, with enough units for figures per unit."""
    whole = run["variant"] == variant and run["whole"] and run["workloads"] == [workload] and not run["error"]
    return whole and run["parts"][0]["ns"] < LONG_NS * run["parts"][0]["count"]


def gpu_records(runs, workload):
    """Number of GPU records in a recording of that workload alone that has them all."""
    for run in runs:
        if is_alone(run, "record", workload):
            info = run.get("info", {})
            return sum(info.get(k, 0) for k in ("kernels", "copies", "sets", "graphs"))
    return 0


def recorder_cpu(runs, variant, workload):
    """ns of CPU that the recorder took for each unit: in a recording of that workload alone up to its finished log, or
    else in its loop among others, where records that a loop left in buffers count for a later loop."""
    for run in runs:
        if is_alone(run, variant, workload) and "recorder_cpu_s" in run:
            took = run["recorder_cpu_s"] - run["recorder_cpu_before_s"]
            return {"recorder_cpu_ns": took * 1e9 / run["parts"][0]["count"], "alone": True}
    among = per_unit(runs, variant, workload, "recorder_cpu_ns")
    return {"recorder_cpu_ns": median(among), "alone": False} if among else {}


def after_detach(runs):
    """A loop's time after -p has detached over its time before, less 1, of all workloads and rounds together."""
    table = samples(runs)
    found = []
    for workload, name in table:
        if name == row_name("pid", variants.AFTER):
            before = table.get((workload, row_name("pid", variants.BEFORE)), {})
            found += paired(table[workload, name], before, lambda a, b: a / b - 1).values()
    return {"median": median(found), "p10": quantile(found, 0.1), "p90": quantile(found, 0.9)} if found else None


def record_bytes(runs, variant, workload):
    """Bytes of each file of a recording of that workload alone, for each GPU record."""
    records = gpu_records(runs, workload)
    for run in runs:
        if records and is_alone(run, variant, workload):
            return {suffix: size / records for suffix, size in run["files"].items()}
    return {}


def endings(runs, variant, workload):
    """Seconds from the program's end to the finished files, of a recording of that workload alone. torch.profiler
    writes its files inside the program, after the loop."""
    for run in runs:
        if run["variant"] != variant or not run["whole"] or run["workloads"] != [workload] or run["error"]:
            continue
        if variant == "torch":
            return {k[:-2] + "s": run["parts"][0][k] / 1e9 for k in ("stop_ns", "export_ns") if k in run["parts"][0]}
        if variant != "plain" and "done_s" in run:
            return {"log_s": run["log_s"] - run["exit_s"], "done_s": run["done_s"] - run["exit_s"]}
    return {}


def resources(runs, works, chosen):
    """The resources of a variant other than the program's time, a row per variant and workload."""
    result = []
    for variant in chosen:
        for work in works:
            if not variant.runs(work.name) or variant.name == "plain":
                continue
            figures = {"variant": variant.name, "workload": work.name}
            figures.update(recorder_cpu(runs, variant.name, work.name))
            own, plain = (per_unit(runs, v, work.name, "cpu_ns") for v in (variant.name, "plain"))
            if own and plain:
                figures["program_cpu_ns"] = median(own) - median(plain)
            if size := record_bytes(runs, variant.name, work.name):
                figures["bytes"] = size
            figures.update(endings(runs, variant.name, work.name))
            if len(figures) > 2:
                result.append(figures)
    return result


def seconds(runs, variant):
    """Seconds and bytes that a variant adds once per run: medians over its runs of the difference from plain."""
    merged = [r for r in runs if not r["whole"]]
    figures = {}
    for name, among, get in (
            ("start_s", [r for r in merged if r["program"] == "loops"], lambda r: r["start_s"]),
            ("first_s", merged, lambda r: r["first_s"]),
            ("exit_s", merged, lambda r: r["exit_s"]),
            ("done_s", merged, lambda r: r["done_s"]),
            ("rss_bytes", merged, lambda r: r["parts"][-1]["hwm_kb"] * 1024)):
        if found := differences(among, variant, get):
            figures[name] = median(found)
    return figures
