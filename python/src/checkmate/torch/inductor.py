# SPDX-License-Identifier: Apache-2.0
"""Inductor as the compiler of the forward and the backward graph of a schedule.

Inductor makes its own order of kernels, fuses calls and computes small ones where they are read. What it computes so is no
operator of the plan (fusion.py); but it also joins kernels that read the same, which then hold their results together, so that the
peak is only near the planned one. So the generated code runs once, on what the model is called with, and its peak is measured. If
it is above the budget, the plan is made again with as much less, and if it leaves room, with as much more; once there are both,
with what lies between them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ..errors import InfeasibleError
from ..planning import budget
from . import meter
from .options import Options
from .planned import Plan

try:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
except ImportError as _error:
    raise ImportError(f'compiler="inductor" needs PyTorch 2.8 or newer; this is {torch.__version__}') from _error

Partition = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]

#: Random numbers are those of eager mode; and what is dead is freed, not kept for a later buffer of its size.
_SETTINGS = {"fallback_random": True, "allow_buffer_reuse": False}

#: Plans that are tried, and the share of the budget that is worth another one if it is left free.
_ATTEMPTS, _ROOM = 5, 0.03


class _Partitioner(CustomPartitionerFn):  # type: ignore[misc]
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        return self.partition(gm, joint_inputs, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("checkmate",)  # caches of generated code are keyed by the graphs that are made here, too

    def uuid(self) -> str:
        return "checkmate"


def compile_graph(module: fx.GraphModule, inputs: list[Any], partition: Partition) -> Callable[..., Any]:
    """The generated code of a graph. The graph stays as it is."""
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
    return made


@dataclass(frozen=True)
class _Trial:
    """Generated code, its plan, and the bytes that it was seen to take, all that the plan counts included."""

    run: Callable[..., Any]
    plan: Plan
    bytes: int


def within_budget(attempt: Callable[[Options], tuple[Callable[..., Any], Plan | None]], inputs: list[Any], options: Options
                  ) -> tuple[Callable[..., Any], Plan | None]:  # fmt: skip
    """The cheapest plan whose code was measured to stay within the budget; its `peak_bytes` are what was measured. `attempt` makes the
    code and the plan for a budget. InfeasibleError where none does."""
    limit = target = low = 0
    high: int | None = None  # targets so far: the largest whose code stays within the limit, and the smallest whose code does not
    best: _Trial | None = None
    least: _Trial | None = None
    for number in range(_ATTEMPTS):
        try:
            run, plan = attempt(replace(options, budget=target) if number else options)
        except InfeasibleError:
            if least is None:
                raise
            break
        if plan is None:
            return run, None
        trial = _Trial(run, plan, _taken(run, inputs, plan))
        if options.budget == budget.LEAST:
            return run, replace(plan, budget_bytes=trial.bytes, peak_bytes=trial.bytes)
        if number == 0:
            limit = target = plan.budget_bytes
        options.say(f"inductor's code takes {trial.bytes:,} bytes, {plan.peak_bytes:,} were planned, {limit:,} are allowed")
        least = trial if least is None or trial.bytes < least.bytes else least
        free = limit - trial.bytes
        if free >= 0:
            best = trial if best is None or plan.cost < best.plan.cost else best
            low = max(low, target)
        else:
            high = target if high is None else min(high, target)
        if free >= 0 and (free < _ROOM * limit or plan.cost <= plan.baseline_cost):
            break
        target = target + free if high is None or low == 0 else (low + high) // 2
        if target <= 0 or (high is not None and high - low < _ROOM * limit):
            break
    assert least is not None
    if best is None:
        raise InfeasibleError(
            f"no schedule was found whose generated code stays within {limit:,} bytes; the least that it took is {least.bytes:,}",
            proven=False, budget_bytes=limit, smallest_known=None, largest_impossible=0,
        )  # fmt: skip
    return best.run, replace(best.plan, budget_bytes=limit, peak_bytes=best.bytes)


def _taken(run: Callable[..., Any], inputs: list[Any], plan: Plan) -> int:
    """The peak of the code in a forward and a backward pass, with what the plan counts beside it. What these change is put back."""
    given = [value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value for value in inputs]
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    device = next((value.device for value in tensors), torch.device("cpu"))
    before = [(value, value._version, value.clone()) for value in tensors if not value.requires_grad]
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
            for value, version, copy in before:
                if value._version != version:
                    value.copy_(copy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
    return taken + plan.input_bytes + plan.graph.fixed_bytes
