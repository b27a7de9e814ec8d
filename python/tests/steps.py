# SPDX-License-Identifier: Apache-2.0
"""Training steps whose every trace is kept, to compare a compiled model with eager mode."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import custom_graph_pass


def results(shown: list[str]) -> list[str]:
    """What `explain` has shown, without what it says of its work before and after."""
    first = next(i for i, line in enumerate(shown) if not line.startswith(("tracing ", "measur")))
    assert first > 0
    last = next((i for i, line in enumerate(shown) if line.startswith("explaining took ")), len(shown))
    return shown[first:last]


needs_inductor = pytest.mark.skipif(
    shutil.which("g++") is None or not hasattr(custom_graph_pass, "CustomPartitionerFn"), reason="inductor needs g++ and PyTorch 2.9"
)


class Model(nn.Module):
    """A function of itself and the inputs; keyword arguments are its modules, parameters and buffers."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def backward(outputs: Any) -> None:
    """Of the first output that has a gradient."""
    next(t for t in torch.utils._pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad).sum().backward()


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def trace(model: nn.Module, call: Callable[..., Any], inputs: Sequence[Any], back: Callable[[Any], None] = backward, steps: int = 2) -> list[Any]:
    """Outputs, gradients of parameters and inputs, and the random numbers after them, of every step; then parameters,
    buffers and inputs. The model and the inputs stay as they are."""
    state = copy.deepcopy(model.state_dict())
    inputs = [_copy(v).requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for v in inputs]
    found: list[Any] = []
    for step in range(steps):
        torch.manual_seed(3 + step)
        for tensor in [*model.parameters(), *(v for v in inputs if isinstance(v, torch.Tensor))]:
            tensor.grad = None
        outputs = call(*inputs)
        found += [_copy(v) for v in torch.utils._pytree.tree_leaves(outputs)]
        back(outputs)
        found += [_copy(p.grad) for p in model.parameters()]
        found += [_copy(v.grad) for v in inputs if isinstance(v, torch.Tensor)]
        found.append(torch.rand(3))
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.01 * p.grad
    found += [_copy(t) for t in [*model.parameters(), *model.buffers(), *inputs]]
    model.load_state_dict(state)
    for p in model.parameters():
        p.grad = None
    return found


def difference(found: list[Any], expected: list[Any]) -> str:
    """What differs first, bit by bit; empty when nothing does."""
    if len(found) != len(expected):
        return f"{len(found)} values, not {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
                return f"value {i}: {a} is not {b}"
        elif type(a) is not type(b) or a != b:
            return f"value {i}: {a} is not {b}"
    return ""


#: Options for tests of what is not the solver.
FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 2}


def gradients(model: Any, run: Any, *inputs: Any) -> list[Any]:
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    loss = run(*inputs)
    loss.backward()
    found = [loss.detach(), *(p.grad.clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]
    model.zero_grad(set_to_none=True)
    return found
