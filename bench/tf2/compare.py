# SPDX-License-Identifier: Apache-2.0
"""Step time and measured peak of ways to train in less memory, and of checkmate.tf2 at the same peaks.

compare.py [--case NAME]... [--rounds N] [--seconds S] [--limit S] [--records FILE]
    measures; a case that FILE has is skipped

Each case (blocks.py) is a separate process, in which all take steps in turns, one each:
    plain      tf.function
    recompute  tf.function, tf.recompute_grad around every block
    kept       the same with Grappler off, which else merges what is computed again with what was computed before
    sqrt       the original Checkmate's strategy, Chen's square root of n, which heeds no budget; run by checkmate.tf2
    ours       budgets: the peak that each of the others was measured at, less, and the least that is found
What a row has of time is seconds of the processor, medians; `relative` is over plain's step of the same round, `ours_over` the
time of ours at its peak over that of the row, of the same round, with the least and the most.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).parent
CASES = ["ResNet", "U-Net", "encoder"]
#: Budgets below the least of the others, as shares of it.
DOWN = [0.85, 0.7]
FIELDS = ["case", "method", "setting", "peak_bytes", "predicted_bytes", "seconds", "relative", "relative_least", "relative_most", "ours_over",
          "ours_over_least", "ours_over_most", "rounds", "predicted_overhead", "gap", "recomputed", "plan_seconds", "apart", "note"]  # fmt: skip
Row = dict[str, Any]


class Race:
    """One case in this process."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        import keras
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import blocks

        self.tf, self.name, self.options = tf, name, options
        self.network = blocks.make(name)
        self.optimizer = keras.optimizers.SGD(1e-2)
        self.optimizer.build(self.network.trained)
        self.given = tf.constant(self.network.x), tf.constant(self.network.y)
        self.variables = [*self.network.variables, *self.optimizer.variables]
        self.start = [v.numpy() for v in self.variables]
        self.held = sum(v.nbytes for v in [*self.start, self.network.x, self.network.y])
        self.rows: list[Row] = []
        self.steps: list[Any] = []
        self.usual: list[Any] = []

    def add(self, method: str, setting: object, run: Any) -> None:
        """What it takes, but for time."""
        import budgets
        import physical

        if hasattr(run, "prepare"):
            run.prepare(*self.given)
        peak = self.held + physical.allocator_peak(lambda: run(*self.given))
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)
        found = [run(*self.given).numpy(), *(v.numpy() for v in self.variables)]
        if method == "plain":
            self.usual = found
        row = {"case": self.name, "method": method, "setting": setting, "apart": f"{budgets.apart(self.usual, found):.1e}",
               "peak_bytes": peak}  # fmt: skip
        if hasattr(run, "plans"):
            (plan,) = run.plans
            row |= {"predicted_bytes": plan.peak_bytes, "predicted_overhead": round(plan.overhead, 5), "recomputed": len(plan.recomputed),
                    "gap": "" if plan.gap is None else round(plan.gap, 5), "plan_seconds": round(plan.seconds, 1)}  # fmt: skip
        self.rows.append(row)
        self.steps.append(run)
        print(f"  {method} {setting}: {row['peak_bytes'] / 1e6:.2f} MB", file=sys.stderr, flush=True)

    def tried(self, method: str, setting: object, make: Any) -> None:
        try:
            self.add(method, setting, make())
        except Exception as error:  # noqa: BLE001 - it becomes the row's note
            self.rows.append({"case": self.name, "method": method, "setting": setting, "note": f"{type(error).__name__}: {error}".splitlines()[0]})
            self.steps.append(None)

    def run(self) -> list[Row]:
        import checkmate.tf2

        step = self.network.step(self.optimizer, recompute=False)
        self.add("plain", "", self.tf.function(step, autograph=False))
        self.tried("recompute", "every block", lambda: self.tf.function(self.network.step(self.optimizer, recompute=True), autograph=False))
        self.tried("kept", "every block", lambda: unchanged(self.tf.function(self.network.step(self.optimizer, recompute=True), autograph=False)))
        self.tried("sqrt", "", lambda: checkmate.tf2.function(step, "min", strategy="chen-sqrt", time_limit=self.options.seconds))
        others = [row["peak_bytes"] for row in self.rows if "peak_bytes" in row]
        below = [int(share * min(others)) for share in DOWN]
        for budget in [*sorted({*others, *below}, reverse=True), "min"]:
            self.tried("ours", budget, lambda budget=budget: checkmate.tf2.function(step, budget, time_limit=self.options.seconds))
        self.time()
        return self.rows

    def time(self) -> None:
        turns: list[list[float]] = [[] for _ in self.steps]
        for _ in range(self.options.rounds):
            for found, step in zip(turns, self.steps, strict=True):
                if step is not None:
                    begin = time.process_time()
                    step(*self.given)
                    found.append(time.process_time() - begin)
        for row, mine in zip(self.rows, turns, strict=True):
            if not mine:
                continue
            ratios = [a / b for a, b in zip(mine, turns[0], strict=True)]
            row |= {"seconds": round(statistics.median(mine), 4), "rounds": len(mine), "relative": round(statistics.median(ratios), 4),
                    "relative_least": round(min(ratios), 4), "relative_most": round(max(ratios), 4)}  # fmt: skip
            ours = next((k for k, r in enumerate(self.rows) if r["method"] == "ours" and r["setting"] == row["peak_bytes"]), None)
            if row["method"] != "ours" and ours is not None and turns[ours]:
                over = [a / b for a, b in zip(turns[ours], mine, strict=True)]
                row |= {"ours_over": round(statistics.median(over), 4), "ours_over_least": round(min(over), 4), "ours_over_most": round(max(over), 4)}


def unchanged(function: Any) -> Any:
    from checkmate.tf2.run import as_written

    def run(*given: Any) -> Any:
        with as_written():
            return function(*given)

    return run


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    command = [sys.executable, str(HERE / "compare.py"), "--worker", name, "--seconds", str(options.seconds), "--rounds", str(options.rounds),
               "--threads", str(options.threads)]  # fmt: skip
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache, "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=options.limit, check=False)
        except subprocess.TimeoutExpired:
            return [{"case": name, "method": "", "note": f"not done in {options.limit:.0f} s"}]
    rows: list[Row] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return rows or [{"case": name, "method": "", "note": f"the process ended with {done.returncode}"}]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=10, help="time limit of the solver")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for a case")
    parser.add_argument("--threads", type=int, default=1, help="of a kernel")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "tf2.csv")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        for row in Race(options.worker, options).run():
            print(json.dumps(row), flush=True)
        return 0
    known: set[str] = set()
    if options.records.exists():
        with options.records.open(newline="") as file:
            known = {row["case"] for row in csv.DictReader(file)}
    for name in options.case or CASES:
        if name in known:
            continue
        print(f"{name}:", file=sys.stderr, flush=True)
        rows = measure(name, options)
        new = not options.records.exists()
        with options.records.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
