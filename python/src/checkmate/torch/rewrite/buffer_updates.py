# SPDX-License-Identifier: Apache-2.0
"""Statistics that a forward pass updates are written where they lie, as eager mode does it.

Functionalization makes a batch norm clone its statistics, give them back new, and copies them over the old ones after the
step. For small batches those copies take longer than the norm. What is rewritten here must be the only reader of the old
value in the whole step; the kernels are the same.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch import fx

from ..fx import devices

_aten: Any = torch.ops.aten


def _norms() -> dict[Any, tuple[Any, int]]:
    """A norm that gives its statistics back, the one that writes over them, and how many other results they have."""
    pairs = {"_native_batch_norm_legit": 3, "_batch_norm_with_update": 4}
    return {getattr(_aten, f"{name}_functional").default: (getattr(_aten, name).default, count) for name, count in pairs.items()
            if hasattr(_aten, f"{name}_functional")}  # fmt: skip


def unread(module: fx.GraphModule) -> None:
    """Rewrites a joint graph so that the backward pass of a batch norm in training is not handed running statistics, which it
    does not read but would keep for. On a GPU it is as it was."""
    target = _aten.native_batch_norm_backward.default
    for node in module.graph.find_nodes(op="call_function", target=target):
        if node.args[7] is True and devices.on_cpu(node.args[0].meta["val"].device):
            node.args = (*node.args[:3], None, None, *node.args[5:])


def in_place(forward: fx.GraphModule, written: tuple[int, ...], end: int) -> tuple[fx.GraphModule, tuple[int, ...]]:
    """A copy of the forward half whose first outputs, new values of the inputs `written`, are no more than must be copied
    to those inputs afterwards, and which inputs these are. What it saves for the backward pass, behind the first `end`
    outputs, is not detached from what it is of: autograd sees neither. O(nodes)."""
    graph = fx.Graph()
    values: Any = graph.graph_copy(forward.graph, {})
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    output = graph.output(values)
    new = dict(zip(values[: len(written)], written, strict=True))
    done: list[fx.Node] = []
    for node in list(graph.nodes):
        pair = _norms().get(node.target)
        done += _add(graph, node, new, inputs) if pair is None else _norm(node, new, inputs, *pair)
    kept = [value for value in values[: len(written)] if value not in done]
    given, saved = values[len(written) : end], [_undetached(value) for value in values[end:]]
    output.args = ((*kept, *given, *saved),)
    for node in reversed(graph.nodes):  # copies of what is no longer copied
        if node.op == "call_function" and not node.users and (node in done or node.target in (_aten.clone.default, _aten.detach.default)):
            graph.erase_node(node)
    return torch.fx._lazy_graph_module._make_graph_module(forward, graph), tuple(new[value] for value in kept)


def _undetached(value: Any) -> Any:
    while isinstance(value, fx.Node) and value.target is _aten.detach.default and value.args[0].op == "call_function":  # type: ignore[union-attr]
        value = value.args[0]
    return value


def _sole(node: object, reader: fx.Node) -> bool:
    return isinstance(node, fx.Node) and list(node.users) == [reader]


def _input_behind(value: object, reader: fx.Node, place: fx.Node) -> bool:
    """Whether `value` is the input `place`, or a copy of it, read by `reader` alone, and nothing else reads that input. PyTorch 2.8
    hands it over without a copy."""
    if value is place:
        return _sole(place, reader)
    return (
        isinstance(value, fx.Node) and value.target is _aten.clone.default and _sole(value, reader) and value.args[0] is place and _sole(place, value)
    )


def _only_given(value: fx.Node | None, new: dict[Any, int]) -> bool:
    """Whether the value is a new one of an input and nothing else, such as saved for the backward pass."""
    if value not in new or len(value.users) != 1:  # type: ignore[union-attr]
        return False
    (values,) = next(iter(value.users)).args if next(iter(value.users)).op == "output" else ((),)  # type: ignore[union-attr]
    return sum(other is value for other in values) == 1  # type: ignore[union-attr]


def _add(graph: fx.Graph, node: fx.Node, new: dict[Any, int], inputs: list[fx.Node]) -> list[fx.Node]:
    """A counter: input + a number."""
    if not _only_given(node, new) or node.target not in (_aten.add.Tensor, _aten.add_.Tensor) or len(node.args) != 2 or node.kwargs:
        return []
    place, (value, amount) = inputs[new[node]], node.args
    same = isinstance(value, fx.Node) and value.meta["val"].dtype == node.meta["val"].dtype and value.meta["val"].shape == node.meta["val"].shape
    if not same or not isinstance(amount, (int, float)) or not _input_behind(value, node, place):
        return []
    with graph.inserting_before(node):
        graph.call_function(_aten.add_.Tensor, (place, amount)).meta = dict(place.meta)
    return [node]


def _norm(node: fx.Node, new: dict[Any, int], inputs: list[fx.Node], target: Any, count: int) -> list[fx.Node]:
    results = {user.args[1]: user for user in node.users if user.target is getitem}
    updated = [results.get(count), results.get(count + 1)]
    if len(results) != len(node.users) or not all(_only_given(value, new) for value in updated):
        return []
    places = [inputs[new[value]] for value in updated]
    if not all(_input_behind(value, node, place) for value, place in zip(node.args[3:5], places, strict=True)):
        return []
    node.target = target
    node.args = (*node.args[:3], *places, *node.args[5:])
    node.meta["val"] = tuple(node.meta["val"][:count])
    return [value for value in updated if value is not None]
