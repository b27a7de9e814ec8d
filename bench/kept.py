# SPDX-License-Identifier: Apache-2.0
"""Records from which a measurement is resumed: one JSON object a line, of which the last of a case counts.

Each says at which commit, on which processor and with which versions it was made. `into` replaces a table in a page.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib.metadata
import json
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
Row = dict[str, Any]
#: What a measurement depends on. Records and pages change while it runs.
SOURCES = ("src", "include", "cmake", "python/src", "bench", ":(exclude)bench/results", ":(exclude)*.md")


def processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def commit() -> str:
    """Of this tree, with "-dirty" behind it where a source is not the commit's; "" if it is no checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    try:
        if pathlib.Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return ""
        return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", *SOURCES) else "")
    except (OSError, subprocess.SubprocessError):
        return ""


@functools.cache
def versions(*packages: str) -> str:
    found = []
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(found)


def read(records: pathlib.Path) -> dict[str, Row]:
    """The last row of each case."""
    rows = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    return {row["case"]: row for row in rows}


def missing(records: pathlib.Path, names: list[str]) -> list[str]:
    """Those without a record, and those whose last one says that they failed."""
    known = read(records)
    return [name for name in names if "failed" in known.get(name, {"failed": ""})]


def keep(records: pathlib.Path, row: Row, *packages: str) -> None:
    """Adds a row, with what it was made by."""
    row = row | {"commit": commit(), "on": processor(), "versions": versions(*packages)}
    print(json.dumps(row), file=sys.stderr, flush=True)
    records.parent.mkdir(exist_ok=True)
    with records.open("a") as file:
        file.write(json.dumps(row) + "\n")


def made(rows: list[Row]) -> str:
    """By what rows were made, in a sentence for each."""
    sentences = []
    for key, title in (("commit", "Commits"), ("on", "Processors"), ("versions", "Versions")):
        counts = collections.Counter(row.get(key) or "not kept" for row in rows)
        shown = "; ".join(f"{value} ({count} rows)" for value, count in counts.most_common())
        sentences.append(f"{title}: {shown if len(counts) > 1 else next(iter(counts), '')}.")
    return " ".join(sentences)


def into(page: str, mark: str, text: str) -> str:
    """The page with what is between the two markers replaced."""
    changed, count = re.subn(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", lambda m: m[1] + text + "\n" + m[2], page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f'the page has {count} places for "{mark}", not one: <!-- {mark} --> and <!-- end -->')
    return changed


def put(path: pathlib.Path, mark: str, text: str) -> None:
    path.write_text(into(path.read_text(), mark, text))
