# SPDX-License-Identifier: Apache-2.0
"""Runs the solvers of run.sh in turn and tabulates when each reached auto's incumbent and bound.

Every solver writes a trace, one line an event: seconds since its process began, incumbent or -, bound or -.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-4
PREFIX = {"": 1, "MACs": 1, "kMACs": 1e3, "MMACs": 1e6, "GMACs": 1e9, "TMACs": 1e12, "PMACs": 1e15,
          "EMACs": 1e18, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def shown_cost(text, unit, graph_unit):
    """A cost as the progress lines show it, "10.2 GMACs", in the graph's unit."""
    if text == "-":
        return None
    return float(text) * PREFIX[unit] / (1e3 if graph_unit == "us" else 1)


def run_checkmate(arguments, graph_unit, limit):
    """One run of checkmate solve: its trace, from the progress lines, and its result."""
    began = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    trace = []
    for line in process.stderr:
        seconds = time.monotonic() - began
        cost = re.search(r"\bcost (\S+)(?: (\w+))?", line)
        bound = re.search(r"\bbound (\S+)(?: (\w+))?", line)
        if cost and bound and " s " in line:
            trace.append((seconds, shown_cost(cost[1], cost[2] or "", graph_unit),
                          shown_cost(bound[1], bound[2] or "", graph_unit)))
    text = process.stdout.read()
    process.wait()
    total = time.monotonic() - began
    result = json.loads(text) if text.strip() else {}
    # Shown values are rounded to some four digits: never past the final ones, which are exact.
    cost, bound = result.get("cost"), result.get("bound_cost")
    trace = [(s, None if c is None or cost is None else max(c, cost), None if b is None or bound is None else min(b, bound))
             for s, c, b in trace]
    trace.append((total, cost, bound))
    return trace, total


def run_python(script, arguments, limit):
    """One run of a script of this folder, which prints its trace."""
    began = time.monotonic()
    try:
        done = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=limit * 2 + 60, check=False)
        text, error = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as stopped:
        text, error = (stopped.stdout or b"").decode(), "stopped: it kept running long after its limit"
    trace = []
    for line in text.splitlines():
        seconds, cost, bound = line.split()
        trace.append((float(seconds), None if cost == "-" else float(cost), None if bound == "-" else float(bound)))
    if error:
        print("  " + error.strip().splitlines()[-1], file=sys.stderr)
    return trace, time.monotonic() - began


def best(trace, column, choose):
    values = [event[column] for event in trace if event[column] is not None]
    return choose(values) if values else None


def when(trace, column, reached):
    """Seconds of the first event that satisfies `reached`, or None. Precise values replace shown ones at the end."""
    for event in trace:
        if event[column] is not None and reached(event[column]):
            return event[0]
    return None


def show(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkmate", required=True)
    parser.add_argument("--threads", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    if len(options.cases) % 2:
        parser.error("each graph needs a budget")
    rows = []
    limit = str(options.seconds)
    for path, budget in zip(options.cases[::2], options.cases[1::2]):
        with open(path, encoding="utf-8") as file:
            graph = json.load(file)
        unit = graph.get("cost_unit", "flops")
        total_cost = sum(op["cost"] for op in graph["ops"])
        name = graph.get("name", os.path.basename(path))
        base = [options.checkmate, "solve", path, "--budget", budget, "--time-limit", limit, "--threads",
                options.threads, "--verbose", "--json"]
        facts = json.loads(subprocess.run([*base[:5], "--strategy", "checkpoint-all", "--json"], text=True, check=False,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
        python = [path, str(facts["budget_bytes"]), limit, options.threads]
        for turn in range(options.rounds):
            runs = {
                "auto": lambda: run_checkmate(base, unit, options.seconds),
                "cbc": lambda: run_checkmate([*base, "--strategy", "ilp", "--formulation", "paper"], unit,
                                             options.seconds),
                "highs": lambda: run_python("milp_highs.py", python, options.seconds),
                "cp-sat": lambda: run_python("moccasin_cpsat.py", python, options.seconds),
            }
            ours = None
            for solver, run in runs.items():
                trace, seconds = run()
                cost, bound = best(trace, 1, min), best(trace, 2, max)
                if solver == "auto":
                    ours = (cost, bound)
                to_cost = None if ours[0] is None else when(trace, 1, lambda c: c <= ours[0] * (1 + TOLERANCE))
                to_bound = None if ours[1] is None else when(trace, 2, lambda b: b >= ours[1] * (1 - TOLERANCE))
                row = [name, len(graph["ops"]), budget, turn + 1, solver,
                       None if cost is None else 100 * (cost / total_cost - 1),
                       None if bound is None else 100 * (bound / total_cost - 1), to_cost, to_bound, seconds]
                rows.append(row)
                print(f"{name:<16} {len(graph['ops']):>6} {budget:>8} {solver:<7} overhead {show(row[5], 4):>9}  bound "
                      f"{show(row[6], 4):>9}  to our incumbent {show(to_cost):>8} s  to our bound {show(to_bound):>8} s  "
                      f"total {seconds:8.2f} s", flush=True)
    titles = ["case", "operators", "budget", "round", "solver", "overhead_percent", "bound_percent", "to_our_incumbent_s",
              "to_our_bound_s", "total_s"]
    with open(options.output + ".csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(titles)
        table.writerows([["" if v is None else round(v, 4) if isinstance(v, float) else v for v in row] for row in rows])
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(f"# Side by side\n\n{options.machine}; {options.seconds:g} s a solve, {options.threads} threads, one after the "
                   f"other. Made by `bench/compare/run.sh --seconds {options.seconds:g}`.\nOverhead and bound in percent of the cost "
                   "without rematerialization; bounds of `cbc`, `highs` hold for the class of\nthe paper's program, those of "
                   "`cp-sat` for at most two computations of each operator. –: not reached.\n\n")
        file.write("| case | operators | budget | solver | overhead | bound | to our incumbent, s | to our bound, s | s |\n")
        file.write("|---|---|---|---|---|---|---|---|---|\n")
        for row in rows:
            file.write(f"| {row[0]} | {row[1]} | {row[2]} | {row[4]} | {show(row[5], 4)} | {show(row[6], 4)} | "
                       f"{show(row[7])} | {show(row[8])} | {show(row[9])} |\n")


main()
