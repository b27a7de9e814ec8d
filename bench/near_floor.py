#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is known near the memory floor, and the schedules found there.

    bench/near_floor.py [--time-limit S] [--seeds N] [--factors F,F,...] [--only TEXT] [--zoo] [--output CSV] [--page FILE] [--resume | --show]

For each graph `solve --budget min` gives an interval: a budget proven too small, and the least that a schedule was found for.
Then each multiple of the latter is solved, with each seed, on one thread. The page has, of each multiple, the median overhead
and bound over the seeds, and how many seeds found a schedule. Graphs are bench/graphs and, where they are,
../shared/cases/near_floor; --zoo adds networks of the zoo. CHECKMATE is the program, build/checkmate by default; --before names
another one, whose solves alternate with its own and are in additional columns.
"""

import argparse
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("CHECKMATE", str(ROOT / "build/checkmate"))
CASES = pathlib.Path(os.environ.get("CKM_SHARED_CASES", ROOT.parent / "shared/cases"))
ZOO = ["ResNet50:64", "InceptionV3:8", "DenseNet121:8", "Xception:8", "pspnet_50:8", "MobileNetV2:8"]
FIELDS = ["program", "graph", "factor", "seed", "floor_bytes", "enough_bytes", "budget_bytes", "overhead_percent", "bound_percent", "seconds"]


def solve(program, path, *arguments):
    """The program's JSON and its wall time; None where it fails, said on standard error."""
    command = [program, "solve", str(path), "--json", "-j", "1", *map(str, arguments)]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    if done.returncode not in (0, 3, 4):
        print(f"near_floor: {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None, seconds
    return json.loads(done.stdout), seconds


def graphs(arguments, folder):
    paths = sorted((ROOT / "bench/graphs").glob("*.json")) + sorted((CASES / "near_floor").glob("*.json"))
    for entry in ZOO if arguments.zoo else []:
        name, batch = entry.split(":")
        path = folder / f"{name}.json"
        if arguments.only in name:
            subprocess.run([PROGRAM, "graph", name, "--batch", batch, "--granularity", "op", "-o", path], check=True, stdout=subprocess.DEVNULL)
            paths.append(path)
    return [path for path in paths if arguments.only in path.stem]


def percent(part, whole):
    return "" if part is None or not whole else f"{100 * (part / whole - 1):.3f}"


def measure(path, arguments, programs, rows, write):
    """Adds what `rows` lacks of one graph: first its interval (factor "min"), then each multiple of its end."""
    for program in programs:
        if (program, path.stem, "min", "1") not in rows:
            found, seconds = solve(program, path, "--budget", "min", "-t", arguments.time_limit)
            if found is None:
                return
            write({"program": program, "graph": path.stem, "factor": "min", "seed": "1", "floor_bytes": found["least_budget_bound_bytes"],
                   "enough_bytes": found["least_budget_bytes"], "budget_bytes": found["least_budget_bytes"],
                   "overhead_percent": percent(found["cost"], found["baseline_cost"]),
                   "bound_percent": percent(found["bound_cost"], found["baseline_cost"]), "seconds": f"{seconds:.2f}"})  # fmt: skip
    # All programs are asked for the same budgets: those of the least that any knows.
    ends = [int(rows[program, path.stem, "min", "1"]["enough_bytes"]) for program in programs]
    for factor in arguments.factors.split(","):
        budget = int(float(factor) * min(ends))
        for seed in range(1, arguments.seeds + 1):
            for program in programs:
                if (program, path.stem, factor, str(seed)) in rows:
                    continue
                found, seconds = solve(program, path, "--budget", budget, "-t", arguments.time_limit, "--seed", seed)
                if found is not None:
                    write({"program": program, "graph": path.stem, "factor": factor, "seed": str(seed), "floor_bytes": found["floor_bytes"],
                           "enough_bytes": "", "budget_bytes": budget, "overhead_percent": percent(found["cost"], found["baseline_cost"]),
                           "bound_percent": percent(found["bound_cost"], found["baseline_cost"]), "seconds": f"{seconds:.2f}"})  # fmt: skip
    print(path.stem, file=sys.stderr)


def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cell(rows, program, graph, factor, seeds):
    of = [rows[key] for seed in range(1, seeds + 1) if (key := (program, graph, factor, str(seed))) in rows]
    if not of:
        return "–"
    overheads = [float(row["overhead_percent"]) for row in of if row["overhead_percent"]]
    bounds = [float(row["bound_percent"]) for row in of if row["bound_percent"]]
    found = f"{statistics.median(overheads):.1f}" if overheads else "none"
    found += f" ({len(overheads)} of {len(of)})" if 0 < len(overheads) < len(of) else ""
    return f"{found} / {statistics.median(bounds):.1f}" if bounds else found


def page(rows, arguments, programs):
    made = " and ".join(programs)
    if not arguments.show:
        commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False).stdout.strip()
        made = f"{version(programs[-1])}, {commit or 'no commit'}"
    factors = arguments.factors.split(",")
    lines = ["# Near the memory floor", "",
             (f"{made}, {processor()}: `bench/near_floor.py --time-limit {arguments.time_limit:g} --seeds {arguments.seeds}"
              f" --factors {arguments.factors}{' --zoo' if arguments.zoo else ''}`. Interval: the least budget that a schedule was found for, as a multiple of"),
             "what is proven not to be enough. Then, at multiples of that budget: overhead / bound in percent, medians over seeds.", ""]  # fmt: skip
    for program in programs:
        lines += [f"## {program}", ""] if len(programs) > 1 else []
        lines += ["| graph | least, bytes | interval | at it | " + " | ".join(factors) + " | longest, s |", "|---" * (5 + len(factors)) + "|"]
        for graph in sorted({key[1] for key in rows if key[0] == program}):
            least = rows[program, graph, "min", "1"]
            longest = max(float(row["seconds"]) for key, row in rows.items() if key[:2] == (program, graph))
            ratio = int(least["enough_bytes"]) / int(least["floor_bytes"])
            cells = [cell(rows, program, graph, factor, arguments.seeds) for factor in ["min", *factors]]
            lines.append(f"| {graph} | {int(least['enough_bytes']):,} | {'exact' if ratio == 1 else f'{ratio:.3f}'} | {' | '.join(cells)} | {longest:.1f} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=15.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--factors", default="1.02,1.05,1.1,1.2,1.5")
    parser.add_argument("--only", default="", help="graphs whose name has this")
    parser.add_argument("--zoo", action="store_true", help="networks of the zoo, too")
    parser.add_argument("--before", help="another program, to compare with")
    parser.add_argument("--output", help="CSV of all solves")
    parser.add_argument("--page", help="the table as Markdown; standard output otherwise")
    parser.add_argument("--show", action="store_true", help="solve nothing: the table of what the CSV has; its column of programs may name commits")
    parser.add_argument("--resume", action="store_true", help="keep what the CSV has")
    arguments = parser.parse_args()
    programs = ([arguments.before] if arguments.before else []) + [PROGRAM]
    rows = {}
    if (arguments.resume or arguments.show) and arguments.output and os.path.exists(arguments.output):
        with open(arguments.output, newline="", encoding="utf-8") as file:
            rows = {(row["program"], row["graph"], row["factor"], row["seed"]): row for row in csv.DictReader(file)}
    if arguments.show:
        programs = list(dict.fromkeys(key[0] for key in rows))
        print(page(rows, arguments, programs), end="")
        return
    with open(arguments.output or os.devnull, "w", newline="", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows.values())

        def write(row):
            rows[row["program"], row["graph"], row["factor"], row["seed"]] = row
            writer.writerow(row)
            file.flush()

        for path in graphs(arguments, pathlib.Path(folder)):
            measure(path, arguments, programs, rows, write)
    if arguments.page:
        pathlib.Path(arguments.page).write_text(page(rows, arguments, programs), encoding="utf-8")
    else:
        print(page(rows, arguments, programs), end="")


if __name__ == "__main__":
    main()
