# SPDX-License-Identifier: Apache-2.0
"""Activations in a file at equal peaks: what autograd saves, moved by hooks as `torch.autograd.graph.save_on_cpu` does, and checkmate's offload=.

offload.py [--case NAME]... [--rounds N] [--seconds S] [--records FILE] [--table]

For each network four processes (worker.py): eager mode; hooks that write all that autograd saves to a file (hooks_file.py); checkpoints around
every block whose saved inputs such hooks write, which is what transformers' activation_checkpointing_enable(offload=True) does with pinned
memory of the host, and needs a GPU; and for the measured peak of each of these two, as a budget, ours with offload= to the same folder. They take
turns, one step each, round after round, with one thread for kernels. A row of the records has the medians of a step's seconds by the
clock, and of ours over theirs in the same round, by the clock and by the processor's time of all threads; with the least and the most. A case that
the records have is skipped. --table prints the table of the records. Files are in the folder of TMPDIR, through the system's page cache for all.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
from typing import Any

import compare

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import kept  # noqa: E402

METHODS = ("hooks", "checkpoint-hooks")
NAMES = {
    "hooks": "all that is saved",
    "checkpoint-hooks": "inputs of checkpointed blocks",
}


def ratios(mine: list[float], theirs: list[float]) -> list[float]:
    """The median of ours over theirs in one round, the least and the most."""
    found = [a / b for a, b in zip(mine, theirs, strict=True)]
    return [round(x, 3) for x in (statistics.median(found), min(found), max(found))]


def measure(case: str, options: argparse.Namespace) -> dict[str, Any]:
    started: list[compare.Worker] = []

    def start(method: str, setting: object) -> compare.Worker:
        started.append(compare.Worker(case, method, setting, options))
        return started[-1]

    eager, theirs = start("eager", ""), [start(method, "") for method in METHODS]
    ours = [start("ours-offload", other.peak) if other.works else None for other in theirs]
    running = [worker for worker in started if worker.works]
    for i in range(options.rounds):
        for k in range(len(running)):
            running[(k + i) % len(running)].step()
    for worker in running:
        worker.stop()
    row: dict[str, Any] = {
        "case": case,
        "rounds": options.rounds,
        "eager_peak": eager.peak,
        "eager_seconds": statistics.median(eager.times),
    }
    for other, mine in zip(theirs, ours, strict=True):
        made: dict[str, Any] = (
            {"failed": other.facts["error"]} if not other.works else {"peak": other.peak, "seconds": statistics.median(other.times)}
        )
        if mine is not None and not mine.works:
            made["ours_failed"] = mine.facts["error"]
        elif mine is not None:
            made |= {"ours_peak": mine.peak, "ours_seconds": statistics.median(mine.times), "ours_moved": mine.facts["moved"],
                     "ours_recomputed": mine.facts["recomputed"], "over": ratios(mine.times, other.times),
                     "over_processor": ratios(mine.cpu, other.cpu)}  # fmt: skip
        row[other.method] = made
    return row


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| network | in the file | MB | of eager mode's | seconds | ours, MB | seconds | ours over theirs | by the processor |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        for method in METHODS:
            made = row[method]
            if "peak" not in made:
                lines.append(f"| {row['case']} | {NAMES[method]} | {made['failed'][:60]} | | | | | | |")
                continue
            theirs = f"| {row['case']} | {NAMES[method]} | {made['peak'] / 1e6:.1f} | {100 * made['peak'] / row['eager_peak']:.0f} % | {made['seconds']:.3f} |"
            if "ours_peak" not in made:
                lines.append(f"{theirs} {made['ours_failed'][:60]} | | | |")
                continue
            (middle, low, high), (processor, *_) = made["over"], made["over_processor"]
            lines.append(
                f"{theirs} {made['ours_peak'] / 1e6:.1f} | {made['ours_seconds']:.3f} | {middle:.2f} ({low:.2f} to {high:.2f}) | {processor:.2f} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=[*compare.CASES, *compare.LIBRARY])
    parser.add_argument("--rounds", type=int, default=15, help="steps of each process")
    parser.add_argument("--seconds", type=float, default=20, help="time limit of our solver")
    parser.add_argument(
        "--records",
        type=pathlib.Path,
        default=compare.HERE.parent / "results" / "torch-offload.jsonl",
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="print the table of the records, and measure nothing",
    )
    options = parser.parse_args()
    options.threads = [1]
    names = options.case or compare.CASES
    for case in kept.missing(options.records, names) if not options.table else ():
        with compare.fresh_cache():
            kept.keep(options.records, measure(case, options), "torch")
    known = kept.read(options.records)
    rows = [known[case] for case in names if case in known]
    print(table(rows) + f"\n\n{kept.made(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
