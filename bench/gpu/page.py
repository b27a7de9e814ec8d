# SPDX-License-Identifier: Apache-2.0
"""The page of what measure.py has found: page.py FILE.json prints it."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from command import NO_TIME

Row = dict[str, Any]
HEADINGS = {"budgets": "Budgets", "methods": "Side by side", "graphs": "CUDA graphs and generated code"}
METHODS = {"checkpoint": "checkpoint, every block", "selective": "checkpoint, selective", "budget": "activation memory budget",
           "decomposed": "activation memory budget, decomposed", "ours": "checkmate.torch"}  # fmt: skip


def _megabytes(size: Any) -> str:
    return "" if size is None else f"{size / 1e6:.1f}" if size >= 1e7 else f"{size / 1e6:.3f}"


def _number(value: Any, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _truth(value: Any, yes: str = "yes", no: str = "**no**") -> str:
    return "" if value is None else yes if value else no


def _table(head: list[str], lines: list[list[str]]) -> list[str]:
    return ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(line) + " |" for line in lines)]


def _setting(row: Row) -> str:
    """Percent of a budget; for ours, compared with another method, its budget in bytes."""
    setting = str(row.get("setting", ""))
    if "method" not in row:
        return setting + (" %" if setting.isdigit() else "")
    return f"{_megabytes(int(setting))} MB" if row["method"] == "ours" and setting.isdigit() else setting


def _name(row: Row) -> str:
    return " ".join(text for text in (METHODS.get(row.get("method", ""), row.get("method", "")), _setting(row)) if text)


def short(row: Row) -> str:
    what = f"{row.get('method', '')} {_setting(row)}".strip()
    if "error" in row:
        return f"{what} {row['error']}".strip()
    relative = f", time {row['relative']:.3f}" if "relative" in row else ""
    wrong = "".join(f", {text}" for text, bad in (("OVER THE BUDGET", row.get("within") is False), ("OTHER BITS", row.get("bitwise") is False)) if bad)
    return f"{what}: {_megabytes(row.get('allocated'))} MB{relative}{wrong}"


def _failed(title: str, row: Row, width: int) -> list[str]:
    return [title, _name(row), row["error"].replace("|", "/"), *[""] * (width - 3)]


def _budgets(cases: list[Row]) -> list[str]:
    head = ["network", "budget", "bytes, MB", "planned", "allocated", "of libraries", "reserved", "by its rules", "within", "bit for bit", "overhead predicted",
            "measured", "planning, s", "first step, s"]  # fmt: skip
    lines = []
    for case in cases:
        title = case["title"]
        for row in case["rows"]:
            if "error" in row:
                lines.append(_failed(title, row, len(head)))
            elif row["setting"] == "eager":
                again = _truth(row["bitwise"], "repeats itself", "does not repeat itself")
                lines.append([title, "eager mode", "", "", _megabytes(row["allocated"]), _megabytes(row["libraries"]), _megabytes(row["reserved"]), "", "",
                              again, "", f"{1e3 * row['seconds']:.1f} ms", "", ""])  # fmt: skip
            else:
                lines.append([title, _setting(row), _megabytes(row["budget"]), _megabytes(row["planned"]),
                              _megabytes(row["allocated"]), _megabytes(row["libraries"]), _megabytes(row["reserved"]), _megabytes(row["planned_reserved"]), _truth(row["within"]),
                              _truth(row["bitwise"]), f"{100 * row['overhead']:.1f} %", f"{100 * (row['relative'] - 1):.1f} %",
                              _number(row["plan_seconds"], 1), _number(row["first_seconds"], 1)])  # fmt: skip
            title = ""
    measured = [row for case in cases for row in case["rows"] if "within" in row]
    known = [row for row in measured if row["bitwise"] is not None]
    summary = f"{sum(row['within'] for row in measured)} of {len(measured)} budgets held; {sum(row['bitwise'] for row in known)} of {len(known)} bit for bit as eager mode."
    return ["", f"## {HEADINGS['budgets']}", "", "Percent are of what eager mode takes above parameters, gradients, buffers, inputs, the optimizer's state and what is allocated",
            "between steps in addition to tensors, such as cuBLAS's workspace (\"of libraries\"); the budget counts all of these. \"By its rules\" is what the",
            "allocator should have reserved for the plan. Times are over those of eager mode in the same round, deterministic kernels in both.", "",
            summary, *_table(head, lines)]  # fmt: skip


def counterpart(row: Row, rows: list[Row]) -> Row | None:
    """Ours with the largest budget that is not above the other method's peak."""
    fitting = [r for r in rows if r["method"] == "ours" and "relative" in r and int(r["setting"]) <= row["allocated"]]
    return max(fitting, key=lambda r: int(r["setting"]), default=None)


def _methods(cases: list[Row]) -> list[str]:
    lines = ["", f"## {HEADINGS['methods']}", "", "All take turns, a step each, in one process; times are medians of ratios to eager mode's step of the same round. Next to each way",
             "of PyTorch's is ours with its peak as the budget."]  # fmt: skip
    head = ["method", "setting", "allocated, MB", "reserved", "time", "least", "most", "ours: allocated", "reserved", "time", "predicted", "ours over it", "planning, s"]
    for case in cases:
        rows = [row for row in case["rows"] if "relative" in row]
        lines += ["", f"### {case['title']}"]
        made = []
        for row in sorted((r for r in rows if r["method"] != "ours"), key=lambda r: -r["allocated"]):
            mine = counterpart(row, rows)
            cells = [METHODS.get(row["method"], row["method"]), row["setting"], _megabytes(row["allocated"]), _megabytes(row["reserved"]),
                     *(_number(row[key]) for key in ("relative", "relative_least", "relative_most"))]  # fmt: skip
            ours = [_megabytes(mine["allocated"]), _megabytes(mine["reserved"]), _number(mine["relative"]), _number(1 + mine["overhead"]),
                    _number(mine["relative"] / row["relative"]), _number(mine["plan_seconds"], 1)] if mine else [""] * 6  # fmt: skip
            made.append(cells + ours)
        failed = [row for row in case["rows"] if "error" in row]
        made += [[*_failed("", row, len(head))[1:], ""] for row in failed if row["error"] != NO_TIME]
        late = [_name(row) for row in failed if row["error"] == NO_TIME]
        if made:
            lines += _table(head, made)
        if late:
            lines += ["", f"No time for: {'; '.join(late)}." if all(late) else f"{NO_TIME[0].upper()}{NO_TIME[1:]}."]
    return lines


def _graphs(cases: list[Row]) -> list[str]:
    head = ["network", "method", "budget, MB", "allocated", "reserved", "within", "ms a step", "over eager mode", "planning, s", "first step, s"]
    lines = []
    for case in cases:
        title = case["title"]
        for row in case["rows"]:
            if "error" in row:
                lines.append(_failed(title, row, len(head)))
            else:
                name = ", ".join(text for text in (METHODS.get(row["method"], row["method"]), row["setting"]) if text)
                lines.append([title, name, _megabytes(row.get("budget")), _megabytes(row["allocated"]), _megabytes(row["reserved"]), _truth(row.get("within")),
                              f"{1e3 * row['seconds']:.1f}", _number(row.get("relative")), _number(row.get("plan_seconds"), 1),
                              _number(row.get("first_seconds"), 1)])  # fmt: skip
            title = ""
    return ["", f"## {HEADINGS['graphs']}", "",
            "Ours with half of what eager mode takes above the base, and with all of it.", *_table(head, lines)]  # fmt: skip


PARTS = {"budgets": _budgets, "methods": _methods, "graphs": _graphs}


def page(record: Row) -> str:
    machine, package = record["machine"], record.get("checkmate", {})
    cores = f"{machine['cores']} cores of {machine['processor']}" if "processor" in machine else f"{machine['cores']} cores"
    device = (f"{machine['gpu']}, {machine['memory'] / 1e9:.1f} GB, CUDA {machine['cuda']}, cuDNN {machine['cudnn']}, allocator settings "
              f"\"{machine['allocator']}\"; {cores}") if record["device"] == "cuda" else f"{machine['threads']} thread{'s' if machine['threads'] != 1 else ''}, {cores}"  # fmt: skip
    commit = f", commit {package['commit']}" if "commit" in package else ""
    measured = f"checkmate {package['version']} {package['package']}{commit}; " if package else ""
    date = f"{record['date']}, " if "date" in record else ""
    lines = ["# checkmate.torch on a GPU" if record["device"] == "cuda" else "# checkmate.torch: the GPU's script, on a CPU", "",
             f"`{record['command']}`: {date}{record.get('seconds', 0) / 60:.1f} minutes.", "",
             f"{measured}PyTorch {machine['torch']}, Python {machine['python']}, {machine['system']}. {device}.", "",
             f"Tests on CUDA: {record['tests']}."]  # fmt: skip
    if record["device"] != "cuda":
        size = "small models" if record["small"] else "full size"
        lines += ["", f"**No GPU: CPU, {size}; CUDA graphs and reserved bytes not measured.** "
                  "What is here says that the script runs, not how fast a GPU is."]  # fmt: skip
    for part, made in PARTS.items():
        found = [case for case in record["cases"] if case["part"] == part]
        # The comparisons are made of some networks only.
        others = dict.fromkeys(case["title"] for case in record["cases"] if case["network"] not in {c["network"] for c in found})
        if found:
            lines += made(found)
        elif part in record.get("parts", []):
            lines += ["", f"## {HEADINGS[part]}"]
        if others and (found or part in record.get("parts", [])):
            lines += ["", f"Not measured in this way: {'; '.join(others)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
