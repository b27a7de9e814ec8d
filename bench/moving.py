#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second memory: a step's overhead by recomputing alone, moving alone, one after the other, and both together.

    bench/moving.py [--time-limit S] [--only TEXT] [--again] [--records FILE] [--page FILE]

The four are one planner with parts left out (`checkmate solve --without`), each with one thread and the same time limit:

  recompute  the graph without a second memory
  move       what is not in use is moved, what relieves the most for its time on the links first, until the budget holds; nothing is
             recomputed
  in turn    what moves is chosen first, as much as the links have room for (seven ways to say how much), then recomputing is planned
             around it; recomputing alone competes
  together   all of it, and a search over what moves; the bound covers every schedule that recomputes and moves in the graph's order

A row is kept as soon as it is made, and a second run makes what is missing. CHECKMATE is the program, build/checkmate by default.
"""

import argparse
import json
import os
import pathlib
import subprocess

import kept

PROGRAM = os.environ.get("CHECKMATE", str(kept.ROOT / "build/checkmate"))
RECORDS = kept.ROOT / "bench/results/moving.jsonl"
#: Links as `checkmate devices` names them, without the space.
CASES = [
    ("ResNet50", 64, "A100", "PCIe 4"),
    ("ResNet50", 64, "H100", "PCIe 5"),
    ("ResNet50", 64, "H100", "NVLink-C2C"),
    ("MobileNet", 64, "A100", "PCIe 4"),
    ("unet", 8, "A100", "PCIe 4"),
    ("GPT2", 4, "A100", "PCIe 4"),
    ("GPT2", 4, "H100", "PCIe 5"),
    ("VGG16", 32, "A100", "PCIe 4"),
    ("ViT-B16", 32, "A100", "PCIe 4"),
    ("Llama-3.2-1B", 1, "A100", "PCIe 4"),
    ("Llama-3.2-1B", 1, "H100", "PCIe 5"),
]
PERCENTS = (50, 30, 20)
#: By way: whether there is a second memory, and what is left out.
WAYS = {
    "recompute": (False, None),
    "move": (True, "recomputing,first-choices,choices,moving-bound"),
    "in turn": (True, "moving-alone,choices,moving-bound"),
    "together": (True, None),
}


def solve(arguments, way, link, percent, seconds):
    moves, without = WAYS[way]
    command = [PROGRAM, "solve", *arguments, "--budget", f"{percent}%", "--time-limit", str(seconds), "-j", "1", "--json"]
    command += ["--link", link.replace(" ", "")] if moves else []
    command += ["--without", without] if without else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        raise ValueError(done.stderr.strip() or f"solve ends with {done.returncode}")
    return json.loads(done.stdout)


def overhead(result, of="cost"):
    value, base = result.get(of), result.get("baseline_cost")
    return None if value is None or not base else 100 * (value / base - 1)


def measure(name, batch, device, link, percent, seconds):
    """Overheads in percent by way, and the bound of schedules that do both."""
    arguments = [name, "--batch", str(batch), "--costs", f"device:{device}"]
    found = {way: solve(arguments, way, link, percent, seconds) for way in WAYS}
    both = found["together"]
    return {
        "seconds": seconds,
        "overhead": {way: overhead(result) for way, result in found.items()},
        "refuted": [way for way, result in found.items() if result["status"] == "infeasible"],
        "floor": both["floor_bytes"] / both["baseline_peak_bytes"],
        "bound": overhead(both, "bound_cost"),
        "moved_bytes": both.get("moved_bytes"),
        "ms": both["baseline_cost"] / 1e6,
    }


def table(rows):
    def cell(value, refuted=False):
        return ("refuted" if refuted else "none") if value is None else f"{value:.2f}"

    lines = [
        "| network, batch | device, link | step, ms | budget | seconds | " + " | ".join(WAYS) + " | bound |",
        "|---|---|---|---|---|" + "---|" * (len(WAYS) + 1),
    ]
    for row in rows:
        name, rest = row["case"].split(" on ")
        where, percent = rest.rsplit(", ", 1)
        refuted = row.get("refuted", [])
        cells = [cell(row["overhead"][way], way in refuted) if way in row["overhead"] else "-" for way in WAYS]
        bound = f"floor {100 * row['floor']:.1f} %" if "together" in refuted else cell(row["bound"])
        lines.append(f"| {name} | {where} | {row['ms']:.1f} | {percent} | {row['seconds']:g} | " + " | ".join([*cells, bound]) + " |")
    return "\n".join([*lines, "", "`bench/moving.py`. " + kept.made(rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=30, metavar="S", help="of each solve (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has it")
    parser.add_argument("--again", action="store_true", help="make rows again that are there")
    parser.add_argument("--records", type=pathlib.Path, default=RECORDS, metavar="FILE")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="put the table there, between its marks")
    options = parser.parse_args()
    cases = {f"{c[0]}, {c[1]} on {c[2]}, {c[3]}, {percent} %": (*c, percent) for c in CASES for percent in PERCENTS}
    known = kept.read(options.records)
    for case, what in cases.items():
        is_whole = set(known.get(case, {}).get("overhead", ())) == set(WAYS)
        if options.only not in case or (is_whole and not options.again):
            continue
        try:
            kept.keep(options.records, {"case": case} | measure(*what, options.time_limit))
        except (OSError, ValueError) as error:
            kept.keep(options.records, {"case": case, "failed": str(error)})
    known = kept.read(options.records)
    rows = [known[case] for case in cases if "overhead" in known.get(case, {})]
    if rows:
        text = table(rows)
        print(text)
        if options.page is not None:
            kept.put(options.page, "moving", text)


if __name__ == "__main__":
    main()
