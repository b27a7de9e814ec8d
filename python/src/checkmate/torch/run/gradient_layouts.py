# SPDX-License-Identifier: Apache-2.0
"""Gradients that come back to a graph in another layout than it was traced for.

AOTAutograd traces the backward pass before it knows in which layout the gradients of the outputs will come, takes that of the outputs
themselves, and copies what comes otherwise. Eager mode goes on with what comes. Kernels that run over a tensor in another order, or that
take other instructions where elements are not next to each other, round differently. So this is told.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .. import user_code


class Told:
    """Of one graph: a warning in the first step in which it happens."""

    def __init__(self, forward: fx.Graph, metadata: Any) -> None:
        (results,) = next(iter(reversed(forward.nodes))).args
        start = getattr(metadata, "num_mutated_inp_runtime_indices", 0)
        self.places = [user_code.place(node.stack_trace or "") if isinstance(node, fx.Node) else "" for node in results[start:]]  # type: ignore[index, union-attr]
        # Its kernels run over a gradient that is the same everywhere otherwise than over one that is not; other calls' were not found to.
        self.normalized = [_normalized(node) for node in results[start:]]  # type: ignore[index, union-attr]
        self.over = not hasattr(torch._functorch.config, "guess_tangent_strides_as_outputs")  # before PyTorch 2.7; see settings.during_tracing

    def watched(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run`, a graph's function."""
        if self.over:
            return run

        def watching(*inputs: Any) -> Any:
            outputs = run(*inputs)
            if not self.over and torch.is_grad_enabled() and isinstance(outputs, (tuple, list)):
                for i, output in enumerate(outputs):
                    if isinstance(output, torch.Tensor) and output.dim() > 1 and output.grad_fn is not None and 0 not in output.stride():
                        output.register_hook(functools.partial(self._came, i, _order(output)))  # type: ignore[no-untyped-call]
            return outputs

        return watching

    def _came(self, index: int, expected: list[int], gradient: torch.Tensor | None) -> None:
        if self.over or gradient is None:
            return
        everywhere = 0 in gradient.stride()  # the same for all of a dimension, as a mean's
        if not (index < len(self.normalized) and self.normalized[index]) if everywhere else _order(gradient) == expected:
            return
        self.over = True
        what = "take" if everywhere else "Where the model makes this output, call .contiguous() on it; or take"
        user_code.warn(
            f"the gradient of an output{self.places[index] if index < len(self.places) else ''} comes in another layout than the output has, for "
            f"which PyTorch's tracing made the backward pass, so that gradients may differ from eager mode's in the last bits. {what[0].upper()}"
            f"{what[1:]} the loss inside of the model"
        )


def _normalized(node: object) -> bool:
    """Whether a batch norm gives it."""
    made = node.args[0] if isinstance(node, fx.Node) and node.target is operator.getitem else None
    return isinstance(made, fx.Node) and "batch_norm" in str(made.target)


def _order(tensor: torch.Tensor) -> list[int]:
    """The dimensions in the order of their strides."""
    strides = tensor.stride()
    return sorted((i for i in range(tensor.dim()) if tensor.shape[i] > 1), key=lambda i: -strides[i])
