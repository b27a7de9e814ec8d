# SPDX-License-Identifier: Apache-2.0
"""Copies of a model under DistributedDataParallel: what one cannot plan is an error in all of them, in the first step that they share.

Each copy plans by itself, when it likes: under `no_sync`, or called without DistributedDataParallel, it may be the only one. But a forward pass
whose gradients are sent needs all copies. So there, once, each says how its planning went before it goes on, and hears what the others say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ...errors import InfeasibleError
from . import ranks, rendezvous

Result = TypeVar("Result")

#: How often models of these processes have met in their first step.
_met: Counter[tuple[int, ...]] = Counter()


class Replicas:
    """Of one compiled model."""

    def __init__(self) -> None:
        self._over = False

    def plan(self, find: Callable[[], Result], *, fallback: bool) -> Result:
        """What `find` gives, and in the first step that is shared the others' errors; with `fallback` where nothing fits only."""
        around = None if self._over or rendezvous.planning_under else _around()
        if around is None:
            return find()
        members = dist.get_process_group_ranks(around.process_group)
        if around.require_backward_grad_sync:
            return rendezvous.together(members, self._key(members), find, coming=rendezvous.ALIVE, fallback=fallback)
        try:
            return find()
        except Exception as error:
            if not fallback or isinstance(error, InfeasibleError):
                self._fail(members, error)
            raise

    def stepping(self) -> None:
        """A call begins of a model that has a plan."""
        around = None if self._over or rendezvous.planning_under or not torch.is_grad_enabled() else _around()
        if around is not None and around.require_backward_grad_sync:
            members = dist.get_process_group_ranks(around.process_group)
            rendezvous.together(members, self._key(members), str, coming=rendezvous.ALIVE)

    def _fail(self, members: Sequence[int], error: Exception) -> None:
        """Tells those that come to their first shared step."""

        def failed() -> str:
            raise error

        key = self._key(members)
        try:
            rendezvous.tell(f"{key}/{dist.get_rank()}", failed)
        except Exception:  # noqa: BLE001 - the caller raises it
            rendezvous.leave(members, key)

    def _key(self, members: Sequence[int]) -> str:
        self._over = True
        group = tuple(members)
        _met[group] += 1
        return f"checkmate/replicas/{','.join(map(str, group))}/{_met[group]}"


def _around() -> Any:
    """The DistributedDataParallel whose forward pass this is. None if there is none, no others, or those without data do not call the model."""
    if ranks.size() == 1:
        return None
    active: Any = torch.nn.parallel.DistributedDataParallel._active_ddp_module
    if active is None or active._join_config.enable:
        return None
    return active
