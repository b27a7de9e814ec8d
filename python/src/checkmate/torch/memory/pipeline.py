# SPDX-License-Identifier: Apache-2.0
"""Several micro-batches of a pipeline's stage in memory at once: how many, and what the others hold while one runs.

A stage runs the forward passes of some micro-batches before the backward pass of the first. While a pass of one runs, each of the
others in flight holds what its forward pass left: what is saved for its backward pass, and its outputs. Call the bytes of that s, and
n the others. A schedule of one micro-batch then has to stay within what n * s leaves of the budget, and s is at most what crosses from
its forward to its backward pass. So for each s there is a plain problem: a budget, and room to be left free between the passes. The best
schedule for the pipeline is the best of these problems' solutions, over s: for its own s it is a solution. `cheapest` searches s.

In addition to the micro-batches in flight there are gradients of parameters from the first backward pass on, inputs, and what
`torch.distributed.pipelining` holds: buffers for inputs and for gradients of outputs of all micro-batches, made once; outputs and
gradients of inputs until they are known to be sent; at the last stage outputs and losses to the end of the step.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch.utils._pytree import tree_leaves

from ..distributed.fsdp import local
from ..fx import devices
from ..fx.dataflow import LossOutside, storage_bytes, storage_key
from .peak import Sides

SCHEDULES = ("gpipe", "1f1b", "interleaved")


class Moment(NamedTuple):
    """A pass of one micro-batch: forward or backward, other micro-batches in flight meanwhile, those whose backward pass is over."""

    forward: bool
    others: int
    finished: int


class InFlight(int):
    """How many micro-batches a stage has in flight at once, as a number, and the order of its passes, such as "FFBFBB".

    `micro_batches`: of a step. `schedule`: "" for a number of the user's own; then no schedule's buffers are counted, and passes
    are k forward ones, a backward and a forward one in turns, and backward ones."""

    order: str
    schedule: str
    micro_batches: int
    first: bool
    last: bool
    outputs: bool
    losses: bool

    def __new__(cls, order: str, *, schedule: str = "", micro_batches: int = 0, first: bool = True, last: bool = True,
                outputs: bool = True, losses: bool = True) -> InFlight:  # fmt: skip
        """`first`, `last`: where the stage is in the pipeline. `outputs`, `losses`: see `in_flight`."""
        moments = _moments(order)
        made = super().__new__(cls, 1 + max(moment.others for moment in moments))
        made.order, made.schedule, made.micro_batches = order, schedule, micro_batches or int(made)
        made.first, made.last, made.outputs, made.losses = first, last, outputs, losses
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        names = ("schedule", "micro_batches", "first", "last", "outputs", "losses")
        return (self.order,), {name: getattr(self, name) for name in names}

    @staticmethod
    def of(value: int) -> InFlight:
        """ValueError for what is no number of micro-batches."""
        if isinstance(value, InFlight):
            return value
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"in_flight must be a number of micro-batches, at least 1, or what checkmate.torch.in_flight gives, not {value!r}")
        return InFlight("F" * int(value) + "BF" + "B" * int(value), micro_batches=int(value))

    @property
    def moments(self) -> list[Moment]:
        """The passes, each different one once."""
        return list(dict.fromkeys(_moments(self.order)))

    @property
    def description(self) -> str:
        """ "4 of 8 micro-batches in flight (1f1b)"."""
        if not self.schedule:
            return f"{int(self)} micro-batches in flight"
        return f"{int(self)} of {self.micro_batches} micro-batches in flight ({self.schedule})"


def _moments(order: str) -> list[Moment]:
    found: list[Moment] = []
    begun = finished = 0
    for letter in order:
        if letter == "F":
            found.append(Moment(True, begun - finished, finished))
            begun += 1
        else:
            found.append(Moment(False, begun - finished - 1, finished))
            finished += 1
    return found


def in_flight(schedule: str, stage: int, stages: int, micro_batches: int, *, ranks: int | None = None, outputs: bool = True,
              losses: bool = True) -> InFlight:  # fmt: skip
    """How many micro-batches `stage` (from 0) of `stages` has in flight at once: forward pass begun, backward pass not over. To be given
    to `compile` as `in_flight`; as a number it is just that, and it knows the order of passes and what PyTorch holds in addition.

    schedule: "gpipe" (ScheduleGPipe: all of them), "1f1b" (Schedule1F1B: the stages from this one on, at most all) or "interleaved"
        (ScheduleInterleaved1F1B, whose processes each have every `ranks`-th stage).
    ranks: processes of the pipeline; for "interleaved" only.
    outputs: whether the last stage keeps what the model returns until the step is over: False for `step(..., return_outputs=False)`.
    losses: whether losses that PyTorch computes of the last stage's outputs and keeps until then may each have as many bytes as these,
        as those of mse_loss do: False for cross_entropy. A loss that the last stage itself returns is counted as what it takes.

    ValueError for what is no pipeline, or none that PyTorch's schedules run. O(micro_batches * stages).
    Source: Huang et al. 2019 (GPipe), Narayanan et al. 2019 and 2021 (1F1B, interleaved), as torch.distributed.pipelining has them.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be {', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]}, not {schedule!r}")
    for name, value, least in (("stages", stages, 1), ("stage", stage, 0), ("micro_batches", micro_batches, 1)):
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"{name} must be an integer, at least {least}, not {value!r}")
    if stage >= stages:
        raise ValueError(f"stage must be less than stages, {stages}, not {stage}: stages are counted from 0")
    if ranks is not None and schedule != "interleaved":
        raise ValueError(f'ranks is for "interleaved"; with "{schedule}" each process has one stage')
    if schedule == "gpipe":
        order = "F" * micro_batches + "B" * micro_batches
    elif schedule == "1f1b":
        if micro_batches < stages:
            raise ValueError(f"micro_batches must be at least stages, {stages}, for 1f1b, not {micro_batches}")
        warmup = min(micro_batches, stages - stage)
        order = "F" * warmup + "BF" * (micro_batches - warmup) + "B" * warmup
    else:
        order = "".join(letter for letter, of in _interleaved(stage, stages, micro_batches, ranks) if of == stage)
    return InFlight(order, schedule=schedule, micro_batches=micro_batches, first=stage == 0, last=stage == stages - 1, outputs=outputs,
                    losses=losses)  # fmt: skip


def passes(schedule: str, stages: int, micro_batches: int, *, ranks: int | None = None) -> list[list[tuple[str, int]]]:
    """Of each process, in order: "F" or "B", and of which stage. The arguments are those of `in_flight`, and so are errors."""
    whole = [in_flight(schedule, stage, stages, micro_batches, ranks=ranks) for stage in range(stages)]
    if ranks is not None:
        return [_interleaved(rank, stages, micro_batches, ranks) for rank in range(ranks)]
    return [[(letter, stage) for letter in flight.order] for stage, flight in enumerate(whole)]


def _interleaved(stage: int, stages: int, micro_batches: int, ranks: int | None) -> list[tuple[str, int]]:
    """The passes of the process that has a stage: "F" or "B", and of which stage."""
    if isinstance(ranks, bool) or not isinstance(ranks, numbers.Integral) or ranks < 1 or stages % ranks:
        raise ValueError(f'ranks must be the number of processes for "interleaved", of which stages, {stages}, is a multiple, not {ranks!r}')
    rounds = max(1, micro_batches // ranks)
    if micro_batches % rounds:
        raise ValueError(f"micro_batches must be a multiple of {rounds}, the rounds of {ranks} that are in them, not {micro_batches}")
    each, local, rank = micro_batches // rounds, stages // ranks, stage % ranks
    total = local * micro_batches
    warmup = min((local - 1) * each + 2 * (ranks - 1 - rank), total)

    def forward(step: int) -> tuple[str, int]:
        return "F", (step // each) % local * ranks + rank

    def backward(step: int) -> tuple[str, int]:
        return "B", (local - 1 - (step // each) % local) * ranks + rank

    passes = [forward(step) for step in range(warmup)]
    for step in range(total - warmup):
        passes += [forward(warmup + step), backward(step)]
    return passes + [backward(step) for step in range(total - warmup, total)]


@dataclass(frozen=True)
class Parts:
    """What the peak of a stage is made of, in bytes: the pass of one micro-batch, with parameters, its inputs and whatever is counted as
    fixed; `others` more micro-batches in flight, which hold `saved` each; gradients of earlier micro-batches; inputs of other
    micro-batches and what PyTorch's pipeline holds."""

    one: int
    saved: int
    others: int
    gradients: int
    buffers: int

    @property
    def total(self) -> int:
        return self.one + self.others * self.saved + self.gradients + self.buffers

    def __str__(self) -> str:
        return (f"{self.one:,} bytes for the one that runs, {self.others} x {self.saved:,} saved by others, {self.gradients:,} of gradients, "
                f"{self.buffers:,} of inputs and buffers")  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A stage and the bytes of one micro-batch's tensors: what the inputs of all of them take beyond those of the one that is traced,
    gradients of inputs, outputs, a loss computed outside; and the gradients of parameters. `own_inputs`: of what the graph takes, the
    model's; until the graph is known, `inputs` are those of all micro-batches."""

    flight: InFlight
    inputs: int
    input_gradients: int
    gradients: int
    own_inputs: int = 0
    outputs: int = 0
    output_gradients: int = 0
    loss: LossOutside = field(default_factory=LossOutside)

    @staticmethod
    def of(flight: InFlight, inputs: list[Any], arguments: object, model: object, *, gradients_held: bool) -> Stage:
        """`inputs`: of the traced graph. `arguments`: of the call of the model. `gradients_held`: whether gradients of parameters are
        counted as there all the time."""
        held = (
            [*model.parameters(), *model.buffers()]
            if isinstance(model, torch.nn.Module)
            else [v for v in inputs if isinstance(v, torch.nn.Parameter)]
        )
        own = {storage_key(local(value)) for value in held}
        there = [local(v) for v in (*inputs, *tree_leaves(arguments)) if isinstance(v, torch.Tensor)]
        given = {id(v): v for v in there if storage_key(v) not in own}.values()
        traced = {storage_key(v): storage_bytes(v) for v in map(local, inputs) if isinstance(v, torch.Tensor)}
        each: dict[int, int] = {}
        for value in given:
            each[storage_key(value)] = max(each.get(storage_key(value), 0), _dense_bytes(value))
        # What the graph does not take is counted by its storage: micro-batches of the first stage are parts of one batch.
        present = {storage_key(value): storage_bytes(value) for value in given if storage_key(value) not in traced}
        more = sum(max(0, flight.micro_batches * size - present.get(key, 0)) for key, size in each.items())
        trained = [value for value in held if value.requires_grad]
        return Stage(
            flight, more, sum(_dense_bytes(value) for value in given if value.requires_grad),
            0 if gradients_held else sum(_dense_bytes(local(value)) for value in trained),
            sum(size for key, size in traced.items() if key in own),
        )  # fmt: skip

    @property
    def loss_outside(self) -> bool:
        """Whether the caller may compute a loss of the outputs."""
        return self.flight.last

    @property
    def _left(self) -> int:
        """What each micro-batch leaves at the last stage until the step is over."""
        return (self.outputs if self.flight.outputs else 0) + (self.loss.kept if self.flight.losses else 0)

    def others(self, moment: Moment, saved: int) -> Parts:
        """What is in memory in addition to the pass of one micro-batch, if the others hold `saved` bytes each."""
        flight, finished = self.flight, moment.finished
        buffers, pytorch = self.inputs, bool(flight.schedule)
        if pytorch:
            waiting = min(1, finished) if flight.schedule == "1f1b" else finished  # until it is known to be sent
            if not flight.first:
                buffers += waiting * self.input_gradients
            if not flight.last:
                buffers += waiting * self.outputs
                buffers += (flight.micro_batches - (not moment.forward)) * self.output_gradients
            else:
                buffers += finished * self._left
        return Parts(0, saved + self.loss.kept, moment.others, self.gradients if finished else 0, buffers)

    def most_others(self, saved: int) -> int:
        """The most that is in memory in addition to one pass."""
        return max(self.others(moment, saved).total for moment in self.flight.moments)

    def least_others(self, saved: int) -> int:
        """The most in addition to a forward pass and the most in addition to a backward pass; the smaller of them."""
        both = [max(self.others(moment, saved).total for moment in self.flight.moments if moment.forward is forward) for forward in (True, False)]
        return min(both)

    def at_peak(self, sides: Sides, held: int) -> Parts:
        """The peak of a schedule whose passes take so much. `held`: what the stage has when nothing runs."""
        found = []
        for moment in self.flight.moments:
            parts = self.others(moment, sides.crossing)
            found.append(Parts(sides.forward if moment.forward else sides.backward, parts.saved, parts.others, parts.gradients, parts.buffers))
        if self.flight.schedule and self.flight.last and self.flight.outputs:  # they are put together when the step is over
            after = self.inputs + self.flight.micro_batches * (self.outputs + self._left)
            found.append(Parts(held, 0, 0, self.gradients, after))
        return max(found, key=lambda parts: parts.total)


def _dense_bytes(value: torch.Tensor) -> int:
    return devices.allocated(value.numel() * value.element_size(), value.device)


Fit = TypeVar("Fit")

#: Shares of the range of s that are tried from the largest down, and how often the space about the best is halved.
_SHARES, _HALVINGS = (1.0, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1, 0.0), 2


def cheapest(attempt: Callable[[int], Fit | None], cost: Callable[[Fit], float], low: int, high: int, *, first: bool = False) -> Fit | None:
    """The cheapest fit found for what others may save, between `low` and `high` bytes; or the `first` one. `attempt` gives the best one
    for a number.

    With more saved less is computed again, until what is left for the one that runs is too little: for fractional schedules the cost is
    convex in the number, since both the budget and the room between the passes are linear in it. So the search goes down from the top
    until it gets dearer twice, then halves the space on either side of the best. At most 12 attempts."""
    tried: dict[int, Fit | None] = {}

    def price(saved: int) -> float:
        if saved not in tried:
            tried[saved] = attempt(saved)
        fit = tried[saved]
        return float("inf") if fit is None else cost(fit)

    best, dearer = float("inf"), 0
    for share in _SHARES:
        found = price(low + int(share * (high - low)))
        dearer = dearer + 1 if found > best else 0
        best = min(best, found)
        if first and best < float("inf"):
            break
        if dearer == 2:
            break
    if best == float("inf"):
        return None
    for _ in range(0 if first else _HALVINGS):
        known = sorted(tried)
        at = min(known, key=price)
        place = known.index(at)
        for other in known[max(0, place - 1) : place] + known[place + 1 : place + 2]:
            price((at + other) // 2)
    return min((fit for fit in tried.values() if fit is not None), key=cost)
