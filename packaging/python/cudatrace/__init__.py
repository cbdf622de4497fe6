"""Reads what cudatrace recorded of a CUDA program, and marks steps and ranges in a program that it records.

    import cudatrace

    run = cudatrace.load("train.cudatrace")
    run["work"]["dur_ns"]          # a column is a list
    pandas.DataFrame(run["work"])  # a table is a dict of columns

In a notebook, cudatrace.report("train.cudatrace") shows the report. In a training loop, cudatrace.step() begins a
step, and `with cudatrace.range("forward"):` is an NVTX range; both do nothing where nothing records.

The module needs nothing but Python 3.9 and the program cudatrace.
"""
import html
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from typing import Any, Dict, List, Union

from ._marks import range, step

# Without range, which would hide Python's own after "from cudatrace import *".
__all__ = ["Error", "load", "program", "report", "step"]

Path = Union[str, "os.PathLike[str]"]
Table = Dict[str, List[Any]]


class Error(Exception):
    """What the program says went wrong."""


def program() -> str:
    """Returns the path of the program: that of this package, else the one that PATH has."""
    beside = os.path.join(sysconfig.get_path("scripts"), "cudatrace")
    for path in (beside, os.path.join(os.path.dirname(sys.executable), "cudatrace"), shutil.which("cudatrace")):
        if path and os.access(path, os.X_OK):
            return path
    raise Error("there is no program cudatrace beside Python, nor in PATH: install the package again")


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    # A log that is damaged or incomplete ends with 1, and has its results all the same.
    return subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stderr.strip() or "cudatrace ended with exit code %d" % done.returncode


def load(*logs: Path) -> Dict[str, Table]:
    """Returns the tables of logs by name, each a dict of columns of one length. docs/parquet.md explains the columns.

    None stands for what is not known. Raises Error where a log cannot be read, and warns where one is not complete.
    """
    done = _run("convert", *map(os.fspath, logs), "--format", "ndjson", "-o", "-")
    tables: Dict[str, Table] = {}
    rows: Dict[str, int] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        name = row.pop("table")
        columns, n = tables.setdefault(name, {}), rows.get(name, 0)
        for key, value in row.items():
            column = columns.setdefault(key, [])
            column.extend([None] * (n - len(column)))
            column.append(value)
        rows[name] = n + 1
    for name, columns in tables.items():
        for column in columns.values():
            column.extend([None] * (rows[name] - len(column)))
    if not tables:
        raise Error(_said(done))
    if done.returncode != 0:
        warnings.warn(_said(done), stacklevel=2)
    return tables


class Report:
    """The page of a report, which a notebook shows."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        frame = '<iframe srcdoc="%s" sandbox="allow-same-origin" style="width:100%%;height:800px;border:0"></iframe>'
        return frame % html.escape(self.page, quote=True)


def report(*logs: Path) -> Report:
    """Returns the report of logs, for the end of a notebook's cell; its page is HTML without scripts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.html")
        done = _run("report", *map(os.fspath, logs), "-o", path)
        if not os.path.exists(path):
            raise Error(_said(done))
        with open(path, encoding="utf-8") as page:
            return Report(page.read())
