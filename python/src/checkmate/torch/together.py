# SPDX-License-Identifier: Apache-2.0
"""All processes of a job plan before any of them takes part in a step: what one cannot plan is an error in all.

A process that raises an error in the middle of a step leaves the others waiting in a call between processes. So whoever wants to know plans
by an example first, and only then begins.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

from . import meeting, ranks
from .compiler import backend_of, plans
from .pipeline import InFlight
from .planned import Plan

_calls = itertools.count()


def plan_together(compiled: Any, *args: Any, **kwargs: Any) -> list[Plan]:
    """Plans what `compile` returned, by an example of its arguments, and waits until all processes of the job have planned theirs, which may
    be other models: stages of a pipeline. Returns the plans.

    All processes call this equally often. If planning fails in one, such as for a budget that nothing fits, all raise an error: that
    process its own, the others one of the same kind that names it. One that does not come is an error after 300 s, and one that dies while it plans
    30 s after its last sign of life (`checkmate.torch.meeting.COMING`, `ALIVE`).

    The forward pass runs once; statistics and random numbers are put back behind it, and no gradient is computed. Inputs of a
    pipeline's stage that is not the first are taken to require gradients, as those it receives do. Without torch.distributed it plans in
    this process alone.
    """
    backend_of(compiled)
    number = next(_calls)
    if ranks.size() == 1:
        _call(compiled, args, kwargs)
        return plans(compiled)
    here, everyone = dist.get_rank(), range(dist.get_world_size())
    key = f"checkmate/together/{number}"
    meeting.arrive(everyone, key, "", "plan within {} s; all processes must call plan_together")

    def plan() -> str:
        _call(compiled, args, kwargs)
        return ""

    meeting.tell(f"{key}/{here}", plan)
    for rank in everyone:
        if rank != here:
            meeting.hear(f"{key}/{rank}", f"rank {rank}", f"rank {rank}, which was planning,")
    return plans(compiled)


def _call(compiled: Any, args: Any, kwargs: Any) -> None:
    """A forward pass that leaves nothing behind but the plan."""
    module = compiled.module if isinstance(compiled, torch.nn.parallel.DistributedDataParallel) else compiled
    flight = backend_of(compiled).options.in_flight
    if isinstance(flight, InFlight) and not flight.first:
        args, kwargs = tree_map(_received, (args, kwargs))
    held = list(module.buffers()) if isinstance(module, torch.nn.Module) else []
    before = [buffer.clone() for buffer in held]
    devices = {value.device for value in held + list(module.parameters()) if value.is_cuda} if isinstance(module, torch.nn.Module) else set()
    try:
        with torch.random.fork_rng([device.index for device in devices]), torch.enable_grad():
            module(*args, **kwargs)
    finally:
        with torch.no_grad():
            for buffer, value in zip(held, before, strict=True):
                buffer.copy_(value)


def _received(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().requires_grad_()
    return value
