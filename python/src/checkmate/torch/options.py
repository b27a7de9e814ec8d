# SPDX-License-Identifier: Apache-2.0
"""What `compile` and `backend` take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..planning import budget
from ..planning.device import Device
from ..schedule import Schedule
from . import pipeline, policies
from .collectives import Link
from .ranges import UpperEnds
from .ranges import check as check_ranges

#: The title of a graph whose model is not known.
UNNAMED = "torch"

_FROM_PROGRESS = "_checkmate_progress"


@dataclass(frozen=True)
class Options:
    """What `compile` and `backend` take; see there."""

    budget: int | float | str
    costs: str = "measure"
    compiler: str = "eager"
    fixed_bytes: int = 0
    time_limit: float | None = None
    gap: float = 0.001
    threads: int = 2
    seed: int = 1
    strategy: str = "auto"
    random: str = "replay"
    counts: str = "allocated"
    checkpoint_policy: policies.Binding = "must"
    autocast_backward: bool = False
    cache: bool = True
    shapes: int = 0
    dynamic: bool | UpperEnds = False
    in_flight: int | None = None
    extra_gathers: int | None = 0
    progress: Callable[[str], None] | None = field(default=None, compare=False)
    held_now_bytes: int = 0  # of fixed_bytes, what is on the device already
    largest_bytes: int = 0  # peak without rematerialization of the largest step that was planned before
    keep_outputs: bool = True
    title: str = UNNAMED  # of the graph
    given: Schedule | None = None  # to be run whatever it takes: nothing is solved
    link: Link | None = None  # between the processes of a job that is not there
    device: Device | None = None  # that costs are modelled for; None where the step will run here

    def check(self) -> None:
        """ValueError for what is no choice."""
        choices = {"costs": ("estimate", "measure"), "random": ("replay", "keep"), "compiler": ("eager", "inductor"),
                   "counts": ("allocated", "reserved"), "checkpoint_policy": policies.BINDINGS}  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                quoted = " or ".join(f'"{choice}"' for choice in allowed)
                raise ValueError(f'{name} must be {quoted}, not "{getattr(self, name)}"')
        if self.counts == "reserved" and (self.compiler != "eager" or self.dynamic or self.in_flight is not None):
            raise ValueError('counts="reserved" needs compiler="eager", fixed sizes and no in_flight: else the order of allocations is not known')
        if not isinstance(self.keep_outputs, bool):
            raise TypeError(f"keep_outputs must be True or False, not {self.keep_outputs!r}")
        if not self.keep_outputs and (self.in_flight is not None or self.compiler != "eager"):
            raise ValueError('keep_outputs=False needs compiler="eager" and no in_flight: else when outputs go is not known')
        if self.budget not in ("auto", budget.LEAST) and not budget.is_share(self.budget):
            budget.in_bytes(self.budget)
        check_ranges(self.dynamic)
        if self.in_flight is not None:
            pipeline.InFlight.of(self.in_flight)
            if self.compiler != "eager" or self.dynamic:
                raise ValueError('in_flight= needs compiler="eager" and static shapes: else what micro-batches save is not known')

    def say(self, text: str) -> None:
        if self.progress is None:
            return
        try:
            self.progress(f"checkmate: {text}")
        except Exception as error:
            error.__dict__[_FROM_PROGRESS] = True
            raise


def from_progress(error: BaseException) -> bool:
    """Whether it was raised by the user's `progress`, and so says nothing of the model."""
    return _FROM_PROGRESS in error.__dict__
