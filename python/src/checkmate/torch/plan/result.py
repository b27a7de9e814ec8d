# SPDX-License-Identifier: Apache-2.0
"""What a plan says of itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ...graph import Graph
from ...planning import least
from ...schedule import Schedule
from ..fx import dataflow
from ..memory import pipeline
from ..memory.ranges import Range
from ..report.moved import Moved
from ..report.page import write_plan
from ..trace import phases
from .verify import Verification


@dataclass(frozen=True)
class Plan:
    """One planned graph. Bytes count parameters, inputs, gradients, `fixed_bytes` and `held_bytes`: what the model's other
    graphs hold, and what the model and the call have that no graph takes. Costs are nanoseconds of one step. `bound`, `gap` and
    `status` are proven of the schedules of `graph` within `bound_bytes`, which is less than the budget where room was left for states of
    random generators. `solved_bytes`: what the schedule was found for, less where PyTorch needs room that the graph does not count.
    `origin` is "solver", "cache", "another shape" whose schedule serves this one too, or such as "rank 0"
    where that process of a distributed job sent it. `detached`: outputs that are planned not to be differentiated.
    `ranges`: the sizes that it is for, proven at their upper ends, where the bytes are those of; empty for static shapes.
    `verification`: how the first step compares with eager mode, with verify=True. `input_bytes`: parameters, buffers and inputs of
    the graph. `loss`: the room for a loss computed outside. `reserved_bytes`: what PyTorch's allocator takes from a GPU for this plan, by
    its rules; None on a CPU. With compiler="inductor" `peak_bytes` is measured, not planned.
    `in_flight`: micro-batches in flight, where that was given; `parts` are then what the peak is made of, and `baseline_peak_bytes` counts
    all micro-batches too, while the graph and `solved_bytes` are of one.
    `spent`: what the compilation took, part by part, PyTorch's own included; complete when it is over. `next_budgets`: with budget="min",
    what a little more memory saves."""

    graph: Graph
    schedule: Schedule
    budget_bytes: int
    solved_bytes: int
    peak_bytes: int
    baseline_peak_bytes: int
    floor_bytes: int
    saved_bytes: int
    held_bytes: int
    cost: int
    baseline_cost: int
    bound: float | None
    bound_bytes: int
    gap: float | None
    status: str
    recomputed: list[str]
    seconds: float
    origin: str
    detached: list[str] = field(default_factory=list)
    verification: Verification | None = None
    ranges: tuple[Range, ...] = ()
    input_bytes: int = 0
    reserved_bytes: int | None = None
    loss: dataflow.LossOutside = field(default_factory=dataflow.LossOutside)
    in_flight: pipeline.InFlight | None = None
    parts: pipeline.Parts | None = None
    spent: phases.Phases = field(default_factory=phases.Phases, compare=False)
    next_budgets: tuple[least.Next, ...] = ()

    @property
    def moved(self) -> Moved:
        """To the second memory and back in a step, with offload=; what checkpoint policies move is not counted."""
        return Moved.of(self.graph, self.schedule)

    @property
    def cached(self) -> bool:
        """Whether it was on disk."""
        return self.origin == "cache"

    @property
    def overhead(self) -> float:
        return self.cost / self.baseline_cost - 1 if self.baseline_cost else 0.0

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page: memory over the step, what is live when, what is computed again and why, by the model's modules,
        and what keeping everything or a checkpoint around every block would take."""
        write_plan(self.graph, self.schedule, self.budget_bytes, path)

    def __str__(self) -> str:
        gap = "no bound" if self.gap is None else f"gap {100 * self.gap:.2g} %"
        gap += f" within {self.bound_bytes:,} bytes" if self.gap is not None and self.bound_bytes < self.budget_bytes else ""
        origin = {"solver": f"{self.seconds:.1f} s", "cache": "from the cache"}.get(self.origin, f"from {self.origin}")
        return (
            f"{len(self.graph.ops)} operators, peak {self.peak_bytes:,} of {self.budget_bytes:,} bytes "
            f"({self.baseline_peak_bytes:,} without rematerialization), {len(self.recomputed)} recomputed, "
            f"overhead {100 * self.overhead:.2f} %, {gap}, {origin}"
            f"{'' if self.graph.second_memory is None else f'; {self.moved}'}"
            f"{'' if self.reserved_bytes is None else f'; the allocator reserves {self.reserved_bytes:,}'}"
            f"{_some('; not differentiated:', self.detached)}"
            f"{_some('; for', list(map(str, self.ranges)))}{'' if self.verification is None else f'; verified: {self.verification}'}"
            f"{'' if self.in_flight is None else f'; {self.in_flight.description}: {self.parts}'}"
        )

    def __repr__(self) -> str:
        return f"<Plan: {self}>"


def _some(title: str, names: list[str], most: int = 4) -> str:
    """The first of the names behind a title; nothing where there are none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{title} {', '.join(names[:most])}{more}" if names else ""
