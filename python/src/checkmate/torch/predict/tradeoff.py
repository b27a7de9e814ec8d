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

from ...errors import UnsupportedError
from ...graph import Graph
from ...planning import budget as sizes
from ...planning import frontier as shown
from ...planning import least
from ...planning.claim import gap_of
from ...planning.device import Device
from ...planning.frontier import Frontier
from ...schedule import COVERED, Schedule, Way
from ...solver import Solution, frontier, solve
from ..compiler import require_callable
from ..distributed import fsdp, ranks
from ..fx import dataflow
from ..memory import pipeline
from ..memory.optimizers import optimizer_bytes
from ..offload.weights import Weights
from ..options import Settings, checked
from ..plan.fit import peak_of
from ..plan.fit_stage import fit_in_flight
from ..plan.prepare import Traced
from ..plan.solving import time_limit
from ..report import blocks
from ..report.moved import Moved
from ..report.page import checkpointing, keeping_all, recipes
from ..rewrite import attention
from ..trace import branches, outputs, standins
from ..trace.phases import SOLVING, Phases
from ..trace.standins import Standins
from . import absent_device
from .joint_graph import joint_graph


def _ways(graph: Graph, solutions: list[Solution], budget: int | float | str | None, search: Callable[[int], Solution],
          by_hand: blocks.Checkpointed | None) -> tuple[Solution, list[Way]]:  # fmt: skip
    """The schedule to choose, and the ways to run the step, its own the last. Without a budget it takes the memory that a
    checkpoint around every block would take; in a model without blocks, the least at no more than a tenth of computation more."""
    ways = [keeping_all(graph)]
    if by_hand is not None:
        ways.append(checkpointing(by_hand))
    found = [s for s in solutions if s.schedule is not None]
    smallest = min(found, key=lambda s: (s.peak_bytes or 0, s.cost or 0), default=None)
    name = "the plan"
    if budget == sizes.LEAST:
        limit, name = ways[0].peak_bytes if smallest is None else smallest.peak_bytes or 0, _LEAST
    elif budget is not None:
        limit = sizes.in_bytes(budget, baseline_bytes=ways[0].peak_bytes, standing_bytes=graph.standing_bytes)
        name = f"the plan for {budget if isinstance(budget, str) else shown.size(limit)}"
    elif by_hand is not None:
        limit, name = by_hand.peak_bytes, "the plan, same memory"
    else:
        cheap = [s for s in found if (s.overhead or 0.0) <= _TENTH]
        limit = min((s.peak_bytes or 0 for s in cheap), default=ways[0].peak_bytes)
        name = "the plan, a tenth more at most"
    fits = [s for s in found if (s.peak_bytes or 0) <= limit and s.budget_bytes >= limit]
    best = min(fits, key=lambda s: s.cost or 0) if fits else search(limit)
    more = [s for s in found if (s.peak_bytes or 0) <= limit and (best.schedule is None or (s.cost or 0) < (best.cost or 0))]
    best = min(more, key=lambda s: s.cost or 0, default=best)
    lowest = min([way.peak_bytes for way in ways] + ([best.peak_bytes or limit] if best.schedule is not None else []))
    if smallest is not None and smallest is not best and (smallest.peak_bytes or 0) < lowest:
        ways.append(Way(_LOWEST, smallest.peak_bytes or 0, smallest.cost or 0, ""))
    if best.schedule is not None:
        proven = shown.least_overhead(best)
        note = "" if proven is None else f"no {COVERED[best.bound_covers]} can do with less than {100 * max(0.0, proven):.1f}% more"
        ways.append(Way(name, best.peak_bytes or 0, best.cost or 0, note))
    return best, ways


def _missing(chosen: Solution, ways: Sequence[Way]) -> list[str]:
    """That there is no plan for the budget, and what is nearest."""
    if chosen.schedule is not None:
        return []
    nearest = min(ways, key=lambda way: way.peak_bytes)
    what = f"no {COVERED[chosen.bound_covers]} fits" if chosen.status == "infeasible" else "no schedule was found within"
    return ["", f"{what} {shown.size(chosen.budget_bytes)}: the least of these is {nearest.name}, {shown.size(nearest.peak_bytes)}; "
            'budget="min" searches for the least']  # fmt: skip


#: Names of ways: what was searched for the least, and the lowest point of the frontier.
_LEAST, _LOWEST = "the plan of least memory", "the lowest of the frontier"

#: Of computation more, which is cheap enough where no budget is given.
_TENTH = 0.1


def _of_stage(traced: Traced, model: dataflow.Joint, points: int, budget: int | float | str | None, device: Device | None,
              tell: Callable[[str], None]) -> Frontier:  # fmt: skip
    """The frontier of a pipeline's stage: bytes are of all that is in flight, the graph is of one micro-batch."""
    graph, stage = model.graph, traced.stage
    assert stage is not None
    everything = fit_in_flight(model, None, traced)
    assert everything is not None
    top, timed = everything.peak_bytes, device is not None
    low = graph.memory_floor + stage.least_others(stage.outputs)
    tell(f"{stage.flight.description}, counted in all bytes but those that are needed at least")
    for line in shown.head(graph, top, timed=timed):
        tell(line)
    parts: dict[int, pipeline.Parts | None] = {}

    def search(limit: int) -> Solution:
        fit = fit_in_flight(model, limit, traced)
        parts[limit] = None if fit is None else fit.parts
        covers = "none" if fit is None else fit.claim.covers
        common = {"budget_bytes": limit, "baseline_cost": graph.total_cost, "baseline_peak_bytes": top, "floor_bytes": low, "least_peak_bytes": None,
                  "bound_covers": covers, "seconds": 0.0, "strategy": traced.options.strategy, "interrupted": False}  # fmt: skip
        if fit is None:
            return Solution(status="unknown", schedule=None, cost=None, peak_bytes=None, bound=None, gap=None, **common)  # type: ignore[arg-type]
        cost, bound = fit.schedule.simulate(graph).cost, fit.claim.bound_for(graph, limit)
        return Solution(status="feasible", schedule=fit.schedule, cost=cost, peak_bytes=fit.peak_bytes, bound=bound,
                        gap=gap_of(cost, bound), **common)  # type: ignore[arg-type]  # fmt: skip

    solutions: list[Solution] = []
    for i in range(points):
        solutions.append(search(top - i * max(0, top - low) // points))
        tell(shown.line(solutions[-1], top, timed=timed))
    found = [s for s in solutions if s.schedule is not None]
    if budget == sizes.LEAST:
        chosen = min(found, key=lambda s: s.peak_bytes or 0)
    elif budget is None:
        chosen = min(found, key=lambda s: ((s.overhead or 0.0) > _TENTH, s.peak_bytes or 0))
    else:
        chosen = search(sizes.in_bytes(budget, baseline_bytes=top, standing_bytes=graph.standing_bytes))
    ways = [Way("keep everything", top, graph.total_cost, "as PyTorch does by itself")]
    by_hand = blocks.checkpointed(graph)
    if by_hand is not None:
        at_hand = checkpointing(by_hand)
        ways.append(replace(at_hand, peak_bytes=peak_of(model, by_hand.schedule, traced)))
    if chosen.schedule is not None:
        ways.append(Way("the plan", chosen.peak_bytes or 0, chosen.cost or 0, ""))
    notes = [f"keep everything: {everything.parts}"]
    if parts[chosen.budget_bytes] is not None:
        notes.append(f"the plan: {parts[chosen.budget_bytes]}")
    for line in ["", *shown.table(graph, ways, timed=timed), *notes]:
        tell(line)
    return Frontier(graph, top, low, solutions, chosen, ways, recipes, device, notes)


def explain(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    budgets: int | str = 8,
    budget: int | float | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    plot: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    show: Callable[[str], None] | None = print,
    loss: outputs.Loss = None,
    device: str | None = None,
    **options: Unpack[Settings],
) -> Frontier:
    """The frontier of memory against overhead of a training step, shown line by line as it is found. `inputs`: the model's
    arguments, a tuple, or a dict of keyword arguments.

    The model is traced, not run. `budgets` points from the peak without rematerialization down to the memory floor, or "near-min":
    the least that is found to be enough and up to twice it, which shows what one more megabyte saves there;
    `loss` and other options as in `compile`. A model that returns its loss is planned whole. A table in the end compares
    keeping everything, `torch.utils.checkpoint` around every block, and the plan for `budget`, given as in `compile`; without
    one, for the memory that those checkpoints take. `plot` names an SVG file to draw the frontier in, `report` an HTML file
    for that plan. KeyboardInterrupt on Ctrl-C.

    `device`: plans for one that need not be here, such as "H100" (`checkmate devices` lists those that there are models of).
    The model may be on any device, be made under `torch.device("meta")` or under `FakeTensorMode`; its data is not looked at and
    nothing of its size is allocated. Times are predicted, the plan is for `budget` or for the device's memory, and lines in the end
    say what fits and what all this is modelled by. Nothing is measured: `costs` cannot be "measure".
    """
    require_callable(model)
    outputs.check(loss)
    if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (Sequence, Mapping)):
        raise TypeError("inputs must be a tuple of the model's arguments, such as (images, labels), or a dict of keyword arguments")
    shown.require_points(budgets)
    if plot is not None:
        shown.require_svg(plot)
    for path in (plot, report):
        if path is not None:
            shown.require_folder(path)
    if budget is not None and budget != sizes.LEAST:
        sizes.in_bytes(budget)
    if fsdp.of(model) is not None:
        raise UnsupportedError("a model that fully_shard was called on is not explained: explain it before, or see plans() of what is compiled")
    target = None if device is None else absent_device.find(device, options)
    if target is None:
        standins.require_data(model, inputs)
    standins.require_no_mode()
    standins.require_gradients(model, inputs)
    with absent_device.bytes_of(target):
        fixed = optimizer_bytes(optimizer) if optimizer is not None else 0
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        wrapped: torch.nn.Module = model.module  # what the wrapper itself does cannot be traced
        with absent_device.bytes_of(target):
            model, fixed = wrapped, fixed + ranks.bucket_bytes(wrapped)
    settings = replace(checked("100%", options, model=model, fixed_bytes=fixed, function=explain), device=target)
    if settings.store is not None:
        settings = replace(settings, weights=Weights(settings.store, assumed=True))  # which stay where they are
    branches.as_in_eager_mode(model)
    tell, spent = show or (lambda _line: None), Phases()
    told = settings if settings.progress is not None else replace(settings, progress=lambda line: tell(line.removeprefix("checkmate: ")))
    kernels: dict[fx.Node, attention.Kernel] = {}
    with absent_device.bytes_of(target):
        if target is None:
            traced, whole = joint_graph(model, inputs, told, loss, kernels, spent)
        else:
            others = Standins()
            with others.within(model):
                traced, whole = joint_graph(model, others.inputs(inputs), told, loss, kernels, spent)
    graph = whole.graph
    if traced.stage is not None:
        if isinstance(budgets, str):
            raise UnsupportedError(f"budgets={budgets!r} of a pipeline's stage, whose least is not searched for: give a number of budgets")
        with absent_device.bytes_of(target):
            result = _of_stage(traced, whole, budgets, budget, target, tell)
        tell(f"explaining took {spent}")
        if plot is not None:
            result.plot(plot)
        if report is not None:
            result.report(report)
        return result
    top, timed = Schedule.baseline(graph).simulate(graph).peak_bytes, target is not None
    for line in shown.head(graph, top, timed=timed):
        tell(line)
    if target is not None and target.is_gpu and budget in (None, "auto"):
        budget = target.memory_bytes
    solutions: list[Solution] = []
    by_hand = blocks.checkpointed(graph)
    start = by_hand.schedule if by_hand is not None and by_hand.schedule.verify(graph) else None
    search = functools.partial(solve, graph, time_limit=time_limit(graph, settings), strategy=settings.strategy, gap=settings.gap,
                               threads=settings.threads, seed=settings.seed, start=start)  # fmt: skip
    with spent.part(SOLVING):
        for solution in frontier(graph, points=budgets, **search.keywords):
            if solution.interrupted:
                raise KeyboardInterrupt
            solutions.append(solution)
            tell(shown.line(solution, top, timed=timed))
        notes: list[str] = []
        if budget == sizes.LEAST:
            smallest, notes = least.in_frontier(graph, settings, time_limit(graph, settings), lambda s: s.simulate(graph).peak_bytes, search)
            solutions.append(smallest)
            tell(shown.line(smallest, top, timed=timed))
        chosen, ways = _ways(graph, solutions, budget, search, by_hand)
    if chosen.interrupted:
        raise KeyboardInterrupt
    notes = [*_missing(chosen, ways), *notes]
    if graph.second_memory is not None and chosen.schedule is not None:
        notes.append(f"the plan: {Moved.of(graph, chosen.schedule)}")
    returned = traced.other_output_bytes
    if returned >= top // 200:
        notes.append(f"{shown.size(returned)} of each of these are what the model returns in addition to its loss, held to the end of the step; "
                     "keep_outputs=False plans for a loop that drops it before backward(), as transformers' Trainer does")  # fmt: skip
    notes += [] if target is None else [*absent_device.fits(target, graph, ways, chosen, solutions), *absent_device.carried(target, ways[0]),
                                       *absent_device.modelled(target, kernels.values(), optimizer=optimizer is not None)]  # fmt: skip
    for line in ["", *shown.table(graph, ways, timed=timed), *notes]:
        tell(line)
    tell(f"explaining took {spent}")
    made_of = recipes if graph.second_memory is None else functools.partial(recipes, offload=graph.second_memory.name)
    result = Frontier(graph, top, graph.memory_floor, solutions, chosen, ways, made_of, target, notes)
    if plot is not None:
        result.plot(plot)
    if report is not None:
        result.report(report)
    return result
