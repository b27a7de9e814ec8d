# SPDX-License-Identifier: Apache-2.0
"""Rebase views after their base tensor is replaced.

Storages are told apart by those of the fake tensors. A call that takes the place of another has an output of its own, and the
views of it still have the storage of the one that is gone: the planner would take them for separate values, and let
another call write over what they refer to.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch import fx

from ..fx.dataflow import storage_key, tensors

_aten = torch.ops.aten

#: Gives its operand's storage, though its schema does not say so.
_UNMARKED = {_aten._unsafe_view.default}


def reseat(module: fx.GraphModule) -> None:
    """Gives views new fake values where theirs are not of their base's storage. O(nodes)."""
    for node in module.graph.nodes:
        if not _is_view(node):
            continue
        base = node.args[0]
        mine, theirs = _storages(node.meta.get("val")), _storages(base.meta.get("val"))
        if mine and theirs and not mine <= theirs:
            refresh(node)


def _storages(value: object) -> set[int]:
    return {storage_key(t) for t in tensors(value) if t is not None}


def _is_view(node: fx.Node) -> bool:
    target = node.target
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    if target is getitem or target in _UNMARKED:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return False
    first = target._schema.arguments[0]
    return first.alias_info is not None and any(result.alias_info is not None for result in target._schema.returns)


def refresh(node: fx.Node) -> None:
    """A view's fake value, of another storage than before."""
    target: Any = node.target
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    mode = torch._guards.detect_fake_mode((args, kwargs))
    assert mode is not None
    with mode:
        node.meta["val"] = target(*args, **kwargs)
