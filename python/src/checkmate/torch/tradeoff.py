# SPDX-License-Identifier: Apache-2.0
"""What a memory budget would cost a model, before one commits to it."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from typing_extensions import Unpack

from ..errors import CheckmateError, replace_file
from ..graph import Graph
from ..planning import budget as sizes
from ..schedule import Schedule, Way
from ..solver import Solution, frontier, solve
from . import blocks, casts, outputs, ranks, report
from . import settings as torchs
from .compiler import Backend, Settings, checked, require_callable
from .failures import Guard
from .figure import frontier_svg
from .optimizers import optimizer_bytes
from .planner import Options, time_limit, trace


@dataclass(frozen=True)
class Frontier:
    """Memory against overhead: the least overhead found at each budget, the largest budget first.

    `graph`: the model's training step, which `graph.write` saves for the `checkmate` program. `chosen`: the schedule that
    the page shows. `ways`: keeping everything, checkpoints around every block, and what the chosen one is called.
    """

    graph: Graph
    baseline_peak_bytes: int
    floor_bytes: int
    solutions: list[Solution]
    chosen: Solution | None = None
    ways: list[Way] = field(default_factory=list)

    def __str__(self) -> str:
        top = self.baseline_peak_bytes
        return "\n".join([*_head(self.graph, top), *(_line(s, top) for s in self.solutions), *(_table(self.graph, self.ways) if self.ways else ())])

    def __repr__(self) -> str:
        return f"<Frontier: {len(self.graph.ops)} operators, {len(self.solutions)} budgets>"

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws it as SVG."""
        _require_svg(path)
        found = [(s.budget_bytes / 1e6, 100 * (s.overhead or 0.0)) for s in self.solutions if s.cost is not None]
        proven = [(s.budget_bytes / 1e6, 100 * least) for s in self.solutions if (least := _least(s)) is not None]
        if not found:
            raise ValueError("no schedule was found at any budget: nothing to draw")
        _write(path, frontier_svg(f"Overhead against memory budget, {len(self.graph.ops)} operators", found, proven, self.floor_bytes / 1e6))

    def report(self, path: str | os.PathLike[str], budget: int | float | str | None = None) -> None:
        """Writes the HTML page of one schedule: memory over the step, what is live when, what is computed again and why, the
        graph. It is the chosen one; with a `budget`, bytes or such as "4GiB" or "60%", the cheapest one whose peak is at most
        that."""
        limit = None if budget is None else sizes.in_bytes(budget, baseline_bytes=self.baseline_peak_bytes)
        known = [*self.solutions, *([self.chosen] if self.chosen is not None else [])]
        fits = [s for s in known if s.schedule is not None and (limit is None or (s.peak_bytes or 0) <= limit)]
        if not fits:
            raise ValueError("no schedule of this frontier fits" + ("" if limit is None else f" {limit:,} bytes"))
        best = min(fits, key=lambda s: (s.peak_bytes or 0) if budget is None else (s.cost or 0))
        if budget is None and self.chosen is not None and self.chosen.schedule is not None:
            best = self.chosen
        assert best.schedule is not None
        name = self.ways[-1].name if self.ways and best is self.chosen else "this schedule"
        others = self.ways[:-1] if best is self.chosen else self.ways
        report.write(self.graph, best.schedule, best.budget_bytes, others, name, path)


def _require_svg(path: str | os.PathLike[str]) -> None:
    if pathlib.Path(path).suffix.lower() != ".svg":
        raise ValueError(f"{os.fspath(path)}: the drawing is SVG, so its name must end in .svg")


def _require_folder(path: str | os.PathLike[str]) -> None:
    if not pathlib.Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)} cannot be written: there is no such folder")


def _write(path: str | os.PathLike[str], text: str) -> None:
    """The file is replaced as a whole or left alone."""
    _require_folder(path)
    replace_file(path, text)


def _head(graph: Graph, top: int) -> list[str]:
    return [
        f"{len(graph.ops)} operators; without rematerialization {top:,} bytes; at least {graph.memory_floor:,} bytes are needed",
        f"{'budget':>8}  {'peak bytes':>16}  {'overhead':>9}  {'proven least':>12}",
    ]


def _least(s: Solution) -> float | None:
    """The overhead that schedules within the budget are proven to have at least."""
    return None if s.bound is None or s.status == "infeasible" else s.bound / s.baseline_cost - 1 if s.baseline_cost else 0.0


def _line(s: Solution, top: int) -> str:
    share = f"{100 * s.budget_bytes / top:7.1f}%"
    if s.cost is None:
        return f"{share:>8}  {'none fits' if s.status == 'infeasible' else 'none found':>16}"
    least = _least(s)
    proven = "" if least is None else f"{100 * least:.2f}%"
    overhead = 100 * (s.overhead or 0.0)
    bar = round(overhead / 2.5)
    return f"{share:>8}  {s.peak_bytes:>16,}  {overhead:8.2f}%  {proven:>12}  {'#' * min(40, bar)}{'+' if bar > 40 else ''}".rstrip()


def _table(graph: Graph, ways: list[Way]) -> list[str]:
    return ["", *report.table(graph, ways)]


def _ways(graph: Graph, solutions: list[Solution], budget: int | float | str | None, search: Callable[[int], Solution]) -> tuple[Solution, list[Way]]:
    """The schedule to choose, and the ways to run the step, its own the last. Without a budget it takes the memory that a
    checkpoint around every block would take; in a model without blocks, the least at no more than a tenth of computation more."""
    ways = [report.keeping_all(graph)]
    by_hand = blocks.checkpointed(graph)
    if by_hand is not None:
        ways.append(report.checkpointing(by_hand))
    found = [s for s in solutions if s.schedule is not None]
    least = min(found, key=lambda s: (s.peak_bytes or 0, s.cost or 0), default=None)
    name = "the plan"
    if budget == sizes.LEAST:
        limit, name = min(graph.memory_floor if least is None else least.peak_bytes or 0, ways[0].peak_bytes), "the plan of least memory"
    elif budget is not None:
        limit = sizes.in_bytes(budget, baseline_bytes=ways[0].peak_bytes)
        name = f"the plan for {budget if isinstance(budget, str) else report.size(limit)}"
    elif by_hand is not None:
        limit, name = by_hand.peak_bytes, "the plan, same memory"
    else:
        cheap = [s for s in found if (s.overhead or 0.0) <= 0.1]
        limit = min((s.peak_bytes or 0 for s in cheap), default=ways[0].peak_bytes)
        name = "the plan, a tenth more at most"
    fits = [s for s in found if (s.peak_bytes or 0) <= limit and s.budget_bytes >= limit]
    best = min(fits, key=lambda s: s.cost or 0) if fits else search(limit)
    more = [s for s in found if (s.peak_bytes or 0) <= limit and (best.schedule is None or (s.cost or 0) < (best.cost or 0))]
    best = min(more, key=lambda s: s.cost or 0, default=best)
    if least is not None and least is not best and (least.peak_bytes or 0) < (best.peak_bytes or limit):
        ways.append(Way("the plan of least memory", least.peak_bytes or 0, least.cost or 0, ""))
    if best.schedule is not None:
        proven = _least(best)
        note = "" if proven is None else f"no schedule can do with less than {100 * max(0.0, proven):.1f}% more"
        ways.append(Way(name, best.peak_bytes or 0, best.cost or 0, note))
    return best, ways


class _TracedError(Exception):
    """Ends a compilation whose joint graph is all that was wanted."""


def _training_graph(model: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any], options: Options, loss: outputs.Loss) -> Graph:
    found: list[Graph] = []

    class Tracer(Backend):
        def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            with self.at_upper_ends(module):
                casts.merge(module, num_fwd_outputs, self._parameters)
                beside = replace(options, fixed_bytes=options.fixed_bytes + self._around.held_bytes)
                found.append(trace(module, num_fwd_outputs, beside, "the model").build().graph)
            raise _TracedError

    whole = model

    def traced(*args: Any, **kwargs: Any) -> Any:
        tracer = Tracer(options, None, loss, whole)
        tracer.arguments = args, kwargs
        return torch.compile(outputs.traced(model, loss), backend=tracer, fullgraph=True, dynamic=False)(*args, **kwargs)

    if getattr(model, "_compiled_call_impl", None) is not None:  # compiled in place
        model = model._call_impl  # type: ignore[attr-defined]
    guard = Guard(traced, model, fallback=False, graphs=None, advice=False)
    try:
        with torchs.during_call():
            guard(**inputs) if isinstance(inputs, Mapping) else guard(*inputs)
    except CheckmateError:
        if not found:
            raise
    if not found:
        raise ValueError("nothing was traced: the model needs inputs or parameters that require gradients")
    return found[0]


def explain(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    budgets: int = 8,
    budget: int | float | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    plot: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    show: Callable[[str], None] | None = print,
    loss: outputs.Loss = None,
    **options: Unpack[Settings],
) -> Frontier:
    """The frontier of memory against overhead of a training step, shown line by line as it is found. `inputs`: the model's
    arguments, a tuple, or a dict of keyword arguments.

    The model is traced, not run. `budgets` points from the peak without rematerialization down to the memory floor;
    `loss` and other options as in `compile`. A model that returns its loss is planned whole. A table in the end compares
    keeping everything, `torch.utils.checkpoint` around every block, and the plan for `budget`, given as in `compile`; without
    one, for the memory that those checkpoints take. `plot` names an SVG file to draw the frontier in, `report` an HTML file
    for that plan. KeyboardInterrupt on Ctrl-C.
    """
    require_callable(model)
    outputs.check(loss)
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (Sequence, Mapping)):
        raise TypeError("inputs must be a tuple of the model's arguments, such as (images, labels), or a dict of keyword arguments")
    if budgets < 1:
        raise ValueError(f"budgets must be at least 1, not {budgets}")
    if plot is not None:
        _require_svg(plot)
    for path in (plot, report):
        if path is not None:
            _require_folder(path)
    if budget is not None and budget != sizes.LEAST:
        sizes.in_bytes(budget)
    fixed = optimizer_bytes(optimizer) if optimizer is not None else 0
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        wrapped: torch.nn.Module = model.module  # what the wrapper itself does cannot be traced
        model, fixed = wrapped, fixed + ranks.bucket_bytes(wrapped)
    settings = checked("100%", options, model=model, fixed_bytes=fixed)
    graph = _training_graph(model, inputs, settings, loss)
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    tell = show or (lambda _line: None)
    for line in _head(graph, top):
        tell(line)
    solutions: list[Solution] = []
    search = functools.partial(solve, graph, time_limit=time_limit(graph, settings), strategy=settings.strategy, gap=settings.gap,
                               threads=settings.threads, seed=settings.seed)  # fmt: skip
    for solution in frontier(graph, points=budgets, **search.keywords):
        if solution.interrupted:
            raise KeyboardInterrupt
        solutions.append(solution)
        tell(_line(solution, top))
    chosen, ways = _ways(graph, solutions, budget, search)
    if chosen.interrupted:
        raise KeyboardInterrupt
    for line in _table(graph, ways):
        tell(line)
    result = Frontier(graph, top, graph.memory_floor, solutions, chosen, ways)
    if plot is not None:
        result.plot(plot)
    if report is not None:
        result.report(report)
    return result
