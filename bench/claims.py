#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what `solve` claims against schedules found otherwise.

For every graph (bench/graphs, the zoo's, and where they are ../shared/cases) and every budget (1.02, 1.05, 1.1, 1.2 and 1.5
times the memory floor), `solve` says "infeasible", "optimal" or a bound, for a class of schedules. Other seeds, a longer time,
`--reorder` and every other strategy look for schedules within the same budget. A schedule of the class contradicts
"infeasible", and a bound above its cost. Prints what was tried and "contradicted: N", and ends with 1 where N is not 0.

    bench/claims.py [--time-limit S] [--search S] [--seeds N] [--only TEXT] [--budgets F,F,...] [--output CSV] [--resume]

The program is CHECKMATE, build/checkmate by default; CKM_SHARED_CASES is ../shared/cases by default.
"""

import argparse
import csv
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("CHECKMATE", str(ROOT / "build/checkmate"))
CASES = pathlib.Path(os.environ.get("CKM_SHARED_CASES", ROOT.parent / "shared/cases"))
CLASSES = {"any": 0, "order": 1, "frontier": 2}  # each holds those after it
FIELDS = ["graph", "floors", "budget_bytes", "status", "covers", "bound", "cost", "found", "cheapest", "contradicted_by"]


def names(command, indent):
    """The first word of the lines of a listing that are indented like this."""
    lines = subprocess.run([PROGRAM, command], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines if len(line) - len(line.lstrip()) == indent and line.strip()]


def run(*arguments):
    """The program's JSON, or None where it fails."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        if "the integer program has more than" not in done.stderr:
            print(f"claims: {' '.join(map(str, arguments))}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def zoo(folder):
    """Files of the zoo's networks, an operator for everything that runs, in small batches."""
    for name in names("models", 2):
        if name.startswith("linear"):
            continue
        path = folder / f"{name}.json"
        made = subprocess.run([PROGRAM, "graph", name, "--batch", "8", "-o", str(path)], capture_output=True, check=False)
        if made.returncode == 0:
            yield name, path


def graphs(folder):
    for path in sorted((ROOT / "bench/graphs").glob("*.json")):
        yield path.stem, path
    for path in sorted([*CASES.glob("*.json"), *CASES.glob("near_floor/*.json")]):
        try:
            document = json.loads(path.read_text())
        except ValueError:
            continue
        if document.get("format") == "checkmate-graph" and len(document.get("ops", [])) > 8:
            yield f"cases/{path.stem}", path
    yield from zoo(folder)


def class_of(graph, steps):
    """The narrowest class that a schedule belongs to: the rules of docs/ARCHITECTURE.md, once more."""
    narrowest = "frontier"
    stage = 0  # which ends with the first computation of the operator of this number
    before = -1  # the last one computed in the stage
    for op in (step[1] for step in steps if step[0] == "compute"):
        if op > stage:
            return "any"
        if op == stage:
            stage, before = stage + 1, -1
            continue
        if op <= before or stage == len(graph["ops"]):
            narrowest = "order"
        before = op
    return narrowest


# The largest number of operators for which the paper's program is tried: building it ignores the time limit.
SMALL = 200


def challenge(path, n_ops, budget, options, schedule):
    """Schedules within the budget, from wherever: (who, cost, file's steps)."""
    seconds = options.search
    tries = [("auto", ["--seed", 101 + k, "--time-limit", seconds * (2 if k == 0 else 1)]) for k in range(options.seeds)]
    tries.append(("auto", ["--reorder", "--seed", 7, "--time-limit", seconds]))
    others = [name for name in names("strategies", 0) if name != "auto" and not name.endswith("-bound")]
    if n_ops > SMALL:
        others = [name for name in others if name not in ("ilp", "lp-round", "lp-random")]
    tries += [(name, ["--time-limit", min(seconds, 0.5)]) for name in others]
    for name, options in tries:
        schedule.unlink(missing_ok=True)
        told = run("solve", path, "--budget", budget, "--strategy", name, "--threads", 1, "--json", "-o", schedule, *options)
        if told is not None and schedule.exists():
            check = run("verify", path, schedule, "--json")
            if not check or not check["ok"] or check["peak_bytes"] > budget:
                raise SystemExit(f"claims: {path} at {budget}: {name} wrote a schedule that does not verify")
            yield f"{name} {' '.join(map(str, options))}", check["cost"], json.loads(schedule.read_text())["steps"]


def judge(graph, told, others):
    """What contradicts the claim, and how many schedules were held against it."""
    covers = told["bound_covers"] or "any"
    found, cheapest, wrong = 0, None, []
    for who, cost, steps in others:
        found += 1
        cheapest = cost if cheapest is None else min(cheapest, cost)
        inside = CLASSES[class_of(graph, steps)] >= CLASSES[covers]
        if told["status"] == "infeasible" and inside:
            wrong.append(f"{who}: fits")
        if told["bound_cost"] is not None and told["status"] != "infeasible" and inside and cost < told["bound_cost"] * (1 - 1e-12):
            wrong.append(f"{who}: {cost} below the bound")
    return found, cheapest, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds of the solve whose claim is tried")
    parser.add_argument("--search", type=float, default=5.0, help="seconds of each search for schedules; the first has twice that")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--budgets", default="1.02,1.05,1.1,1.2,1.5")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--resume", action="store_true", help="keep the rows of the output file")
    options = parser.parse_args()
    rows = []
    if options.resume and options.output and options.output.exists():
        rows = list(csv.DictReader(line for line in options.output.read_text().splitlines() if not line.startswith("#")))
    known = {(r["graph"], r["floors"]) for r in rows}
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())

    def save():
        if options.output:
            with options.output.open("w") as out:
                out.write(f"# bench/claims.py --time-limit {options.time_limit:g} --search {options.search:g} --seeds {options.seeds}, commit {commit.stdout.strip()}, {processor}\n")
                writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, path in graphs(folder):
            if options.only not in name:
                continue
            graph = json.loads(path.read_text())
            floor = run("solve", path, "--budget", "100%", "--strategy", "checkpoint-all", "--json")["floor_bytes"]
            for floors in options.budgets.split(","):
                if (name, floors) in known:
                    continue
                budget = int(float(floors) * floor)
                told = run("solve", path, "--budget", budget, "--time-limit", options.time_limit, "--threads", 1, "--json")
                if told is None:
                    continue
                others = challenge(path, len(graph["ops"]), budget, options, folder / "schedule.json")
                found, cheapest, wrong = judge(graph, told, others)
                rows.append(dict(zip(FIELDS, [name, floors, budget, told["status"], told["bound_covers"], told["bound_cost"],
                                              told["cost"], found, cheapest, "; ".join(wrong)], strict=True)))
                print(f"{name:24} {floors:>5} {told['status']:11} {told['bound_covers'] or '':9} {found:3} schedules"
                      + (f"  CONTRADICTED by {wrong[0]}" if wrong else ""), flush=True)
                save()
    wrong = [r for r in rows if r["contradicted_by"]]
    count = {s: sum(r["status"] == s for r in rows) for s in ("infeasible", "optimal", "feasible", "unknown")}
    print(f"{count['infeasible']} infeasible, {count['optimal']} optimal, {count['feasible']} bounds of feasible, {count['unknown']} of unknown; "
          f"{sum(int(r['found']) for r in rows)} schedules held against them; contradicted: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
