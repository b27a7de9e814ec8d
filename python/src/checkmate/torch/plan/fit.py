# SPDX-License-Identifier: Apache-2.0
"""What runs a schedule, and the peak that this has in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx

from ...planning.claim import NOTHING, Claim
from ...schedule import Schedule
from ..distributed import ranks
from ..fx import dataflow, partition
from ..memory import peak, pipeline
from ..rewrite import dropout
from ..trace import phases
from .prepare import Traced


@dataclass(frozen=True)
class Fit:
    """A schedule that fits, the graphs to run and their peak; of a pipeline's stage, with all that is in flight, and its parts."""

    schedule: Schedule
    claim: Claim
    origin: str
    halves: partition.Halves
    peak_bytes: int
    solved_bytes: int
    parts: pipeline.Parts | None = None


def run(model: dataflow.Joint, found: ranks.Found, target: int, limit: int, traced: Traced) -> Fit:
    """What runs a schedule, found for `target` bytes, and its peak, which may be above `limit`."""
    schedule, claim, origin = found
    with phases.part(phases.SPLITTING):
        halves = partition.split(model, schedule)
    levels: dict[fx.Node, int] = {}
    real, parts = peak_with(model, halves, traced, levels)
    if real <= limit and traced.options.compiler == "eager":
        others = 0 if traced.stage is None else traced.stage.most_others(peak.sides(model, halves, traced.workspace).crossing)
        if dropout.draw_noise(halves, limit - others, levels):
            real, parts = peak_with(model, halves, traced)
    return Fit(schedule, claim, origin, halves, real, target, parts)


def peak_with(
    model: dataflow.Joint, halves: partition.Halves, traced: Traced, levels: dict[fx.Node, int] | None = None
) -> tuple[int, pipeline.Parts | None]:
    """The peak of what runs, and of a pipeline's stage with all that is in flight."""
    sides = peak.sides(model, halves, traced.workspace, levels)
    if traced.stage is None:
        return max(sides.peak, (traced.reserved(model, halves) or 0) if traced.options.counts == "reserved" else 0), None
    parts = traced.stage.at_peak(sides, model.graph.fixed_bytes + model.input_bytes)
    return parts.total, parts


def keeping_all(model: dataflow.Joint, limit: int, traced: Traced) -> Fit:
    """What runs where nothing is computed again."""
    schedule = Schedule.baseline(model.graph)
    return run(model, (schedule, Claim.of_everything_kept(model.graph), "solver"), schedule.simulate(model.graph).peak_bytes, limit, traced)


def peak_of(model: dataflow.Joint, schedule: Schedule, traced: Traced) -> int:
    """The bytes that a schedule's run takes."""
    return peak_with(model, partition.split(model, schedule), traced)[0]


def as_given(model: dataflow.Joint, schedule: Schedule, traced: Traced, limit: int | None = None) -> Fit:
    """What runs a schedule of which nothing is proven, within its own peak or a limit."""
    own = schedule.simulate(model.graph).peak_bytes
    return run(model, (schedule, NOTHING, "solver"), own, own if limit is None else limit, traced)
