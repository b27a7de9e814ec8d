# SPDX-License-Identifier: Apache-2.0
"""The table of what zoo_budgets.py has measured, one line a model, and what in it must not be."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
SHARES = ("70", "50", "min")

#: How much more than eager mode a plan without rematerialization may take: at the end of the forward pass torch.compile has both old and new
#: statistics of batch norms, and some numbers became constants of the graph.
MORE = 0.002

#: Why results are not eager mode's though they are those of PyTorch's own tracing, where it is known.
WHY = {"Mamba": "its code scans when it is compiled, unless `use_associative_scan=False`"}

#: Why a model is refused, in short.
REFUSED = {
    "requires_grad": "sets `requires_grad` of an activation",
    "Data-dependent": "branches on data",
    "data-dependent": "sizes depend on data",
}


def cases(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["case"], []).append(row)
    return found


def faults(row: Row) -> list[str]:
    """What must not be, of one row."""
    if "error" in row:
        return []
    if "infeasible" in row:
        return ["the budget named does not work"] if row["setting"] == "named" else []
    found = []
    if row["measured"] > row["budget"]:
        found.append(f"{row['measured'] - row['budget']:,} bytes over the budget")
    if row["baseline"] > row["eager"] * (1 + MORE):
        found.append(f"{row['baseline'] - row['eager']:,} bytes more than eager mode without rematerialization")
    if row["same"].startswith("differs"):
        found.append("results are neither eager mode's nor aot_eager's")
    return found


def mb(size: int) -> str:
    return f"{size / 1e6:.1f}"


def results(name: str, rows: list[Row]) -> str:
    for row in rows:
        if "error" in row:
            short = next((text for key, text in REFUSED.items() if key in row["error"]), row["error"][:80])
            return f"refused: {short}" if row["error"].startswith("UnsupportedError") else short
    same = {row["same"] for row in rows if "same" in row}
    if same <= {"eager"}:
        return "bit for bit"
    if all(text == "eager" or text.startswith("aot_eager") for text in same):
        source = next(text for text in same if text != "eager").partition("(")[2].rstrip(")")
        return f"as `aot_eager`: {WHY.get(name, f'{source} traces other calls')}"
    return "**differs**"


def line(name: str, rows: list[Row]) -> str:
    by = {row["setting"]: row for row in rows}
    first = next((row for row in rows if "eager" in row), None)
    if first is None:
        return f"| {name} | | | | | | | | | {results(name, rows)} |"

    def each(what: str, text: str, scale: float = 1.0) -> str:
        return ", ".join("-" if by.get(s, {}).get(what) is None else text.format(scale * by[s][what]) for s in SHARES)

    def planned(setting: str) -> str:
        row = by.get(setting, {})
        return mb(row["planned"]) if "planned" in row else "does not fit" if "infeasible" in row else "-"

    unplanned = next((row["baseline"] for row in rows if "baseline" in row), None)
    named = by.get("named", {})
    works = "-" if not named else mb(named["budget"]) if "planned" in named else "**no**"
    over = "-" if unplanned is None else f"{unplanned / first['eager']:.3f}"
    return (f"| {name} | {mb(first['eager'])} | {over} | {mb(first['base'])} "
            f"| {', '.join(map(planned, SHARES))} | {ratio(rows)} | {each('overhead', '{:.1f}', 100)} | {each('gap', '{:.1f}', 100)} "
            f"| {each('seconds', '{:.0f}')} | {works} | {results(name, rows)} |")  # fmt: skip


def ratio(rows: list[Row]) -> str:
    """Measured over planned."""
    found = [row["measured"] / row["planned"] for row in rows if "measured" in row]
    low, high = (f"{least:.3f}" for least in (min(found, default=0), max(found, default=0)))
    return "-" if not found else low if low == high else f"{low} to {high}"


def table(rows: list[Row]) -> str:
    found = cases(rows)
    lines = ["| model | eager mode, MB | unplanned over it | always there | planned at 70, 50 %, least | measured over planned "
             "| overhead, % | gap, % | planning, s | named, works | results |", "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    lines += [line(name, of) for name, of in found.items()]
    measured = [row for row in rows if "measured" in row]
    wrong = [f"- {row['case']}, {row['setting']}: {text}" for row in rows for text in faults(row)]
    ended = [results(name, of) for name, of in found.items()]
    lines += ["", f"{len(found)} models, {len(measured)} budgets: {sum(row['measured'] <= row['budget'] for row in measured)} held; "
              f"{ended.count('bit for bit')} models bit for bit, {sum(e.startswith('as ') for e in ended)} as `aot_eager`, "
              f"{sum(e.startswith('refused') for e in ended)} refused.", *wrong]  # fmt: skip
    return "\n".join(lines)
