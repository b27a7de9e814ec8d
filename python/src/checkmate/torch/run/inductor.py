# SPDX-License-Identifier: Apache-2.0
"""Inductor as the compiler of the forward and the backward graph of a schedule.

Inductor makes its own order of kernels, fuses calls and computes small ones where they are read. What it computes so is no
operator of the plan (fx/fusion.py); but it also joins kernels that read the same, which then hold their results together, so that the
peak is only near the planned one. So the generated code runs once, on what the model is called with, and its peak is measured. If
it is above the budget, the plan is made again with as much less, and if it leaves room, with as much more; once there are both,
with what lies between them. Where that finds nothing, and for the least budget, targets from the least one on are tried.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...errors import InfeasibleError
from ...planning import budget, named
from ...planning.claim import gap_of, status_of
from ...schedule import Schedule
from ..memory import meter
from ..options import Options
from ..plan.result import Plan
from . import double_backward
from .reached import Asked, Reached

try:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
except ImportError as _error:
    raise ImportError(f'compiler="inductor" needs PyTorch 2.9 or newer, and this is {torch.__version__}: pip install --upgrade torch') from _error

Partition = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]

#: Random numbers are those of eager mode.
_SETTINGS = {"fallback_random": True}

#: Of the schedules behind budgets that errors name: see planning/named.py.
_FRONT = "torch/inductor"

#: Plans that are tried, and the share of the budget that is worth another one if it is left free.
_ATTEMPTS, _ROOM = 5, 0.03
#: To find the least, targets that are tried, as shares of the way from the least one to keeping everything.
_TOWARDS_LEAST = (0.1, 0.25, 0.5, 1.0)


class _Partitioner(CustomPartitionerFn):  # type: ignore[misc]
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        return self.partition(gm, joint_inputs, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("checkmate",)  # caches of generated code are keyed by the graphs that are made here, too

    def uuid(self) -> str:
        return "checkmate"


def compile_graph(module: fx.GraphModule, inputs: list[Any], partition: Partition, reached: Reached) -> Callable[..., Any]:
    """The generated code of a graph, which `reached` tells of. The graph stays as it is."""
    from torch._inductor.compile_fx import compile_fx

    copied = fx.Graph(tracer_cls=module.graph._tracer_cls)
    values: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        values[node] = copied.node_copy(node, lambda n: values[n])
    settings = {"custom_partitioner_fn": _Partitioner(partition)} | _SETTINGS
    # The cache of whole compilations knows nothing of budgets and would leave the partition function out. The backward pass is
    # compiled with the forward pass: Dynamo counts what is compiled while it traces, and a trial's later one is once too often.
    with torch._functorch.config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True):
        made: Any = compile_fx(fx.GraphModule(module, copied), inputs, config_patches=settings)
    metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
    return double_backward.refused(made, asked=None if metadata is None else Asked(reached, metadata))


Attempt = Callable[[Options], tuple[Callable[..., Any], Plan | None]]


@dataclass(frozen=True)
class _Trial:
    """Generated code, its plan, and the bytes that it was seen to take, all that the plan counts included."""

    run: Callable[..., Any]
    plan: Plan
    bytes: int

    def within(self, limit: int) -> tuple[Callable[..., Any], Plan]:
        """With the plan as one of what was measured. A bound is of schedules whose bytes the graph counts, for another target, and the code of
        others may take less: nothing is proven of the limit, but that nothing computes less than everything once."""
        bound = float(self.plan.baseline_cost) if self.plan.cost <= self.plan.baseline_cost else None
        return self.run, replace(self.plan, budget_bytes=limit, peak_bytes=self.bytes, bound=bound, bound_bytes=limit,
                                 gap=gap_of(self.plan.cost, bound), status=status_of(self.plan.cost, bound))  # fmt: skip


class _Trials:
    """Plans for several targets, and what their code was measured to take."""

    def __init__(self, attempt: Attempt, inputs: list[Any], options: Options) -> None:
        self._attempt, self._inputs, self._options = attempt, inputs, options
        self._made: list[_Trial] = []

    def at(self, target: int | float | str, given: Schedule | None = None) -> _Trial | Callable[..., Any]:
        """The code for a target, or of a schedule; where there is nothing to plan, such as without gradients, only what runs.
        InfeasibleError where no schedule is found."""
        run, plan = self._attempt(replace(self._options, budget=target, given=given))
        if plan is None:
            return run
        trial = _Trial(run, plan, _taken(run, self._inputs, plan))
        self._options.say(f"inductor's code takes {trial.bytes:,} bytes, {plan.peak_bytes:,} were planned")
        self._made = [t for t in self._made if t.bytes < trial.bytes or t.plan.cost < trial.plan.cost] + [trial]
        return trial

    def least(self) -> _Trial:
        return min(self._made, key=lambda trial: trial.bytes)

    def cheapest(self, limit: int) -> _Trial | None:
        """The trial with the least computation whose code stays within the limit."""
        return min((trial for trial in self._made if trial.bytes <= limit), key=lambda trial: trial.plan.cost, default=None)

    def search_least(self, smallest: _Trial) -> None:
        """From the least target, tries some up to keeping everything: the least schedule computes so much again, and its code holds so much
        of that at once, that the code of a larger one may take less."""
        low, high = smallest.plan.budget_bytes, smallest.plan.baseline_peak_bytes
        for share in _TOWARDS_LEAST:
            self.at(low + int(share * (high - low)))


def within_budget(attempt: Attempt, inputs: list[Any], options: Options) -> tuple[Callable[..., Any], Plan | None]:
    """The cheapest plan whose code was measured to stay within the budget; its `peak_bytes` are what was measured. `attempt` makes the
    code and the plan for a budget. InfeasibleError where none does, with a budget for which one was found."""
    trials = _Trials(attempt, inputs, options)
    if options.budget == budget.LEAST:
        smallest = trials.at(budget.LEAST)
        if not isinstance(smallest, _Trial):
            return smallest, None
        trials.search_least(smallest)
        least = trials.least()
        return least.within(least.bytes)
    try:
        first = trials.at(options.budget)
        if not isinstance(first, _Trial):
            return first, None
        limit = first.plan.budget_bytes
        _approach(trials, first, limit)
    except InfeasibleError as error:
        limit = error.budget_bytes
    best = trials.cheapest(limit)
    if best is None:
        options.say(f"no generated code was found within {limit:,} bytes; looking for the least that is enough")
        start = trials.at(budget.LEAST)
        assert isinstance(start, _Trial)
        trials.search_least(start)
        best = trials.cheapest(limit)
        known = named.recall(start.plan.graph, _FRONT, on_disk=options.cache) if best is None else None
        if known is not None:
            trials.at(limit, known)
            best = trials.cheapest(limit)
    if best is None:
        least = trials.least()
        enough = least.bytes + least.bytes // 100
        named.remember(least.plan.graph, least.plan.schedule, _FRONT, on_disk=options.cache)
        raise InfeasibleError(
            f"no schedule was found whose generated code stays within {limit:,} bytes; budget={enough:,} works, with "
            f"{100 * least.plan.overhead:.1f} % more computation", proven=False, budget_bytes=limit, smallest_known=enough, largest_impossible=0,
        )  # fmt: skip
    return best.within(limit)


def _approach(trials: _Trials, trial: _Trial, limit: int) -> None:
    """Tries targets until the code takes nearly what is allowed, or nothing is computed again."""
    target, low = limit, 0
    high: int | None = None  # targets so far: the largest whose code stays within the limit, and the smallest whose code does not
    for _ in range(_ATTEMPTS - 1):
        free = limit - trial.bytes
        if free >= 0:
            low = max(low, target)
        else:
            high = target if high is None else min(high, target)
        if free >= 0 and (free < _ROOM * limit or trial.plan.cost <= trial.plan.baseline_cost):
            return
        target = target + free if high is None or low == 0 else (low + high) // 2
        if target <= 0 or (high is not None and high - low < _ROOM * limit):
            return
        try:
            following = trials.at(target)
        except InfeasibleError:
            return
        assert isinstance(following, _Trial)
        trial = following


def _written(inputs: list[Any]) -> list[torch.Tensor]:
    """The inputs that the code which was made last may write to, by AOTAutograd's analysis; all, where there is none."""
    context = TracingContext.try_get()
    infos = list(getattr(getattr(context, "fw_metadata", None), "input_info", ()))
    known = len(infos) == len(inputs)
    return [value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and (not known or infos[i].mutates_data)]


def _taken(run: Callable[..., Any], inputs: list[Any], plan: Plan) -> int:
    """The peak of the code in a forward and a backward pass, with what the plan counts in addition. What these change is put back."""
    given = [value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value for value in inputs]
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    device = next((value.device for value in tensors), torch.device("cpu"))
    before = [(value, value.detach().clone()) for value in _written(inputs)]
    cpu, cuda = torch.get_rng_state(), torch.cuda.get_rng_state_all() if device.type == "cuda" else []

    def step() -> None:
        outputs = run(*given)
        kept, more = (torch.empty(size, dtype=torch.uint8, device=device) for size in (plan.loss.kept, plan.loss.more))
        del more
        made = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
        leaves = [value for value in tensors if value.requires_grad]
        torch.autograd.grad(made, leaves, [torch.ones_like(value) for value in made], allow_unused=True)
        del kept

    gc.collect()
    try:
        with unset_fake_temporarily(), torch.enable_grad():
            taken = meter.allocated(step, device)
    finally:
        with torch.no_grad():
            for value, copy in before:
                value.copy_(copy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
    return taken + plan.input_bytes + plan.graph.fixed_bytes
