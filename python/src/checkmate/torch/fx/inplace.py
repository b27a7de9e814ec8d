# SPDX-License-Identifier: Apache-2.0
"""Calls that may write their result over an operand, and how.

The joint graph is functional: `relu_` has become `relu`, which needs a second buffer. Where the solver finds that the
operand is dead after the call, the buffer is saved: the call runs in the variant that writes there. Elementwise calls
qualify with any operand that has the result's shape, strides and type, through their in-place or `out=` variant, where
that gives the same bits; calls that copy an operand and write into the copy, such as `index_put`, with
that operand. Variants that PyTorch generates are left out: they allocate the result and copy it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from . import symbols

#: In a node's metadata: the node whose storage it writes over.
OVER = "checkmate_over"

_aten = torch.ops.aten

#: Elementwise calls without PyTorch's tag for them.
_ELEMENTWISE = {_aten.hardtanh_backward.default, _aten.leaky_relu_backward.default, _aten.elu_backward.default}


def _write_select(target: torch.Tensor, source: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    target.select(dim, index).copy_(source)
    return target


def _write_slice(target: torch.Tensor, source: torch.Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
                 step: int = 1) -> torch.Tensor:  # fmt: skip
    torch.ops.aten.slice.Tensor(target, dim, start, end, step).copy_(source)
    return target


#: Calls that copy their first operand and write into the copy, and what writes into the operand.
_WRITES: dict[Any, Callable[..., torch.Tensor]] = {
    _aten.select_scatter.default: _write_select,
    _aten.slice_scatter.default: _write_slice,
    _aten.index_put.default: _aten.index_put_.default,
    _aten.masked_fill.Tensor: _aten.masked_fill_.Tensor,
    _aten.copy.default: _aten.copy_.default,
}


@dataclass(frozen=True)
class Variant:
    """What to call instead. With `out`, the operand's place is named again in this keyword argument."""

    target: Callable[..., Any]
    out: str | None


@functools.cache
def _variants(target: Any) -> tuple[Variant | None, Variant | None]:
    """The variant that writes over the first operand, and the one that writes over any."""
    if target in _WRITES:
        return Variant(_WRITES[target], None), None
    if not isinstance(target, torch._ops.OpOverload) or not (torch.Tag.pointwise in target.tags or target in _ELEMENTWISE):
        return None, None
    if target._schema.is_mutable or len(target._schema.returns) != 1 or torch.Tag.nondeterministic_seeded in target.tags:
        return None, None

    def signature(overload: Any) -> list[tuple[str, str]]:
        return [(a.name, str(a.type)) for a in overload._schema.arguments if not a.is_out]

    def find(packet: Any, outs: int) -> Any:
        overloads = (getattr(packet, name) for name in packet.overloads())
        return next((o for o in overloads if signature(o) == signature(target) and torch.Tag.generated not in o.tags
                     and sum(a.is_out for a in o._schema.arguments) == outs and o._schema.is_mutable), None)  # fmt: skip

    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name + "_", None)
    first = find(packet, 0) if packet is not None else None
    anywhere = find(target.overloadpacket, 1)
    out = None if anywhere is None else next(a.name for a in anywhere._schema.arguments if a.is_out)
    return (None if first is None else Variant(first, None)), (None if anywhere is None else Variant(anywhere, out))


def _rounds_otherwise(target: Any, result: torch.Tensor) -> bool:
    """Whether an elementwise call may round otherwise when it writes over an operand: products and quotients of complex numbers do where
    layouts differ, and `mul_` has a number in the operand's half precision. tests/test_torch_inplace.py compares all others."""
    halves = result.dtype in (torch.float16, torch.bfloat16)
    return target not in _WRITES and (result.is_complex() or (halves and target is _aten.mul.Scalar))


def over(node: fx.Node, operand: fx.Node) -> Variant | None:
    """How the call writes its result over this operand; None when it cannot. Says nothing of who else reads it."""
    first, anywhere = _variants(node.target)
    if first is None and anywhere is None:
        return None
    result, value = node.meta.get("val"), operand.meta.get("val")
    if not isinstance(result, torch.Tensor) or not isinstance(value, torch.Tensor) or not _same_layout(result, value):
        return None
    if _rounds_otherwise(node.target, result):
        return None
    if first is not None and node.args and node.args[0] is operand:
        # A call that is not elementwise may read another operand after it has written.
        elementwise = node.target not in _WRITES
        return first if elementwise or _times_used(node, operand) == 1 else None
    return anywhere


def candidates(node: fx.Node) -> Iterator[fx.Node]:
    """The operands that the call can write over."""
    return (operand for operand in node.all_input_nodes if operand.op == "call_function" and over(node, operand) is not None)


def emit(graph: fx.Graph, node: fx.Node, operand: fx.Node, value: Callable[[fx.Node], fx.Node]) -> fx.Node:
    """Adds the call, written over the operand, to a graph."""
    variant = over(node, operand)
    assert variant is not None
    args = fx.map_arg(node.args, value)
    kwargs = fx.map_arg(node.kwargs, value)
    if variant.out is not None:
        kwargs = {**kwargs, variant.out: value(operand)}
    new = graph.create_node("call_function", variant.target, args, kwargs, name=node.name)
    new.meta = {**node.meta, OVER: value(operand)}
    return new


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = symbols.same(a.shape, b.shape) and symbols.same(a.stride(), b.stride()) and a.dtype == b.dtype and a.device == b.device
    return same and a.layout == torch.strided and not b.is_conj() and not b.is_neg() and _dense(b)


def _dense(value: torch.Tensor) -> bool:
    """Whether every element has its own place, and no place lies between them."""
    expected: Any = 1
    places = [(stride, size) for stride, size in zip(value.stride(), value.shape, strict=True) if not symbols.same(size, 1)]
    for stride, size in sorted(places, key=lambda place: (symbols.number(place[0]), symbols.number(place[1]))):
        if not symbols.same(stride, expected):
            return False
        expected *= size
    return True


def _times_used(node: fx.Node, operand: fx.Node) -> int:
    uses: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), uses.append)
    return uses.count(operand)
