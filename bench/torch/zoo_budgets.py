# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, timm, torchvision, diffusers and peft within budgets: does the budget hold, and what does it cost.

zoo_budgets.py [--case NAME]... [--seconds S] [--limit S] [--records FILE]     measures; a case that FILE has is skipped
zoo_budgets.py --table [--records FILE]                                         prints the table of what was measured

A case (zoo.py) is a separate process, which takes two steps with Adam in eager mode and at each budget, and compares losses,
gradients, parameters and buffers bit by bit; then measures the peak of a forward and backward pass by the allocator's reports
(physical.py) with the optimizer's state there. Budgets: 70 and 50 % of what lies in eager mode above parameters, gradients and
the optimizer's state; the least; and the number that an InfeasibleError names, whose schedule is on disk by then, as it is for
callers that pass the number on.
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
import time
from collections.abc import Callable, Iterator
from typing import Any

import zoo_table

HERE = pathlib.Path(__file__).parent
TIMED = 3

Row = dict[str, Any]


class Study:
    """One case in this process."""

    def __init__(self, name: str, seconds: float) -> None:
        import torch
        import zoo

        self.torch, self.seconds = torch, seconds
        torch.set_num_threads(1)
        self.task = zoo.make(name)
        model = self.task.model
        self.start = {key: value.detach().clone() for key, value in _named(model)}
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.expected, optimizer = self.train(model)
        self.state = _bytes(t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor))
        self.base = _bytes(model.parameters()) + sum(p.numel() * p.element_size() for p in self.trained) + self.state
        self.eager = self.peak(model)
        self.eager_seconds = self.time(model)

    def optimizer(self) -> Any:
        return self.torch.optim.Adam(self.trained)

    def train(self, run: Callable[..., Any], optimizer: Any = None) -> tuple[list[Any], Any]:
        """Two steps from the same start; everything they leave behind."""
        with self.torch.no_grad():
            for key, value in _named(self.task.model):
                value.copy_(self.start[key])
        optimizer = optimizer or self.optimizer()
        found: list[Any] = []
        for seed in range(2):
            self.torch.manual_seed(seed)
            self.clear()
            loss = self.task.loss(run(*self.task.args, **self.task.kwargs))
            loss.backward()
            found += [loss.detach().clone(), *(None if p.grad is None else p.grad.clone() for p in self.trained)]
            optimizer.step()
        found += [value.detach().clone() for _, value in _named(self.task.model)]
        self.clear()
        return found, optimizer

    def clear(self) -> None:
        for p in self.trained:
            p.grad = None

    def step(self, run: Callable[..., Any]) -> None:
        output = run(*self.task.args, **self.task.kwargs)
        self.task.loss(output).backward()

    def peak(self, run: Callable[..., Any]) -> int:
        """With the optimizer's state, which is there but not allocated in the step."""
        import physical
        from torch.utils._pytree import tree_leaves

        given = [t for t in tree_leaves((self.task.args, self.task.kwargs)) if isinstance(t, self.torch.Tensor)]
        self.clear()
        found = physical.held_bytes(self.task.model, given) + self.state + physical.allocator_peak(lambda: self.step(run))
        self.clear()
        return found

    def time(self, run: Callable[..., Any]) -> float:
        """Of the processor, the median of some steps."""
        found = []
        for _ in range(TIMED):
            self.clear()
            begin = time.process_time()
            self.step(run)
            found.append(time.process_time() - begin)
        self.clear()
        return statistics.median(found)

    def compiled(self, budget: int | str) -> Row:
        """The row of one budget."""
        import checkmate.torch

        self.torch._dynamo.reset()
        optimizer = self.optimizer()
        run = checkmate.torch.compile(self.task.model, budget, optimizer=optimizer, time_limit=self.seconds, threads=1)
        begin = time.perf_counter()
        try:
            found, _ = self.train(run, optimizer)
        except checkmate.InfeasibleError as error:
            self.clear()
            return {"budget": budget, "infeasible": str(error), "smallest": error.smallest_known}
        first = time.perf_counter() - begin
        (plan,) = checkmate.torch.plans(run)
        same = self.sameness(found)
        return {"budget": plan.budget_bytes, "planned": plan.peak_bytes, "baseline": plan.baseline_peak_bytes, "measured": self.peak(run),
                "overhead": plan.overhead, "gap": plan.gap, "seconds": plan.seconds, "first": first, "time": self.time(run) / self.eager_seconds,
                "operators": len(plan.graph.ops), "recomputed": len(plan.recomputed), "same": same, "origin": plan.origin,
                "detached": len(plan.detached)}  # fmt: skip

    def sameness(self, found: list[Any]) -> str:
        """ "eager", or what it is the same as, and where the difference to eager mode comes from."""
        if self.equal(found, self.expected):
            return "eager"
        if not hasattr(self, "traced"):
            self.traced = {}
            for backend in ("aot_eager", "eager"):
                self.torch._dynamo.reset()
                self.traced[backend], _ = self.train(self.torch.compile(self.task.model, backend=backend, dynamic=False))
        origin = "AOTAutograd" if self.equal(self.traced["eager"], self.expected) else "Dynamo"
        if self.equal(found, self.traced["aot_eager"]):
            return f"aot_eager ({origin})"
        if self.equal(self.traced["aot_eager"], self.expected):
            return "differs (ours)"
        return f"differs (ours, and {origin})"

    def equal(self, a: list[Any], b: list[Any]) -> bool:
        """A gradient of zeros is what torch.compile gives in place of none."""

        def same(x: Any, y: Any) -> bool:
            if x is None or y is None:
                other = y if x is None else x
                return other is None or not other.any()
            return x.dtype == y.dtype and self.torch.equal(x, y)

        return len(a) == len(b) and all(map(same, a, b))

    def rows(self, settings: list[str]) -> Iterator[Row]:
        smallest: int | None = None
        for share in (share for share in settings if share.isdigit()):
            row = self.compiled(self.base + (self.eager - self.base) * int(share) // 100)
            smallest = row.get("smallest") or smallest
            yield {"setting": share, **row}
        if "min" not in settings:
            return
        least = self.compiled("min")
        yield {"setting": "min", **least}
        row = least
        while smallest is None:  # until an error names one
            row = self.compiled(row["planned"] * 97 // 100)
            smallest = row.get("smallest")
        yield {"setting": "named", **self.compiled(smallest)}


def _named(model: Any) -> list[tuple[str, Any]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _bytes(tensors: Any) -> int:
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def worker(name: str, seconds: float, settings: list[str]) -> int:
    import logging

    logging.captureWarnings(True)
    begin = time.perf_counter()
    try:
        study = Study(name, seconds)
        common = {"base": study.base, "eager": study.eager, "eager_seconds": study.eager_seconds}
        for row in study.rows(settings):
            print(json.dumps(common | row | {"took": time.perf_counter() - begin}), flush=True)
            begin = time.perf_counter()
    except Exception as error:  # noqa: BLE001 - any error becomes the note of the row
        if os.environ.get("CKM_ZOO_TRACE"):
            raise
        print(json.dumps({"setting": "error", "error": f"{type(error).__name__}: {error}".splitlines()[0]}), flush=True)
    return 0


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    """A case in a new process, with a cache of its own."""
    command = [sys.executable, str(HERE / "zoo_budgets.py"), "--worker", name, "--seconds", str(options.seconds), "--settings", options.settings]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache, (pathlib.Path(cache) / "errors").open("w+") as errors:
        environment = os.environ | {"XDG_CACHE_HOME": cache, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            try:
                text, _ = process.communicate(timeout=options.limit)
            except subprocess.TimeoutExpired:
                process.kill()
                text, _ = process.communicate()
                rows.append({"setting": "error", "error": f"not done in {options.limit:.0f} s"})
            except BaseException:
                process.kill()
                raise
        errors.seek(0)
        said = [line.strip() for line in errors if not line.startswith("USDT") and line.strip()]
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if process.returncode not in (0, -9) and not any(row["setting"] == "error" for row in found):
        rows.append({"setting": "error", "error": f"the process ended with {process.returncode}: {' '.join(said[-1:])}"})
    return [{"case": name, **row} for row in [*found, *rows]]


def read(path: pathlib.Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def short(row: Row) -> str:
    if "error" in row:
        return f"  {row['error']}"
    if "infeasible" in row:
        return f"  {row['setting']:>5}: {row['infeasible']} ({row['took']:.0f} s)"
    wrong = "".join(f"; {text.upper()}" for text in zoo_table.faults(row))
    gap = "-" if row["gap"] is None else f"{100 * row['gap']:.1f}"
    return (f"  {row['setting']:>5}: eager {row['eager'] / 1e6:.2f}, base {row['base'] / 1e6:.2f}, unplanned {row['baseline'] / 1e6:.2f}, budget "
            f"{row['budget'] / 1e6:.2f}, planned {row['planned'] / 1e6:.2f}, measured {row['measured'] / row['planned']:.4f}, overhead "
            f"{100 * row['overhead']:.1f} %, gap {gap} %, plan {row['seconds']:.1f} s of {row['took']:.0f}, time {row['time']:.2f} of "
            f"{row['eager_seconds']:.2f} s, {row['operators']} ops, {row['same']}{wrong}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append")
    parser.add_argument("--seconds", type=float, default=1.5, help="time limit of our solver")
    parser.add_argument("--settings", default="70,50,min", help="percent, and min, after which the number that an InfeasibleError names is tried")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a case")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "torch-zoo.jsonl")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker, options.seconds, options.settings.split(","))
    if options.table:
        print(zoo_table.table(read(options.records)))
        return 0
    import zoo

    known = {row["case"] for row in read(options.records)}
    for name in options.case or zoo.CASES:
        if name not in zoo.CASES:
            parser.error(f'no case is called "{name}"; there are {", ".join(zoo.CASES)}')
        if name in known:
            continue
        begin = time.perf_counter()
        rows = measure(name, options)
        with options.records.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", *map(short, rows), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
