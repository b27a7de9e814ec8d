# SPDX-License-Identifier: Apache-2.0
"""Bytes outside a call that its plan does not count: a warning, once for each kind, which names what counts them or frees them.

A plan is of one call: forward pass, loss, backward pass. What the loop around it still holds of earlier calls is there too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_leaves

from ..plan.result import Plan
from ..trace.subgraphs import storages
from ..user_code import warn

#: Calls that are looked at: what a loop holds it holds from its first steps on.
_CALLS = 8


class Held:
    """What a call holds until its backward pass is over."""


class Calls:
    """The calls of one compiled model. `counted`: whether gradients of earlier steps are. `in_flight`: whether several calls are."""

    def __init__(self, model: object, *, counted: bool, in_flight: bool) -> None:
        self._model, self._counted, self._in_flight = model, counted, in_flight
        self._left, self._outputs = _CALLS, list[weakref.ref[torch.Tensor]]()
        self._last: Callable[[], Held | None] = lambda: None

    def begin(self) -> Held:
        """In a forward pass with a backward pass."""
        if not self._in_flight and self._last() is not None:
            self._in_flight = True
            warn(
                "the model is called again before the backward pass of an earlier call is over. What that call holds is not counted, so that the "
                "budget may not hold: give compile in_flight=, how many calls there are before their backward passes"
            )
        made = Held()
        self._last = weakref.ref(made)
        return made

    def before(self, plan: Plan) -> None:
        """Looks at what is there when the model is called."""
        if self._left == 0 or not torch.is_grad_enabled():
            return
        self._left -= 1
        held = sum(storages([made for ref in self._outputs if (made := ref()) is not None]).values())
        if held > 0 and _forward_peak(plan) + held > plan.budget_bytes:
            self._left = 0
            warn(
                f"outputs of the last call are still held when the model is called again: {held:,} bytes that are not counted, so that the budget "
                "of this step may not hold. `del` them before, such as with `del out` at the end of the loop's body"
            )
        if self._counted or not isinstance(self._model, torch.nn.Module):
            return
        gradients = sum(storages([p.grad for p in self._model.parameters() if p.grad is not None]).values())
        if gradients > 0 and plan.peak_bytes + gradients > plan.budget_bytes:
            self._counted = True
            warn(
                f"gradients of an earlier step are there when the model is called: {gradients:,} bytes that are not counted, so that the budget may "
                "not hold. Call zero_grad() before the model, or give compile accumulate=True"
            )

    def after(self, outputs: object, arguments: object) -> None:
        if self._left == 0 or not torch.is_grad_enabled():
            return
        given = storages(arguments, list(self._model.parameters()) if isinstance(self._model, torch.nn.Module) else [])
        made = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.numel() > 1 and leaf.layout == torch.strided]
        self._outputs = [weakref.ref(leaf) for leaf in made if not storages(leaf).keys() & given.keys()]


def _forward_peak(plan: Plan) -> int:
    """Bytes of the forward pass."""
    boundary = next((i for i, op in enumerate(plan.graph.ops) if op.name == "boundary"), None)
    end = next((i for i, step in enumerate(plan.schedule.steps) if step.kind == "compute" and step.index == boundary), None)
    if end is None:
        return plan.peak_bytes
    return max(plan.schedule.simulate(plan.graph).timeline[:end], default=0)
