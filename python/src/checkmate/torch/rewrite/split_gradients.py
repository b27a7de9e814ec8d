# SPDX-License-Identifier: Apache-2.0
"""The gradient of a tensor that was taken apart, gathered by one call.

In the joint graph each part's gradient is scattered into zeros of the full size (`select_backward`, `slice_backward`),
and these are added up. Where the parts are disjoint and cover the tensor, `stack` or `cat` gives the same values. And
where the result is then only permuted and copied, the parts are permuted instead, so that one copy is left of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import fx

from ..fx.symbols import same

_aten = torch.ops.aten

#: Views that put dimensions elsewhere: they can be taken of the parts as of the whole.
_PERMUTES = {_aten.permute.default, _aten.transpose.int, _aten.t.default, _aten.unsqueeze.default, _aten.squeeze.dim}


@dataclass(frozen=True)
class _Part:
    """A part's gradient and the range of the dimension that it is of."""

    gradient: fx.Node
    selected: bool  # the dimension is missing
    start: int
    stop: int


@dataclass(frozen=True)
class _Scattered:
    """A sum of parts, each within zeros of the full shape. No two of them overlap."""

    dim: int
    parts: list[_Part]

    def plus(self, other: _Scattered) -> _Scattered | None:
        """None when the two overlap."""
        parts = sorted([*self.parts, *other.parts], key=lambda part: part.start)
        disjoint = all(a.stop <= b.start for a, b in pairwise(parts))
        return _Scattered(self.dim, parts) if self.dim == other.dim and disjoint else None

    def covers(self, size: int) -> bool:
        return sum(part.stop - part.start for part in self.parts) == size


def apply(module: fx.GraphModule) -> None:
    """Rewrites the joint graph. O(nodes + parts^2 of each sum)."""
    scattered: dict[fx.Node, _Scattered] = {}
    for node in list(module.graph.nodes):
        found = _scattered(node, scattered) or _sum(node, scattered)
        if found is None:
            continue
        if len(found.parts) > 1 and found.covers(node.meta["val"].shape[found.dim]):
            _gather(module.graph, node, found)
        else:
            scattered[node] = found


def _scattered(node: fx.Node, scattered: dict[fx.Node, _Scattered]) -> _Scattered | None:
    """One part within zeros; or what a slice that takes all was taken of: old versions trace one for each `:`."""
    if node.target not in (_aten.select_backward.default, _aten.slice_backward.default):
        return None
    arguments: Any = node.args
    gradient, sizes, dim, *place = arguments
    if not all(isinstance(number, int) for number in (dim, *place, sizes[dim])):
        return None
    dim %= len(sizes)
    if node.target is _aten.select_backward.default:
        start = place[0] % sizes[dim]
        return _Scattered(dim, [_Part(gradient, True, start, start + 1)])
    start, stop, step = slice(*place).indices(sizes[dim])
    if (start, stop, step) == (0, sizes[dim], 1) and len(gradient.users) == 1:
        return scattered.get(gradient)
    return _Scattered(dim, [_Part(gradient, False, start, stop)]) if step == 1 and start < stop else None


def _sum(node: fx.Node, scattered: dict[fx.Node, _Scattered]) -> _Scattered | None:
    """The sum of two that nothing else reads."""
    if node.target is not _aten.add.Tensor or len(node.args) != 2 or node.kwargs:
        return None
    terms = node.args
    if not all(isinstance(term, fx.Node) and term in scattered and len(term.users) == 1 and _same_type(term, node) for term in terms):
        return None
    return scattered[terms[0]].plus(scattered[terms[1]])  # type: ignore[index]


def _same_type(a: fx.Node, b: fx.Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return same(x.shape, y.shape) and x.dtype == y.dtype and x.device == y.device


def _gather(graph: fx.Graph, total: fx.Node, found: _Scattered) -> None:
    views, copy = _permuted_copy(total)
    if copy is None or not _write(graph, total, copy, lambda: _cat(graph, total, found, views)):
        _write(graph, total, total, lambda: _cat(graph, total, found, []))


def _permuted_copy(total: fx.Node) -> tuple[list[fx.Node], fx.Node | None]:
    """The views between a sum and the only call that reads it, if that one copies."""
    views: list[fx.Node] = []
    node = total
    while len(node.users) == 1:
        (node,) = node.users
        if node.target is _aten.clone.default:
            return views, node
        if node.target not in _PERMUTES or node.kwargs:
            break
        views.append(node)
    return views, None


def _write(graph: fx.Graph, total: fx.Node, replaced: fx.Node, calls: Callable[[], Iterator[fx.Node]]) -> bool:
    """Puts calls in place of one, unless the last of them gives other strides, on which views may depend."""
    made: list[fx.Node] = []
    with graph.inserting_before(total):
        made.extend(calls())
    if made and _same_layout(made[-1].meta["val"], replaced.meta["val"]):
        made[-1].meta["val"] = replaced.meta["val"]  # its views know it by its storage
        replaced.replace_all_uses_with(made[-1])
        _erase(graph, [replaced])
        return True
    _erase(graph, made)
    return False


def _cat(graph: fx.Graph, total: fx.Node, found: _Scattered, views: list[fx.Node]) -> Iterator[fx.Node]:
    """The calls that gather the parts, and after them what `views` are of the whole. None if they are not to be had of the
    parts. What is left over is for the caller to erase."""
    if not views and all(part.selected for part in found.parts):
        yield _call(graph, _aten.stack.default, ([part.gradient for part in found.parts], found.dim), total)
        return
    parts: list[fx.Node] = []
    for part in found.parts:
        node = part.gradient
        if part.selected:
            node = _call(graph, _aten.unsqueeze.default, (node, found.dim), total)
            yield node
        for view in views:
            node = _call(graph, view.target, (node, *view.args[1:]), view)
            yield node
        parts.append(node)
    whole = (views[-1] if views else total).meta["val"].shape
    dim = _joined(whole, [part.meta["val"].shape for part in parts])
    if dim is not None:
        yield _call(graph, _aten.cat.default, (parts, dim), total)


def _joined(whole: torch.Size, parts: list[torch.Size]) -> int | None:
    """The only dimension in which the parts differ from the whole."""
    if any(len(part) != len(whole) for part in parts):
        return None
    found = {dim for part in parts for dim, size in enumerate(part) if not same(size, whole[dim])}
    return found.pop() if len(found) == 1 else None


def _call(graph: fx.Graph, target: Any, args: tuple[Any, ...], like: fx.Node) -> fx.Node:
    """A call that stands where another one stood."""
    node = graph.call_function(target, args)
    values = fx.map_arg(args, lambda n: n.meta["val"])
    mode = torch._guards.detect_fake_mode(values)
    assert mode is not None
    with mode:
        node.meta = {**like.meta, "val": target(*values)}
    return node


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    layouts = [(*t.shape, *t.stride(), t.storage_offset()) for t in (a, b)]
    return a.dtype == b.dtype and a.device == b.device and a.dim() == b.dim() and same(*layouts)


def _erase(graph: fx.Graph, unused: list[fx.Node]) -> None:
    """Erases calls, and those that only they read."""
    while unused:
        node = unused.pop()
        if node.op == "call_function" and not node.users and node.graph is graph and not node._erased:
            inputs = node.all_input_nodes
            graph.erase_node(node)
            unused.extend(inputs)
