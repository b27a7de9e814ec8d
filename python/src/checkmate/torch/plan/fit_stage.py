# SPDX-License-Identifier: Apache-2.0
"""A fit for a stage of a pipeline, whose peak counts all micro-batches in flight: see memory/pipeline.py."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InfeasibleError
from ..fx import dataflow
from ..memory import pipeline
from . import solving
from .fit import Fit, keeping_all, run
from .prepare import Traced

#: How often a target is lowered because PyTorch needs more than the dataflow graph counts.
_LOWERED = 3


def fit_in_flight(model: dataflow.Joint, limit: int | None, traced: Traced) -> Fit | None:
    """The cheapest fit found for a stage of a pipeline, None where there is none; without a limit, keeping everything."""
    assert traced.stage is not None
    if limit is None:
        return keeping_all(model, 0, traced)
    try:
        return fit_stage(model, limit, traced, traced.stage)
    except InfeasibleError:
        return None


def fit_stage(model: dataflow.Joint, limit: int, traced: Traced, stage: pipeline.Stage, *, any_fit: bool = False) -> Fit:
    """The cheapest fit found for a stage of a pipeline, or the first one: see memory/pipeline.py."""
    everything = keeping_all(model, limit, traced)
    if everything.peak_bytes <= limit:
        return everything
    # A schedule that fits saves its outputs at least, so that no pass has more than this.
    most = limit - stage.least_others(stage.outputs)
    try:
        relaxed = solving.solve_together(model.graph, max(1, most), traced.options)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"no schedule was found within {limit:,} bytes with {stage.flight.description}: {error}",
            proven=limit <= error.largest_impossible + limit - most, budget_bytes=limit, smallest_known=None,
            largest_impossible=error.largest_impossible + limit - most, covers=error.covers,
            impossible_for_all=error.impossible_for_all + limit - most,
        ) from None  # fmt: skip
    between = model.graph.fixed_bytes + model.input_bytes + stage.output_gradients + model.loss.kept + model.loss.more
    start, alone = [relaxed[0]], int(stage.flight) == 1

    def attempt(saved: int) -> Fit | None:
        room = limit
        for _ in range(_LOWERED):
            target = room - stage.most_others(saved)
            reserve = 0 if alone else target - between - saved
            if reserve < 0 or target < model.graph.memory_floor:
                return None
            reserved = traced.build(reserve_bytes=reserve)
            known = start[0] if start[0].verify(reserved.graph, target) else None
            try:
                found = solving.solve_together(reserved.graph, target, traced.options, known)
            except InfeasibleError:
                return None
            fit = run(reserved, found, target, limit, traced)
            if fit.peak_bytes <= limit:
                start[0] = fit.schedule
                return fit
            room -= fit.peak_bytes - limit
        return None

    assert everything.parts is not None
    high = min(everything.parts.saved, max(stage.outputs, (limit - between) // max(1, int(stage.flight))))
    best = pipeline.cheapest(attempt, lambda fit: fit.schedule.simulate(model.graph).cost, high if alone else stage.outputs, high, first=any_fit)
    if best is None:
        raise InfeasibleError(f"no schedule was found whose run fits {limit:,} bytes with {stage.flight.description}", proven=False,
                              budget_bytes=limit, smallest_known=None, largest_impossible=model.graph.memory_floor - 1)  # fmt: skip
    # What no pass can do within `most`, none can do within the limit with the others in flight.
    return replace(best, claim=replace(relaxed[1], budget_bytes=limit))
