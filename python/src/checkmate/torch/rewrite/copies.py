# SPDX-License-Identifier: Apache-2.0
"""Copies that nothing needs.

AOTAutograd traces a dropout of probability zero as a copy, which the backward pass then holds in addition to the original;
eager mode hands its operand on. In a functional graph neither of the two is written to, so that one will do.
"""

from __future__ import annotations

import torch
from torch import fx

from ..fx.dataflow import storage_key, tensors
from ..fx.symbols import same
from .views import refresh

_aten = torch.ops.aten


def apply(module: fx.GraphModule) -> None:
    """Rewrites the joint graph. Copies that leave it, under whatever view, stay, and so do copies of what comes from outside, which
    the step may update. O(nodes)."""
    graph = module.graph
    *nodes, output = graph.nodes
    outside = {key for node in nodes if node.op != "call_function" for key in _storages(node.meta.get("val"))}
    leaving = {key for node in output.all_input_nodes for key in _storages(node.meta.get("val"))}
    written = {key for node in nodes if _mutates(node) for parent in node.all_input_nodes for key in _storages(parent.meta.get("val"))}
    left_out: set[int] = set()  # storages of copies
    for node in nodes:
        if node.op != "call_function":
            continue
        own = _storages(node.meta.get("val"))
        if own & left_out:
            refresh(node)
            own = _storages(node.meta["val"])
        source = node.args[0] if _is_copy(node) else None
        if not isinstance(source, fx.Node) or own & (leaving | written) or _storages(source.meta["val"]) & (outside | written):
            continue
        left_out |= own
        node.replace_all_uses_with(source)
        graph.erase_node(node)


def _storages(value: object) -> set[int]:
    return {storage_key(t) for t in tensors(value) if t is not None}


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_copy(node: fx.Node) -> bool:
    """With the layout of what it is a copy of."""
    if node.target is not _aten.clone.default or not isinstance(node.args[0], fx.Node):
        return False
    copy, source = node.meta.get("val"), node.args[0].meta.get("val")
    if not isinstance(copy, torch.Tensor) or not isinstance(source, torch.Tensor):
        return False
    layouts = [(*t.shape, *t.stride(), t.storage_offset(), t.untyped_storage().nbytes()) for t in (copy, source)]
    return copy.dtype == source.dtype and copy.dim() == source.dim() and same(*layouts)
