#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each component of `solve` is worth: solves with everything, then without each component that was called.

    bench/ablate.py [--time-limit S] [--seeds N] [--budgets B,B,...] [--only TEXT] [--rows GRAPH:BUDGET,...] [--components NAME,...]
                    [--jobs N] [--output CSV] [--page FILE] [--resume]

Rows are graphs (bench/graphs, and where they are ../shared/cases/near_floor) under budgets: a percentage of the peak without
rematerialization, or a multiple, such as 1.1x, of the least that is known to be enough. Each solve has one thread; --jobs of
them run at a time. A component that a solve has not called cannot change it and is not left out there. --components A+B leaves
out two together.

The page says for each component in how many rows it was called, its share of the time, what it found, and what its absence
changes: overhead and gap in points, the median over seeds in each row; how many rows lose more than 0.1 points or their
schedule. By these a component stays that costs more than 0.1 points on 5 % of the rows, or loses a schedule. A quiet machine
is needed. The program is CHECKMATE, build/checkmate by default; CKM_SHARED_CASES is ../shared/cases by default.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("CHECKMATE", str(ROOT / "build/checkmate"))
CASES = pathlib.Path(os.environ.get("CKM_SHARED_CASES", ROOT.parent / "shared/cases"))
FIELDS = ["graph", "budget", "budget_bytes", "seed", "without", "overhead_percent", "gap_percent", "found_by", "proven_by", "components"]
WORSE = 0.1  # points
SHARE = 0.05  # of rows


def solve(path, *arguments):
    """The program's JSON; None where it fails, said on standard error."""
    command = [PROGRAM, "solve", str(path), "--json", "--verbose", "-j", "1", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        print(f"ablate: {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def graphs(only):
    paths = sorted((ROOT / "bench/graphs").glob("*.json")) + sorted((CASES / "near_floor").glob("*.json"))
    return [path for path in paths if only in path.stem]


def bytes_of(path, budget, least):
    """The budget in bytes. `least` caches what is known to be enough, by graph."""
    if not budget.endswith("x"):
        return budget
    if path not in least:
        found = solve(path, "--budget", "min", "-t", 20)
        least[path] = found["least_budget_bytes"] if found else None
    return int(float(budget[:-1]) * least[path]) if least[path] else None


def row_of(path, budget, size, seed, without, limit):
    extra = ["--without", without.replace("+", ",")] if without else []
    found = solve(path, "--budget", size, "--seed", seed, "-t", limit, *extra)
    if found is None:
        return None
    percent = lambda value: "" if value is None else f"{100 * value:.4f}"  # noqa: E731
    return {"graph": path.stem, "budget": budget, "budget_bytes": found["budget_bytes"], "seed": seed, "without": without,
            "overhead_percent": percent(found["overhead"]), "gap_percent": percent(found["gap"]), "found_by": found["found_by"] or "",
            "proven_by": found["proven_by"] or "", "components": json.dumps(found["components"]) if not without else ""}  # fmt: skip


def measure(arguments, rows, write):
    """Adds to `rows`, by (graph, budget, seed, without), what they lack."""
    least = {}
    limit, seeds = arguments.time_limit, range(1, arguments.seeds + 1)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:

        def run(tasks):
            missing = [task for task in tasks if (task[0].stem, task[1], str(task[3]), task[4]) not in rows]
            for row in pool.map(lambda task: row_of(*task, limit), missing):
                if row is not None:
                    rows[row["graph"], row["budget"], str(row["seed"]), row["without"]] = row
                    write(row)

        wanted = arguments.rows.split(",") if arguments.rows else None
        for path in graphs(arguments.only):
            for budget in arguments.budgets.split(",") if wanted is None else [w.split(":")[1] for w in wanted if w.split(":")[0] == path.stem]:
                size = bytes_of(path, budget, least)
                if size is None:
                    continue
                run([(path, budget, size, seed, "") for seed in seeds])
                tasks = []
                for seed in seeds:
                    whole = rows.get((path.stem, budget, str(seed), ""))
                    called = json.loads(whole["components"]) if whole else {}
                    names = arguments.components.split(",") if arguments.components else called
                    tasks += [(path, budget, size, seed, name) for name in names if any(part in called for part in name.split("+"))]
                run(tasks)
                print(f"{path.stem} {budget}", file=sys.stderr)


def changes(rows, name):
    """By row of the table, over its seeds: median changes of overhead and gap in points, and schedules lost."""
    overheads, gaps, lost = [], [], 0
    for graph, budget in sorted({key[:2] for key in rows if key[3] == name}):
        more, wider, gone = [], [], 0
        for key, row in rows.items():
            if key[:2] == (graph, budget) and key[3] == name:
                whole = rows[graph, budget, key[2], ""]
                gone += bool(whole["overhead_percent"] and not row["overhead_percent"])
                if whole["overhead_percent"] and row["overhead_percent"]:
                    more.append(float(row["overhead_percent"]) - float(whole["overhead_percent"]))
                if whole["gap_percent"] and row["gap_percent"]:
                    wider.append(float(row["gap_percent"]) - float(whole["gap_percent"]))
        lost += gone > 0
        overheads += [statistics.median(more)] if more else []
        gaps += [statistics.median(wider)] if wider else []
    return overheads, gaps, lost


def page(rows, arguments):
    wholes = [json.loads(row["components"]) for key, row in rows.items() if key[3] == ""]
    total = {}
    for whole in wholes:
        for name, use in whole.items():
            sums = total.setdefault(name, {"solves": 0, "wall_seconds": 0.0, "schedules": 0, "bounds": 0})
            sums["solves"] += 1
            for member in ("wall_seconds", "schedules", "bounds"):
                sums[member] += use[member]
    seconds = sum(sums["wall_seconds"] for sums in total.values()) or 1.0
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False).stdout.strip()
    lines = ["# What components are worth", "",
             f"{version}, {commit or 'no commit'}, {platform.processor() or platform.machine()}: `bench/ablate.py --time-limit {arguments.time_limit:g} "
             f"--seeds {arguments.seeds} {'--rows ' + arguments.rows if arguments.rows else '--budgets ' + arguments.budgets}`, {len(wholes)} solves with everything, {len(rows) - len(wholes)} without a component.",
             "Changes are in points, medians over seeds; *worse*: rows that lose more than 0.1 points of overhead or gap.", "",
             "| component | called in | time | schedules | bounds | overhead, median | worst | gap, median | worst | worse | schedules lost | stays |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name in [*total, *sorted({key[3] for key in rows if "+" in key[3]})]:
        parts = [total[part] for part in name.split("+") if part in total]
        sums = {member: sum(part[member] for part in parts) for member in ("wall_seconds", "schedules", "bounds")}
        sums["solves"] = max(part["solves"] for part in parts)
        overheads, gaps, lost = changes(rows, name)
        if not overheads and not gaps and not lost:
            continue
        worse = max(sum(x > WORSE for x in overheads), sum(x > WORSE for x in gaps))
        n = max(len(overheads), len(gaps), 1)
        stays = "yes" if lost or worse > SHARE * n else "no"
        show = lambda values, pick: f"{pick(values):+.3f}" if values else "–"  # noqa: E731
        lines.append(f"| {name} | {sums['solves']} of {len(wholes)} | {100 * sums['wall_seconds'] / seconds:.1f} % | {sums['schedules']} | "
                     f"{sums['bounds']} | {show(overheads, statistics.median)} | {show(overheads, max)} | {show(gaps, statistics.median)} | "
                     f"{show(gaps, max)} | {worse} of {n} | {lost} | {stays} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="50%,35%,20%,1.1x,1.3x")
    parser.add_argument("--only", default="", help="graphs whose name has this")
    parser.add_argument("--rows", default="", help="these alone: GRAPH:BUDGET,...")
    parser.add_argument("--components", default="", help="leave out these alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", help="CSV of all solves")
    parser.add_argument("--page", help="the table as Markdown; standard output otherwise")
    parser.add_argument("--resume", action="store_true", help="keep what the CSV has")
    arguments = parser.parse_args()
    rows = {}
    if arguments.resume and arguments.output and os.path.exists(arguments.output):
        with open(arguments.output, newline="", encoding="utf-8") as file:
            rows = {(row["graph"], row["budget"], row["seed"], row["without"]): row for row in csv.DictReader(file)}
    with open(arguments.output or os.devnull, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows.values())

        def write(row):
            writer.writerow(row)
            file.flush()

        measure(arguments, rows, write)
    if arguments.page:
        pathlib.Path(arguments.page).write_text(page(rows, arguments), encoding="utf-8")
    else:
        print(page(rows, arguments), end="")


if __name__ == "__main__":
    main()
