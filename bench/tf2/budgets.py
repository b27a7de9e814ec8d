# SPDX-License-Identifier: Apache-2.0
"""Keras models within budgets: does the budget hold, are the results the same, what does it cost.

budgets.py [--case NAME]... [--settings 70,50,min] [--seconds S] [--limit S] [--records FILE]
    measures; a case that FILE has is skipped

A case (cases.py) is a separate process with its own plan cache. It takes two steps of SGD from the same variables with
a plain tf.function, with the unplanned step in our order ("100"), and at each budget, and compares losses, predictions and all
variables bit by bit. Budgets are shares of the measured peak of "100", and the least that is found. Peaks are those of the
allocator's reports in the first call (physical.py), with what TensorFlow keeps for later ones, variables and arguments added. Then all
take steps in turns, one each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
CASES = ["ResNet50", "MobileNetV2", "VGG19", "U-Net", "encoder", "LSTM", "LSTM, unrolled", "MobileNet", "EfficientNetB0", "DenseNet121",
         "ConvNeXtTiny", "InceptionV3", "Xception", "NASNetMobile"]  # fmt: skip
ROUNDS, ROUND_SECONDS = 5, 15.0
PLAIN, UNPLANNED = "plain", "100"

Row = dict[str, Any]
Step = Callable[[], Any]


class Study:
    """One case in this process."""

    def __init__(self, name: str, seconds: float | None, threads: int) -> None:
        import keras
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import cases

        self.tf, self.seconds = tf, seconds
        self.case = cases.make(name)
        self.x, self.y = tf.constant(self.case.x), tf.constant(self.case.y)
        self.optimizer = keras.optimizers.SGD(1e-2)
        self.optimizer.build(self.case.model.trainable_variables)
        self.variables = list({id(v): v for v in [*self.case.model.variables, *self.optimizer.variables]}.values())
        self.start = [v.numpy() for v in self.variables]
        self.held = sum(v.nbytes for v in [*self.start, self.case.x, self.case.y])
        self.steps: dict[str, Step] = {}

    def results(self, step: Step) -> list[Any]:
        """Of two steps from the same start: predictions, losses, variables."""
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)
        found = [result.numpy() for _ in range(2) for result in step()]
        return [*found, *(v.numpy() for v in self.variables)]

    def peak(self, step: Step) -> int:
        import physical

        return self.held + physical.allocator_peak(step)

    def plain(self) -> Row:
        from checkmate.tf2.keras_steps import step_of

        function = self.tf.function(step_of(self.case.model, self.case.loss, self.optimizer), autograph=False)
        self.steps[PLAIN] = lambda: function(self.x, self.y)
        peak = self.peak(self.steps[PLAIN])
        self.usual = self.results(self.steps[PLAIN])
        return {"setting": PLAIN, "measured": peak}

    def planned(self, setting: str, budget: int | str) -> Row:
        import checkmate.tf2

        begin = time.perf_counter()
        try:
            run = checkmate.tf2.compile(self.case.model, self.case.loss, self.optimizer, self.x, self.y, budget, time_limit=self.seconds)
        except checkmate.InfeasibleError as error:
            return {"setting": setting, "budget": budget, "note": str(error), "smallest": error.smallest_known}
        took = time.perf_counter() - begin
        step = self.steps[setting] = lambda: run(self.x, self.y)
        peak = self.peak(step)
        found = self.results(step)
        if setting == UNPLANNED:
            self.expected = found
        (plan,) = checkmate.tf2.plans(run)
        return {"setting": setting, "budget": plan.budget_bytes, "planned": plan.peak_bytes, "measured": peak, "held": self.held,
                "same": different(self.expected, found) == 0, "differing": different(self.expected, found), "apart": apart(self.usual, found),
                "overhead": plan.overhead, "gap": plan.gap, "seconds": plan.seconds, "took": took, "operators": len(plan.graph.ops),
                "recomputed": len(plan.recomputed), "estimated": len(plan.estimated)}  # fmt: skip

    def rows(self, settings: list[str]) -> Iterator[Row]:
        yield self.plain()
        top = self.planned(UNPLANNED, "100%")
        yield top
        for setting in settings:
            try:
                yield self.planned(setting, "min" if setting == "min" else top["measured"] * int(setting) // 100)
            except Exception as error:  # noqa: BLE001 - one budget that fails leaves the others
                yield failed(setting, error)
        yield {"setting": "turns", "turns": self.turns()}

    def turns(self) -> dict[str, list[float]]:
        """Seconds of the processor for each step of each, in turns."""
        found: dict[str, list[float]] = {setting: [] for setting in self.steps}
        begin = time.perf_counter()
        while len(found[PLAIN]) < ROUNDS and (len(found[PLAIN]) < 2 or time.perf_counter() - begin < ROUND_SECONDS):
            for setting, step in self.steps.items():
                start = time.process_time()
                step()
                found[setting].append(time.process_time() - start)
        return found


def different(a: list[Any], b: list[Any]) -> int:
    """How many of the tensors are not the same, bit for bit."""
    return sum(x.tobytes() != y.tobytes() for x, y in zip(a, b, strict=True))


def apart(a: list[Any], b: list[Any]) -> float:
    """The largest difference of two numbers, over the largest number of their tensor or a thousandth: the bias of a convolution before
    a batch norm is nothing but noise."""
    import numpy as np

    most = 0.0
    for x, y in zip(a, b, strict=True):
        x, y = x.astype(np.float64), y.astype(np.float64)
        most = max(most, float(np.max(np.abs(x - y), initial=0.0)) / max(float(np.max(np.abs(x), initial=0.0)), 1e-3))
    return most


def failed(setting: str, error: Exception) -> Row:
    return {"setting": setting, "note": f"{type(error).__name__}: {error}".splitlines()[0]}


def worker(name: str, options: argparse.Namespace) -> int:
    try:
        for row in Study(name, options.seconds, options.threads).rows(options.settings.split(",")):
            print(json.dumps(row), flush=True)
    except Exception as error:
        if os.environ.get("CKM_TF_TRACE"):
            raise
        print(json.dumps(failed("error", error)), flush=True)
    return 0


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    """A case in a new process."""
    command = [sys.executable, str(HERE / "budgets.py"), "--worker", name, "--settings", options.settings,
               "--threads", str(options.threads), *(["--seconds", str(options.seconds)] if options.seconds else [])]  # fmt: skip
    found: list[Row] = []
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache, (pathlib.Path(cache) / "errors").open("w+") as errors:
        environment = os.environ | {"XDG_CACHE_HOME": cache, "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            try:
                late = threading.Timer(options.limit, process.kill)
                late.start()
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        found.append(json.loads(line))
                        print(short(found[-1]), file=sys.stderr, flush=True)
            finally:
                late.cancel()
                process.kill()
        errors.seek(0)
        said = [line.strip() for line in errors if line.strip()]
    if not any(row["setting"] in ("error", "turns") for row in found):
        late_by = time.perf_counter() - begin >= options.limit
        found.append({"setting": "error", "note": f"not done in {options.limit:.0f} s" if late_by else f"the process ended: {' '.join(said[-1:])}"})
    return [{"case": name, **row} for row in timed(found)]


def timed(rows: list[Row]) -> list[Row]:
    """Rows with the median of their steps, and of those over the steps of "100" in the same round."""
    turns = next((row["turns"] for row in rows if "turns" in row), {})
    for row in rows:
        steps = turns.get(row["setting"])
        if steps:
            row["step_seconds"] = statistics.median(steps)
            row["rounds"] = len(steps)
            row["time"] = statistics.median(a / b for a, b in zip(steps, turns[UNPLANNED], strict=True))
    return [row for row in rows if "turns" not in row]


def read(path: pathlib.Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def short(row: Row) -> str:
    if "turns" in row:
        return "  turns: " + ", ".join(f"{setting} {statistics.median(steps):.3f} s" for setting, steps in row["turns"].items())
    if "planned" not in row:
        return f"  {row['setting']:>5}: " + (row["note"] if "note" in row else f"measured {row['measured'] / 1e6:.2f}")
    held = "" if row["measured"] <= row["budget"] else f"; {row['measured'] - row['budget']:,} BYTES OVER THE BUDGET"
    same = "bit for bit" if row["same"] else f"{row['differing']} TENSORS DIFFER"
    return (f"  {row['setting']:>5}: budget {row['budget'] / 1e6:.2f}, planned {row['planned'] / 1e6:.2f}, measured {row['measured'] / 1e6:.2f} "
            f"({100 * (row['measured'] / row['planned'] - 1):+.2f} %), held {row['held'] / 1e6:.2f}, overhead {100 * row['overhead']:.1f} %, "
            f"{row['seconds']:.0f} s to plan, "
            f"{row['operators']} operators, {row['recomputed']} recomputed, {same}, {row['apart']:.1e} from plain{held}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--again", action="store_true", help="what the records have, in place of it")
    parser.add_argument("--settings", default="70,50,min", help="percent of the measured peak, and min")
    parser.add_argument("--seconds", type=float, help="time limit of the solver (default: that of checkmate.tf2)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for a case")
    parser.add_argument("--threads", type=int, default=1, help="of a kernel")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "tf2-budgets.jsonl")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker, options)
    known = {row["case"] for row in read(options.records)}
    for name in options.case or CASES:
        if name in known and not options.again:
            continue
        print(f"{name}:", file=sys.stderr, flush=True)
        rows = measure(name, options)
        others = [row for row in read(options.records) if row["case"] != name]
        options.records.write_text("".join(json.dumps(row) + "\n" for row in [*others, *rows]))
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
