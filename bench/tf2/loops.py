# SPDX-License-Identifier: Apache-2.0
"""The models and training loops of loop_cases.py: as Keras and TensorFlow run them eagerly, and planned.

Each is run three times from the same weights: eagerly; with a budget of 100 %; and with one in the middle between the memory floor and that
peak, or the least that the error names. Compared are losses, logs and all variables after the steps, bit for bit. The peak is what
TensorFlow's profiler reports, by a meter that knows nothing of the planner.

    bench/tf2/run.sh --loops                 what the records lack, or say failed; then the table of docs/TENSORFLOW.md
    bench/tf2/run.sh --loops --again         all of them
    bench/tf2/run.sh --loops --case GPT      those whose name has this in it, if the records lack them
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import kept  # noqa: E402

Row = dict[str, Any]
#: Cases that one process tries; another one continues.
TOGETHER = 6
PACKAGES = ("tensorflow-cpu", "tensorflow", "keras")


class Trial:
    """A case, run eagerly (`budget` None) or planned."""

    def __init__(self, name: str, budget: int | str | None) -> None:
        import keras
        from loop_cases import CASES

        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        self.loop, self.budget = CASES[name](), budget
        self.planned: Any = None
        self.first = 0.0
        #: What the steps gave and what the variables are then, as bytes; what `fit` logs.
        self.results: list[Any] = []
        self.logs: list[Any] = []

    def run(self) -> Trial:
        import checkmate.tf2

        loop = self.loop
        if loop.model is not None:
            if self.budget is not None:
                checkmate.tf2.keras(loop.model, self.budget, time_limit=3)
                self.planned = loop.model
            else:
                loop.model.run_eagerly = True
                loop.model.jit_compile = False
            begin = time.perf_counter()
            history = loop.model.fit(*loop.data, **loop.options).history
            self.first = time.perf_counter() - begin
            self.logs = sorted((name, [float(v).hex() for v in values]) for name, values in history.items())
            self.results = [v.numpy().tobytes() for v in self.variables()]
            return self
        step = loop.step if self.budget is None else checkmate.tf2.function(loop.step, self.budget, time_limit=3)
        self.planned = step if self.budget is not None else None
        for batch in loop.batches:
            begin = time.perf_counter()
            self.results.append([value.numpy().tobytes() for value in _flat(step(*batch))])
            self.first = self.first or time.perf_counter() - begin
        self.results += [v.numpy().tobytes() for v in self.variables()]
        return self

    def variables(self) -> list[Any]:
        loop = self.loop
        found = loop.variables if loop.model is None else [*loop.model.variables, *loop.model.optimizer.variables]
        return list({id(v): v for v in found}.values())

    def plan(self) -> Any:
        import checkmate.tf2

        return checkmate.tf2.plans(self.planned)[0]

    def measured(self) -> int:
        """Bytes at most in one more step, of the first shape, variables and batch included."""
        import physical
        import tensorflow as tf

        if self.loop.model is not None:
            size = self.loop.options["batch_size"]
            data = tf.nest.map_structure(lambda a: tf.constant(a[:size]), tuple(d for d in self.loop.data if d is not None))
            data = data if len(data) == 2 else (*data, None)
            arguments: tuple[Any, ...] = (data,)
            step = self.loop.model.checkmate_planned
        else:
            arguments, step = self.loop.batches[0], self.planned
        held = sum(v.numpy().nbytes for v in self.variables()) + sum(t.numpy().nbytes for t in _flat(arguments) if hasattr(t, "numpy"))
        return held + physical.allocator_peak(lambda: step(*arguments))


def _flat(value: Any) -> list[Any]:
    import tensorflow as tf

    return [one for one in tf.nest.flatten(value) if one is not None]


def tried(name: str) -> Row:
    """A row of the table."""
    import checkmate.tf2

    row: Row = {"case": name}
    begin = time.perf_counter()
    try:
        whole = Trial(name, "100%").run()
    except checkmate.tf2.UnsupportedError as error:
        return row | {"refused": str(error)}
    plan = whole.plan()
    row |= {"operators": len(plan.graph.ops), "peak": plan.baseline_peak_bytes, "first": time.perf_counter() - begin}
    eager = Trial(name, None).run()
    row |= {"eager": eager.results == whole.results, "logs": eager.logs == whole.logs}
    budget = (plan.floor_bytes + plan.baseline_peak_bytes) // 2
    try:
        half = Trial(name, budget).run()
    except checkmate.tf2.InfeasibleError as error:
        budget = int(error.smallest_known or 0)
        half = Trial(name, budget).run()
    made = half.plan()
    row |= {"budget": budget, "overhead": made.overhead, "planned": made.peak_bytes, "same": (half.results, half.logs) == (whole.results, whole.logs)}
    row["measured"] = half.measured()
    return row


def worker(names: list[str]) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    for name in names:
        begin, used = time.perf_counter(), time.process_time()
        try:
            row = tried(name)
        except Exception as error:
            if "CKM_TF_TRACE" in os.environ:
                raise
            row = {"case": name, "failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        row |= {"seconds": time.perf_counter() - begin, "processor": time.process_time() - used}
        print(json.dumps(row), flush=True)


def table(rows: list[Row]) -> str:
    lines = ["| model and loop | operators | peak, MB | budget, MB | measured, MB | overhead | results | first, s | processor, s |", "|---" * 9 + "|"]
    for row in rows:
        if "operators" not in row:
            lines.append(f"| {row['case']} | {'refused: ' + row['refused'] if 'refused' in row else row['failed']} |" + " |" * 7)
            continue
        results = "differ" if not row["same"] else "eager mode's, bit for bit" if row["eager"] else "those of 100 %, bit for bit; eager mode's differ"
        results += "" if row["logs"] or not row["eager"] else "; logs are graph mode's"
        lines.append(
            f"| {row['case']} | {row['operators']:,} | {row['peak'] / 1e6:.2f} | {row['budget'] / 1e6:.2f} | {row['measured'] / 1e6:.2f} | "
            f"{100 * row['overhead']:+.1f} % | {results} | {row['first']:.1f} | {row['processor']:.1f} |"
        )
    planned = [row for row in rows if "operators" in row]
    last = (f"Tried: {len(rows)}; planned: {len(planned)}, of which {sum(r['measured'] <= r['budget'] for r in planned)} within the budget, "
            f"{sum(r['same'] for r in planned)} with the results of the whole, {sum(r['same'] and r['eager'] for r in planned)} with eager mode's; "
            f"refused: {sum('refused' in r for r in rows)}; failed: {sum('failed' in r for r in rows)}.")  # fmt: skip
    return "\n".join([*lines, "", last, "", kept.made(rows)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", help="a part of a name")
    parser.add_argument("--again", action="store_true", help="what the records have, too")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "tf2-loops.jsonl")
    parser.add_argument("--page", type=pathlib.Path, help="where the table goes, between its markers")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return 0
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Before the first case: that the library is not there is no row.
    import checkmate.tf2  # noqa: F401
    from loop_cases import CASES

    chosen = [name for name in CASES if not options.case or any(part in name for part in options.case)]
    names = chosen if options.again else kept.missing(options.records, chosen)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache, "TF_CPU_ALLOCATOR_USE_BFC": "1"}
        for first in range(0, len(names), TOGETHER):
            left = dict.fromkeys(names[first : first + TOGETHER])
            with subprocess.Popen([sys.executable, __file__, "--worker", *left], env=environment, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                for line in child.stdout:
                    if line.startswith("{"):
                        kept.keep(options.records, json.loads(line), *PACKAGES)
                        left.pop(json.loads(line)["case"])
            for name in left:
                kept.keep(options.records, {"case": name, "failed": f"the process ended with {child.returncode}"}, *PACKAGES)
    known = kept.read(options.records)
    rows = [known[name] for name in CASES if name in known]
    text = table(rows)
    print(text)
    if options.page:
        kept.put(options.page, "loops", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
