"""Figures and tables of runs.

The processors of a shared host change their speed by half, every few tenths of a second. So the time of an operation is the 10 % point
of all parts: its time while the processors are fast. Two untraced programs agree in it within 1 %, where their medians are 6 % apart,
and dividing by a spin loop's time beside each part makes them 12 % apart (an H200, 60 turns). What hits less than nine parts of ten is
in the mean alone, which is given, too.
"""
import json
import os
import random
import re
import statistics

import rows

RESAMPLES = 300
LEAST_TURNS = 6  # for an interval


def samples(runs):
    """(workload, variant) to the ns of an operation in each part of each turn, without failed runs."""
    table = {}
    for run in runs:
        for part in run["parts"] if not run["error"] else []:
            table.setdefault((part["name"], run["variant"]), []).append([ns / part["unit"] for ns in part["ns"]])
    return table


def fast(turns):
    """The 10 % point of all parts."""
    parts = sorted(ns for turn in turns for ns in turn)
    return parts[len(parts) // 10]


def mean(turns):
    return statistics.fmean(ns for turn in turns for ns in turn)


def ratio(values, base, seed=1):
    """How many times as long as base, the bounds of the 95 % interval, None with few turns, and the same by the means. None without
    turns."""
    if not values or not base:
        return None
    chance = random.Random(seed)
    draw = lambda turns: fast(chance.choices(turns, k=len(turns)))
    few = min(len(values), len(base)) < LEAST_TURNS
    found = [] if few else sorted(draw(values) / draw(base) for _ in range(RESAMPLES))
    return {"ratio": fast(values) / fast(base), "mean": mean(values) / mean(base), "turns": len(values),
            "low": None if few else found[RESAMPLES // 40], "high": None if few else found[-RESAMPLES // 40 - 1]}


def flags(runs, variant):
    """What is wrong with the runs of a variant, and how often."""
    found = {}
    for run in runs:
        if run["variant"] != variant:
            continue
        info = run.get("info", {})
        if run["error"]:
            text = "failed: " + re.sub(r"\b\d{4,}\b", "N", run["error"])[:160]  # PIDs
        elif info and not info["complete"]:
            text = "not complete: " + "; ".join(info["reasons"])
        else:
            continue
        found[text] = found.get(text, 0) + 1
    return found


def summary(runs, works, variants):
    """A row for each workload and variant."""
    table, result = samples(runs), []
    for work in works:
        plain, floor = table.get((work.name, rows.PLAIN)), table.get((work.name, rows.FLOOR))
        for variant in variants:
            values = table.get((work.name, variant.name))
            if values:
                result.append({"workload": work.name, "variant": variant.name, "ns": fast(values),
                               "of_plain": ratio(values, plain) if variant.name != rows.PLAIN else None,
                               "of_floor": ratio(values, floor) if variant.name not in (rows.PLAIN, rows.FLOOR, "again") else None})
    return result


def written(found):
    """A ratio with its interval."""
    if not found:
        return ""
    bounds = f" ({found['low']:.3f}..{found['high']:.3f})" if found["low"] is not None else ""
    return f"× {found['ratio']:.3f}{bounds}"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def grid(head, lines):
    """A markdown table."""
    return ["| " + " | ".join(cell(word) for word in line) + " |" for line in (head, ["---"] * len(head), *lines)]


def document(result, works, variants):
    """All results as markdown."""
    turns = {(r["workload"], r["variant"]): r for r in result["summary"]}
    lines = [", ".join(f"{k} {v}" for k, v in result["machine"].items()) + f"; {result['rounds']} rounds of {result['turns']} turns.",
             f"Command: `{result['command']}`", ""]
    for work in works:
        own = [(v, turns[work.name, v.name]) for v in variants if (work.name, v.name) in turns]
        plain = next((r["ns"] for v, r in own if v.name == rows.PLAIN), None)
        if not own or plain is None:
            continue
        lines += [f"**{work.name}: {work.title.format(arg=result['args'][work.name])}** (not traced: {plain / work.per:,.4g} {work.scale} a {work.unit})", ""]
        lines += grid(["", "× not traced (95 %)", f"added, {work.scale}", "× the floor (95 %)", "× not traced, means", "turns"],
                      [[v.title, written(r["of_plain"]), f"{(r['ns'] - plain) / work.per:+,.3g}", written(r["of_floor"]),
                        f"{r['of_plain']['mean']:.2f}", r["of_plain"]["turns"]] for v, r in own if r["of_plain"]]) + [""]
    lines += [f"- {v.title}: {text} ({n} ×)" for v in variants for text, n in flags(result["runs"], v.name).items()]
    return "\n".join([*lines, *(f"- {problem}" for problem in result["problems"])]) + "\n"


def write(folder, result, works, variants):
    """Writes both files, and returns the text of the tables."""
    text = document(result, works, variants)
    for name, contents in (("overhead.json", json.dumps(result)), ("overhead.md", text)):
        path = os.path.join(folder, name)
        with open(path + ".new", "w") as f:
            f.write(contents)
        os.replace(path + ".new", path)
    return text
