# SPDX-License-Identifier: Apache-2.0
"""A gradient of a gradient through a planned step is an error, never zeros.

The backward pass that is planned is not differentiable. Its gradients must lead back to what the step was called with all the
same: where autograd finds no way there, it takes the derivative to be zero, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .reached import Asked
from .uncounted import Calls, Held

_aot = "CompiledFunctionBackward"
_NO_DOUBLE = (
    "a gradient of a gradient through a compiled model: torch.compile with aot_autograd does not currently support double backward, and neither "
    "does the plan. Call the model as it is where you differentiate twice"
)


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, run: Callable[[], Any], *_inputs: torch.Tensor) -> Any:
        return run()

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError(_NO_DOUBLE)


def anchor(inputs: Sequence[Any]) -> list[torch.Tensor]:
    """An empty tensor behind those inputs that autograd has made, which it does not keep."""
    made = [value for value in inputs if isinstance(value, torch.Tensor) and value.grad_fn is not None]
    if not made:
        return []
    with torch.enable_grad():
        return [_Refused.apply(lambda: torch.empty(0), *made)]  # type: ignore[no-untyped-call]


def gradients(run: Callable[[], Any], node: Any, anchors: list[torch.Tensor]) -> Any:
    """What `run` gives as the gradients of `node`, with a backward pass that is an error."""
    leaves = [parent.variable for parent, _ in node.next_functions if hasattr(parent, "variable")]
    return _Refused.apply(run, *leaves, *anchors)  # type: ignore[no-untyped-call]


def refused(made: Callable[..., Any], calls: Calls | None = None, asked: Asked | None = None) -> Callable[..., Any]:
    """The same for what AOTAutograd made, whose own gradients lead to what it saved only. `calls` are told of each, and `asked` of its
    backward pass."""

    def run(*inputs: Any) -> Any:
        outputs = made(*inputs)
        if torch.is_grad_enabled():
            for node in _compiled(outputs, inputs):
                if asked is not None:
                    asked.watch(node, inputs)
                node.register_hook(_Hook(node.next_functions, anchor(inputs), None if calls is None else calls.begin()))
        return outputs

    return run


class _Hook:
    """Of a node, after it ran. It does not hold the node, which holds it."""

    def __init__(self, next_functions: Any, anchors: list[torch.Tensor], call: Held | None) -> None:
        self.next_functions, self.anchors, self.call = next_functions, anchors, call

    def __call__(self, given: tuple[Any, ...], _outer: Any) -> tuple[Any, ...] | None:
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self.call = None
        if not torch.is_grad_enabled():
            return None
        made = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor)]
        behind = gradients(lambda: tuple(given[i].detach() for i in made), self, self.anchors)
        found = list(given)
        for i, value in zip(made, behind, strict=True):
            found[i] = value
        return tuple(found)


def _compiled(outputs: Any, inputs: Sequence[Any]) -> list[Any]:
    """The nodes of AOTAutograd's functions between inputs and outputs."""
    tensors = [value for value in torch.utils._pytree.tree_leaves(outputs) if isinstance(value, torch.Tensor)]
    seen = {value.grad_fn for value in inputs if isinstance(value, torch.Tensor)}
    stack, found = [value.grad_fn for value in tensors], []
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == _aot:
            found.append(node)
        else:
            stack += [parent for parent, _ in node.next_functions]
    return found
