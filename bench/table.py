"""The figures as markdown, and files that are replaced whole."""
import os

import claims
import variants

# The first table: a row for each of these workloads, a column for each of these variants.
FACE_ROWS = {"a": "launch loop, a launch", "c": "PyTorch training, a step", "k": "PyTorch decoding"}
FACE_COLUMNS = {"plain": "not traced", "record": "`cudatrace record`", "python-off": "without Python lines",
                "cupti": "`--calls cupti`", "nsys": "`nsys profile -t cuda`", "torch": "torch.profiler"}
LOOP = ["", "median", "p10..p90", "× plain", "added", "of nsys's", "of torch.profiler's", "turns", ""]
BESIDE = ["", "workload", "recorder's CPU, µs a unit", "program's CPU, µs a unit", "bytes a GPU record",
          "s from the program's end to the files"]
ONCE = ["", "start of the program", "first CUDA call", "last line to the program's end", "last line to the last file",
        "program's peak memory"]
DIGITS = {"ns": 0, "us": 2, "ms": 3}


def grid(head, rows):
    """A markdown table; nothing without rows."""
    if not rows:
        return []
    return ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|",
            *("| " + " | ".join(cell(text) for text in row) + " |" for row in rows), ""]


def titled(title, head, rows):
    """A table under a title; nothing without rows."""
    return [title, "", *grid(head, rows)] if rows else []


def title(work, arg):
    """The title of a workload's table."""
    return f"**{work.name}: {work.title.format(arg=arg)}** ({scale(work)} a {work.unit})"


def scale(work):
    """The time unit of a workload's tables."""
    return work.scale.replace("us", "µs")


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def titles(chosen):
    table = {v.name: v.title for v in chosen}
    for v in chosen:
        if v.kind == variants.ATTACH:
            table[f"{v.name}:{variants.BEFORE}"] = "not traced: before `-p` attaches"
            table[f"{v.name}:{variants.AFTER}"] = "not traced: after `-p` has detached"
    return table


def share(figure):
    """A ratio of overheads with its range."""
    return f"{figure['value']:.2f} ({figure['low']:.2f}..{figure['high']:.2f})" if figure else ""


def written(work, ns):
    """A time in the unit of the workload's table."""
    return "" if ns is None else f"{ns / work.per:,.{DIGITS[work.scale]}f}"


def signed(text):
    return text if text.startswith("-") else "+" + text


def flag_text(flags):
    return "; ".join(f"{text[:160]} ({n}×)" for text, n in flags.items())


def face(summary, works):
    """The first table: each program's speed under each tracer, × plain with the 10 % and 90 % points of the paired ratios."""
    rows = {(r["workload"], r["row"]): r for r in summary["rows"] if r["rounds"]}
    shown = [w for w in works if w.name in FACE_ROWS and (w.name, "plain") in rows]
    columns = [v for v in FACE_COLUMNS if any((w.name, v) in rows for w in shown)]
    if len(columns) < 2:
        return []
    return grid(["", *(FACE_COLUMNS[v] for v in columns)],
                [[FACE_ROWS[w.name], *(face_cell(w, rows.get((w.name, v))) for v in columns)] for w in shown])


def face_cell(work, row):
    """The time of a unit and its ratio to plain. For tokens: tokens a second and the share that tracing leaves."""
    if row is None:
        return ""
    tokens = work.unit == "token"
    text = f"{1e9 / row['median']:,.0f} tokens/s" if tokens else f"{written(work, row['median'])} {scale(work)}"
    if row["row"] == "plain" or row["ratio"] is None:
        return text
    ratio, low, high = row["ratio"], row["ratio_p10"], row["ratio_p90"]
    if tokens:
        return f"{text}: keeps {100 / ratio:.0f} % ({100 / high:.0f}..{100 / low:.0f})"
    return f"{text}: × {ratio:.2f} ({low:.2f}..{high:.2f})"


def loop_rows(summary, work, names):
    rows = []
    for r in summary["rows"]:
        if r["workload"] != work.name:
            continue
        name, remark = names[r["row"]], flag_text(r.get("flags", {}))
        plain = r["row"] == "plain"
        rows.append([name, *[""] * 7, remark or "not run"] if not r["rounds"] else [
            name, written(work, r["median"]), f"{written(work, r['p10'])}..{written(work, r['p90'])}",
            "" if plain or r["ratio"] is None else f"{r['ratio']:.3f}",
            "" if plain or r["overhead"] is None else signed(written(work, r["overhead"])),
            share(r.get("of_nsys")), share(r.get("of_torch")), r["rounds"], remark])
    return rows


def loops(summary, works, chosen, args):
    names, lines = titles(chosen), []
    for work in works:
        lines += [title(work, args[work.name]), ""]
        rows = loop_rows(summary, work, names)
        keep = [i for i in range(len(LOOP)) if i == 0 or any(str(row[i]) for row in rows)]
        lines += grid([LOOP[i] for i in keep], [[row[i] for i in keep] for row in rows])
    return lines


def resource_rows(summary, names):
    for r in summary["resources"]:
        recorder, own = r.get("recorder_cpu_ns"), r.get("program_cpu_ns")
        size = ", ".join(f"{suffix[1:]} {n:,.1f}" for suffix, n in r.get("bytes", {}).items() if suffix != ".bytes")
        ends = ", ".join(f"{what} {r[key]:.2f}" for key, what in (
            ("log_s", "log"), ("done_s", "all"), ("stop_s", "stop"), ("export_s", "export")) if key in r)
        if not r.get("alone") and not size and not ends:
            continue
        yield [names[r["variant"]], r["workload"], f"{recorder / 1e3:,.2f}" if r.get("alone") else "",
               "" if own is None else f"{own / 1e3:+,.2f}", size, ends]


def once_rows(summary, names):
    for name, s in summary["once"].items():
        if name == "plain":
            continue
        def text(key, scale, unit):
            return f"{s[key] * scale:+,.0f} {unit}" if key in s else ""
        yield [names[name], text("start_s", 1e3, "ms"), text("first_s", 1e3, "ms"), text("exit_s", 1e3, "ms"),
               text("done_s", 1e3, "ms"), text("rss_bytes", 1e-6, "MB")]


def floor_lines(floor):
    """The benchmark of package record/probe: a call of cuLaunchKernel with the recorder's probes and with empty ones."""
    if not floor:
        return []
    if "error" in floor:
        return [f"The benchmark of `record/probe` did not run: {floor['error']}", ""]
    plain = floor.get("plain", 0)
    rows = [[name, f"{ns:,.0f}", f"{ns - plain:+,.0f}" if name != "plain" else ""]
            for name, ns in sorted(floor.items(), key=lambda item: item[1])]
    return ["**A call of `cuLaunchKernel` alone** (`BenchmarkCall` of `record/probe`, ns a call)", "",
            *grid(["", "median", "added"], rows)]


def head(machine, rounds, turns, command):
    """The first lines of a document."""
    facts = ", ".join(f"{k} {v}" for k, v in machine.items())
    return [f"{facts}; {rounds} rounds{f' of {turns} turns' if turns > 1 else ''}.", f"Command: `{command}`", ""]


def document(result, works, chosen):
    """The whole document."""
    names, summary = titles(chosen), result["summary"]
    lines = head(result["machine"], summary["rounds"], result.get("turns", 1), result["command"])
    lines += face(summary, works)
    lines += loops(summary, works, chosen, {w["name"]: w["arg"] for w in result["workloads"]})
    lines += floor_lines(summary["floor"])
    lines += titled("**Beside the loops**", BESIDE, list(resource_rows(summary, names)))
    lines += titled("**Once a run, beyond the plain run**", ONCE, list(once_rows(summary, names)))
    lines += titled("**Bounds**", ["", "measured", "at most", ""],
                    [[c["claim"], c["written"], c["written_bound"], c["verdict"]] for c in summary["claims"] if c["verdict"] != claims.UNKNOWN])
    for problem in result["problems"]:
        lines += [f"- {problem}"]
    return "\n".join(lines) + "\n"


def replace(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)
