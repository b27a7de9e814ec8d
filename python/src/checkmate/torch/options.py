# SPDX-License-Identifier: Apache-2.0
"""What `compile` and `backend` take."""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict

from .. import solver
from ..errors import int64
from ..planning import budget
from ..planning.device import Device
from ..schedule import Schedule
from .cost.collectives import Link
from .memory import pipeline
from .memory.ranges import UpperEnds
from .memory.ranges import check as check_ranges
from .offload import choice
from .offload.store import Store
from .offload.weights import Weights
from .rewrite import policies

#: The title of a graph whose model is not known.
UNNAMED = "torch"

_FROM_PROGRESS = "_checkmate_progress"


class Settings(TypedDict, total=False):
    """Options of `compile`, `backend` and `explain`; `compile` says what they mean."""

    costs: Literal["estimate", "measure"]
    compiler: Literal["eager", "inductor"]
    random: Literal["replay", "keep"]
    counts: Literal["allocated", "reserved"]
    checkpoint_policy: policies.Binding
    autocast_backward: bool
    fixed_bytes: int
    time_limit: float | None
    gap: float
    threads: int
    seed: int
    strategy: str
    cache: bool
    shapes: int
    dynamic: bool | UpperEnds
    in_flight: int | None
    extra_gathers: int | None
    keep_outputs: bool
    offload: str | os.PathLike[str] | None
    offload_memory: int | str | None
    offload_speed: float | tuple[float, float] | None
    progress: Callable[[str], None] | None


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
    offload: str | os.PathLike[str] | None = None
    offload_memory: int | str | None = None
    offload_speed: float | tuple[float, float] | None = None
    store: Store | None = field(default=None, compare=False)  # what `offload` names
    weights: Weights | None = field(default=None, compare=False)  # those that lie there
    title: str = UNNAMED  # of the graph
    given: Schedule | None = None  # to be run whatever it takes: nothing is solved
    link: Link | None = None  # between the processes of a simulated job
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
        choice.check(self.offload, self.offload_memory, self.offload_speed)
        if self.offload is not None:
            self._check_offload()
        check_ranges(self.dynamic)
        if self.in_flight is not None:
            pipeline.InFlight.of(self.in_flight)
            if self.compiler != "eager" or self.dynamic:
                raise ValueError('in_flight= needs compiler="eager" and static shapes: else what micro-batches save is not known')

    def _check_offload(self) -> None:
        others = {"compiler=\"inductor\"": self.compiler != "eager", "dynamic=": bool(self.dynamic), "in_flight=": self.in_flight is not None,
                  "counts=\"reserved\"": self.counts == "reserved"}  # fmt: skip
        for name, given in others.items():
            if given:
                raise ValueError(f"offload= cannot be combined with {name}: leave one of them out")

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


def checked(budget: int | float | str, settings: Settings, *, model: object = None, fixed_bytes: int = 0, held_now_bytes: int = 0,
            function: Callable[..., Any] | None = None) -> Options:  # fmt: skip
    """The options, `fixed_bytes` added to those among the settings; TypeError or ValueError for what is none. Graphs get
    the name of the model. `function`: the user's, which takes others too."""
    given: dict[str, Any] = dict(settings)
    for name in given:
        if name not in Settings.__annotations__:
            parameters = inspect.signature(function).parameters.values() if function is not None else ()
            others = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
            raise TypeError(f'there is no option "{name}"; there are {", ".join([*others, *Settings.__annotations__])}')
    for name in ("fixed_bytes", "time_limit", "gap", "threads", "seed", "shapes", "extra_gathers"):
        value = given.get(name, 0)
        kind = numbers.Real if name in ("time_limit", "gap") else numbers.Integral
        if not (value is None and name in ("time_limit", "extra_gathers")) and (not isinstance(value, kind) or float(value) < 0):
            raise ValueError(f"{name} must be {'a number' if kind is numbers.Real else 'an integer'}, at least 0, not {value!r}")
        if isinstance(value, numbers.Integral):
            int64(int(value), name)
    if given.get("strategy", "auto") not in solver.strategies():
        raise ValueError(f'no strategy is called "{given["strategy"]}"; there are {", ".join(solver.strategies())}')
    if given.get("progress") is not None and not callable(given["progress"]):
        raise TypeError(f"progress must be a function of a line of text, such as print, not {given['progress']!r}")
    title = UNNAMED if model is None else str(getattr(model, "__name__", type(model).__name__))
    made = Options(**given | {"budget": budget, "fixed_bytes": fixed_bytes + given.get("fixed_bytes", 0), "held_now_bytes": held_now_bytes,
                              "title": title})  # fmt: skip
    made.check()
    if made.offload is not None:
        store = Store(choice.where_of(made.offload), choice.limit_of(made.offload_memory))
        made = replace(made, store=store, weights=Weights(store))
    return made
