# SPDX-License-Identifier: Apache-2.0
"""Calls that inductor computes where they are read, so that their results never lie in memory.

An elementwise call whose readers are elementwise calls or reductions becomes part of their kernels. To the planner it is then no
operator: its readers take what it takes. It is written anew for each of them, right before it, in the forward and in the
backward pass; so it is never saved, and inductor finds every copy with one reader, which it puts into the reader's kernel.
Two kinds of such calls are operators all the same, since they are worth their bytes. One is a few numbers that many results are computed
of, such as the scale of a norm: a kernel that contained it would compute it for each. The other is what the backward pass reads and what is
computed of more than one large tensor, such as a sum over a residual: to save what it is computed of takes more.
Exponentials and the like are written once a pass on a processor, as long as what they read stays the same: there they take longer
than memory, and inductor stores what two kernels read of them. The code's peak, which is measured, contains that.
Inductor's rules are in torch/_inductor/ir.py (`should_realize_on_reuse`, `has_exceeded_max_reads`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import fx

from . import devices, effects, symbols

#: In the metadata of a call in one of the halves: it has no bytes, and is read from what its operands lie in.
FUSED = "checkmate_fused"

#: Tensors that a kernel reads for one call without bytes, and those among them that are no rows, columns or single numbers in addition to the
#: result, which are more than this part of it; inductor writes what reads many.
_READS, _LARGE_READS, _LARGE = 8, 4, 0.25

_aten, _prims = torch.ops.aten, torch.ops.prims

_ELEMENTWISE = {_prims.convert_element_type.default, _aten._to_copy.default, _aten.clone.default, _aten.where.self, _aten.full.default,
                _aten.full_like.default, _aten.scalar_tensor.default, _prims.iota.default, _aten.arange.start_step, _aten.slice_scatter.default,
                _aten.select_scatter.default, _aten.constant_pad_nd.default}  # fmt: skip
_REDUCTIONS = {_aten.sum.default, _aten.sum.dim_IntList, _aten.mean.default, _aten.mean.dim, _aten.amax.default, _aten.amin.default,
               _aten.var_mean.correction, _aten.var.correction, _aten.prod.default, _aten.any.default, _aten.any.dim}  # fmt: skip
#: What inductor takes for heavy on a processor.
_HEAVY = {_aten.exp.default, _aten.log.default, _aten.log1p.default, _aten.log2.default, _aten.log10.default, _aten.sigmoid.default,
          _aten.tanh.default}  # fmt: skip
_GATHERERS = {_aten.cat.default, _aten.gather.default, _aten.index.Tensor, _aten._unsafe_index.Tensor, _aten.index_select.default}


def _is_elementwise(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and (torch.Tag.pointwise in target.tags or target in _ELEMENTWISE)


def _is_view(node: fx.Node) -> bool:
    """Whether the call gives its only operand's storage."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable or len(node.all_input_nodes) != 1:
        return False
    value, base = node.meta.get("val"), node.all_input_nodes[0].meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(base, torch.Tensor):
        return False
    return value.untyped_storage()._cdata == base.untyped_storage()._cdata


def fused(nodes: list[fx.Node], backward: Collection[fx.Node] = ()) -> dict[fx.Node, tuple[fx.Node, ...]]:
    """The calls of a joint graph that get no bytes, each with the nodes in memory that it is computed of. `backward`: the calls of the
    backward pass. O(nodes and uses)."""
    readers = _readers(nodes, backward)
    found: dict[fx.Node, tuple[fx.Node, ...]] = {}
    for node in nodes:
        if node.op != "call_function" or not readers[node].have_it_in_place or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        of_fused = any(parent in found for parent in node.all_input_nodes)
        if not (_is_elementwise(node) or (_is_view(node) and of_fused)) or _stays(node):
            continue
        leaves = dict.fromkeys(leaf for parent in node.all_input_nodes for leaf in found.get(parent, (parent,)))
        if leaves and _numbers(node) < _LARGE * readers[node].spread:
            continue
        large = [leaf for leaf in leaves if _numbers(leaf) > _LARGE * _numbers(node)]
        saved = node not in backward and readers[node].in_backward
        if len(leaves) <= _READS and len(large) <= (1 if saved else _LARGE_READS):
            found[node] = tuple(leaves)
    return found


@dataclass(frozen=True)
class _Readers:
    """Of a node: whether all can have it in their kernels, the most results that one computes of it, and whether one is in the backward
    pass. What reads a view of it is among them."""

    have_it_in_place: bool
    spread: int
    in_backward: bool


def _readers(nodes: list[fx.Node], backward: Collection[fx.Node]) -> dict[fx.Node, _Readers]:
    found: dict[fx.Node, _Readers] = {}
    for node in reversed(nodes):
        in_place, spread, in_backward = bool(node.users), 0, False
        for reader in node.users:
            further, is_view, is_elementwise = found[reader], _is_view(reader), _is_elementwise(reader)
            in_place &= is_elementwise or reader.target in _REDUCTIONS or reader.target in _GATHERERS or (is_view and further.have_it_in_place)
            passed_on = (is_view or is_elementwise) and further.have_it_in_place
            own = _numbers(reader) if reader.target is not _aten.cat.default else 0  # which takes each number once
            spread = max(spread, own, further.spread if passed_on else 0)
            in_backward |= reader in backward or (is_view and further.in_backward)
        found[node] = _Readers(in_place, spread, in_backward)
    return found


def is_shared(node: fx.Node) -> bool:
    """Whether all readers of a pass get one copy of a call without bytes."""
    value = node.meta.get("val")
    return node.target in _HEAVY and isinstance(value, torch.Tensor) and devices.on_cpu(value.device)


def _numbers(node: fx.Node) -> int:
    value = node.meta.get("val")
    return symbols.number(value.numel()) if isinstance(value, torch.Tensor) else 0


def _stays(node: fx.Node) -> bool:
    return effects.runs_once(node) or effects.is_random(node) or effects.PINNED in node.meta or effects.COPY_OF in node.meta


def calls(
    node: fx.Node, without_bytes: dict[fx.Node, tuple[fx.Node, ...]], is_made: Callable[[fx.Node], bool] = lambda _call: False
) -> list[fx.Node]:
    """The calls without bytes that a call's kernel makes, in order. Those that `is_made` of are there already."""
    found: dict[fx.Node, None] = {}

    def add(call: fx.Node) -> None:
        for parent in call.all_input_nodes:
            if parent in without_bytes and parent not in found and not is_made(parent):
                add(parent)
                found[parent] = None

    add(node)
    return list(found)


def operands(node: fx.Node, without_bytes: dict[fx.Node, tuple[fx.Node, ...]]) -> list[fx.Node]:
    """What a call reads that lies in memory."""
    return list(dict.fromkeys(leaf for parent in node.all_input_nodes for leaf in without_bytes.get(parent, (parent,))))
