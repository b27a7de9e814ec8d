# SPDX-License-Identifier: Apache-2.0
"""All processes of a job plan before any of them takes part in a step: what one cannot plan is an error in all.

A process that raises an error in the middle of a step leaves the others waiting in a call between processes. So who wants to know plans
by an example first, and only then begins.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

from .compiler import Planned, backend_of, plans
from .distributed import ranks, rendezvous
from .memory.pipeline import InFlight
from .plan.result import Plan

_calls = itertools.count()


def plan_together(compiled: Any, *args: Any, **kwargs: Any) -> list[Plan]:
    """Plans what `compile` returned, by an example of its arguments, and waits until all processes of the job have planned theirs, which may
    be other models: stages of a pipeline. Returns the plans.

    All processes call this equally often. If planning fails in one, such as for a budget that nothing fits, all raise an error when all
    are through: that process its own, the others one of the same kind that names it. One that does not come is an error after 300 s, and one
    that dies while it plans 30 s after its last sign of life (`checkmate.torch.distributed.rendezvous.COMING`, `ALIVE`).

    Nothing of the model runs, but with graph_breaks="split", or where the plan is there already: then the forward pass does, and statistics
    and random numbers are put back. Inputs of a pipeline's stage that is not the first are taken to require gradients, as those it receives
    do; they must have the sizes of one micro-batch. Without torch.distributed it plans in this process alone.
    """
    number = next(_calls)
    if ranks.size() == 1:
        _call(compiled, args, kwargs)
        return plans(compiled)
    everyone, key = range(dist.get_world_size()), f"checkmate/together/{number}"
    rendezvous.arrive(everyone, key, "", "plan within {} s; all processes must call plan_together")
    rendezvous.planning_under = key
    try:
        rendezvous.together(everyone, key, lambda: _call(compiled, args, kwargs))
    finally:
        rendezvous.planning_under = ""
    return plans(compiled)


def _call(compiled: Any, args: Any, kwargs: Any) -> None:
    """A call that leaves nothing behind but the plan."""
    made = backend_of(compiled)
    module = compiled.module if isinstance(compiled, torch.nn.parallel.DistributedDataParallel) else compiled
    flight = made.options.in_flight
    if isinstance(flight, InFlight) and not flight.first:
        args, kwargs = tree_map(_received, (args, kwargs))
    owners = [(owner, dict(owner._buffers)) for owner in module.modules()] if isinstance(module, torch.nn.Module) else []
    before = [(buffer, buffer.clone()) for _owner, buffers in owners for buffer in buffers.values() if buffer is not None]
    devices = {buffer.device.index for buffer, _copy in before if buffer.is_cuda}
    made.only_plan = True
    try:
        with torch.random.fork_rng(devices), torch.enable_grad():
            module(*args, **kwargs)
    except Planned:
        pass
    finally:
        made.only_plan = False
        for owner, buffers in owners:
            owner._buffers.update(buffers)
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


def _received(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().requires_grad_()
    return value
