# SPDX-License-Identifier: Apache-2.0
"""What a memory budget would cost a model, before one commits to it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from typing_extensions import Unpack

from ..errors import CheckmateError
from ..graph import Graph
from ..planning import budget as sizes
from ..planning import frontier as shown
from ..planning.frontier import Frontier
from ..schedule import Schedule, Way
from ..solver import Solution, frontier, solve
from . import blocks, branches, casts, outputs, ranks
from . import settings as torchs
from .compiler import Backend, Settings, checked, require_callable
from .failures import Guard
from .optimizers import optimizer_bytes
from .planner import Options, time_limit, trace
from .report import checkpointing, keeping_all, recipes


def _ways(graph: Graph, solutions: list[Solution], budget: int | float | str | None, search: Callable[[int], Solution]) -> tuple[Solution, list[Way]]:
    """The schedule to choose, and the ways to run the step, its own the last. Without a budget it takes the memory that a
    checkpoint around every block would take; in a model without blocks, the least at no more than a tenth of computation more."""
    ways = [keeping_all(graph)]
    by_hand = blocks.checkpointed(graph)
    if by_hand is not None:
        ways.append(checkpointing(by_hand))
    found = [s for s in solutions if s.schedule is not None]
    least = min(found, key=lambda s: (s.peak_bytes or 0, s.cost or 0), default=None)
    name = "the plan"
    if budget == sizes.LEAST:
        limit, name = min(graph.memory_floor if least is None else least.peak_bytes or 0, ways[0].peak_bytes), "the plan of least memory"
    elif budget is not None:
        limit = sizes.in_bytes(budget, baseline_bytes=ways[0].peak_bytes)
        name = f"the plan for {budget if isinstance(budget, str) else shown.size(limit)}"
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
        proven = shown.least_overhead(best)
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
        shown.require_svg(plot)
    for path in (plot, report):
        if path is not None:
            shown.require_folder(path)
    if budget is not None and budget != sizes.LEAST:
        sizes.in_bytes(budget)
    fixed = optimizer_bytes(optimizer) if optimizer is not None else 0
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        wrapped: torch.nn.Module = model.module  # what the wrapper itself does cannot be traced
        model, fixed = wrapped, fixed + ranks.bucket_bytes(wrapped)
    settings = checked("100%", options, model=model, fixed_bytes=fixed)
    branches.as_in_eager_mode(model)
    graph = _training_graph(model, inputs, settings, loss)
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    tell = show or (lambda _line: None)
    for line in shown.head(graph, top):
        tell(line)
    solutions: list[Solution] = []
    search = functools.partial(solve, graph, time_limit=time_limit(graph, settings), strategy=settings.strategy, gap=settings.gap,
                               threads=settings.threads, seed=settings.seed)  # fmt: skip
    for solution in frontier(graph, points=budgets, **search.keywords):
        if solution.interrupted:
            raise KeyboardInterrupt
        solutions.append(solution)
        tell(shown.line(solution, top))
    chosen, ways = _ways(graph, solutions, budget, search)
    if chosen.interrupted:
        raise KeyboardInterrupt
    for line in ["", *shown.table(graph, ways)]:
        tell(line)
    result = Frontier(graph, top, graph.memory_floor, solutions, chosen, ways, recipes)
    if plot is not None:
        result.plot(plot)
    if report is not None:
        result.report(report)
    return result
