# SPDX-License-Identifier: Apache-2.0
"""Attention as PyTorch computes it on a GPU, in a graph that is traced on a machine without one.

`scaled_dot_product_attention` becomes one of several kernels when it is traced, by device. The CPU's are others, and with dropout
it takes the formula apart, which needs memory in the square of the sequence. Here calls in Dynamo's graph become the operators
of a GPU's kernels, whose shapes PyTorch knows without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import fx
from torch.nn import functional

_aten = torch.ops.aten

Kernel = Literal["flash", "efficient", "math"]

#: The largest heads that flash attention takes, and a multiple of which its heads are, with zeros behind.
_LARGEST_HEAD, _MULTIPLE = 256, 8


def kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, flash: bool, grouped: bool) -> Kernel:
    """Which of PyTorch's kernels takes such operands on a GPU; `flash`: whether that GPU has flash attention. `grouped`: the call
    allows fewer heads of keys and values."""
    half = query.dtype in (torch.float16, torch.bfloat16)
    if not (query.dim() == key.dim() == value.dim() == 4 and query.dtype == key.dtype == value.dtype):
        return "math"
    few = grouped and key.shape[1] != query.shape[1]
    same = query.shape[-1] == value.shape[-1]
    if flash and half and mask is None and same and query.shape[-1] <= _LARGEST_HEAD:
        return "flash"
    aligned = all(t.shape[-1] % (8 if half else 4) == 0 for t in (query, value))
    if (half or query.dtype == torch.float32) and not few and aligned and not (mask is not None and mask.requires_grad):
        return "efficient"
    return "math"


def replace(module: fx.GraphModule, chosen: dict[fx.Node, Kernel], *, flash: bool) -> None:
    """Makes a GPU's calls of those in Dynamo's graph, those in the bodies of checkpointed regions too. `chosen` gets the kernel of
    each when the graph is traced."""
    for inner in module.modules():
        if not isinstance(inner, fx.GraphModule):
            continue
        for node in inner.graph.nodes:
            if node.op == "call_function" and node.target in (functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention):
                node.target = _on_gpu(node, chosen, flash)
            elif node.op == "call_function" and node.target is functional.multi_head_attention_forward:
                node.target = _with(_on_gpu(node, chosen, flash))
        inner.recompile()


def _with(attention: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """`nn.MultiheadAttention` is one call in Dynamo's graph, which calls attention by its name."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        original = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = attention
        try:
            return functional.multi_head_attention_forward(*args, **kwargs)
        finally:
            functional.scaled_dot_product_attention = original

    return forward


def _on_gpu(node: fx.Node, chosen: dict[fx.Node, Kernel], flash: bool) -> Callable[..., torch.Tensor]:
    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        which = kernel(query, key, value, attn_mask, flash=flash, grouped=enable_gqa)
        chosen[node] = which  # a graph is traced more than once
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        if which == "flash":
            return _flash(query, key, value, dropout_p, is_causal, factor)
        if which == "efficient":
            return _efficient(query, key, value, attn_mask, dropout_p, is_causal, factor)
        out: torch.Tensor = _aten._scaled_dot_product_attention_math.default(
            query, key, value, attn_mask, dropout_p, is_causal, scale=factor, enable_gqa=enable_gqa
        )[0]
        return out

    return attention


def _flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout_p: float, is_causal: bool, scale: float) -> torch.Tensor:
    size = query.shape[-1]
    if padding := -size % _MULTIPLE:
        query, key, value = (functional.pad(t, (0, padding)) for t in (query, key, value))
    out: torch.Tensor = _aten._scaled_dot_product_flash_attention.default(query, key, value, dropout_p, is_causal, scale=scale)[0]
    return out[..., :size] if padding else out


def _efficient(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout_p: float, is_causal: bool,
               scale: float) -> torch.Tensor:  # fmt: skip
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.logical_not(), -math.inf)
        mask = mask.to(query.dtype).expand(*query.shape[:3], key.shape[-2])
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    call: Any = _aten._scaled_dot_product_efficient_attention.default
    out: torch.Tensor = call(query, key, value, mask, trained, dropout_p, is_causal, scale=scale)[0]
    return out


#: Arguments in the schemas of all of these kernels, forward and backward.
_OPERANDS = ("query", "key", "value", "is_causal")


def macs(node: fx.Node, values: tuple[Any, Any]) -> float | None:
    """Multiply-accumulates of an attention kernel, whose arguments have these values; None where the call is none. Of pairs that a
    causal mask hides there are none. The backward kernel computes the weights again: five products where the forward one has two."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or "_attention" not in target._schema.name:
        return None
    named = dict(zip((a.name for a in target._schema.arguments), values[0], strict=False)) | values[1]
    if any(name not in named for name in _OPERANDS[:3]):
        return None
    query, key, value = (named[name] for name in _OPERANDS[:3])
    heads, rows, columns = math.prod(query.shape[:-2]), query.shape[-2], key.shape[-2]
    seen = min(rows, columns)
    pairs = heads * (seen * (seen + 1) // 2 + (rows - seen) * columns if named.get("is_causal") else rows * columns)
    inner, outer = query.shape[-1], value.shape[-1]
    return float(pairs * (3 * inner + 2 * outer if "backward" in target._schema.name else inner + outer))
