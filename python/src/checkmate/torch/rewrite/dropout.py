# SPDX-License-Identifier: Apache-2.0
"""Dropout on the CPU as eager mode computes it.

AOTAutograd traces `native_dropout`, which gives a mask of a byte an element. On the CPU both passes convert the mask and
multiply twice, and the gradients of half types are not eager mode's bits. Eager mode makes a float noise of zeros and
1 / (1 - p) instead, holds it, and multiplies once in each pass. Here a dropout becomes draw, noise and product: a
schedule can hold the noise, or the mask alone and make the noise again.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ..fx import devices, inplace, random_state, symbols
from ..fx.partition import Halves

_aten = torch.ops.aten


def rewrite(module: fx.GraphModule, *, decomposed: bool = False) -> None:
    """Of a joint graph. What draws from the generator draws what it did before. `decomposed`: made of the calls that inductor
    takes when it has decomposed a graph."""
    for node in list(module.graph.nodes):
        if node.target is _aten.native_dropout.default and _is_plain(node):
            _replace(module.graph, node, decomposed)


def _is_plain(node: fx.Node) -> bool:
    if node.kwargs or len(node.args) != 3 or any(user.target is not operator.getitem for user in node.users):
        return False
    x, p, train = node.args
    out, _mask = node.meta["val"]
    on_cpu = isinstance(x, fx.Node) and devices.on_cpu(out.device) and out.dtype.is_floating_point and symbols.number(out.numel()) > 0
    return on_cpu and train is True and isinstance(p, float) and 0.0 < p < 1.0


def _call(graph: fx.Graph, like: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """Adds a call with the metadata of `like` and a fake output of its own."""
    new = graph.call_function(target, args, kwargs)
    new.meta = dict(like.meta)
    new.meta.pop("tensor_meta", None)
    given = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
    mode = torch._guards.detect_fake_mode(like.meta["val"])
    assert mode is not None
    with mode:
        new.meta["val"] = target(*given[0], **given[1])
    return new


def _replace(graph: fx.Graph, node: fx.Node, decomposed: bool) -> None:
    x, p, _train = node.args
    assert isinstance(x, fx.Node) and isinstance(p, float)
    out, mask = node.meta["val"]
    with graph.inserting_before(node):
        drawn = _draw(graph, node, mask, 1 - p, decomposed)
        if decomposed:
            numbers = _call(graph, node, torch.ops.prims.convert_element_type.default, drawn, out.dtype)
        else:
            numbers = _call(graph, node, _aten._to_copy.default, drawn, dtype=out.dtype)
        noise = _call(graph, node, _aten.div.Tensor if decomposed else _aten.div.Scalar, numbers, 1 - p)
        product = _call(graph, node, _aten.mul.Tensor, x, noise)
    # A policy that saves the dropout's outputs says nothing of the noise, which is four masks large.
    for made in (noise, noise.all_input_nodes[0]):
        if "SAVE" in getattr(made.meta.get("recompute"), "name", ""):
            del made.meta["recompute"]
    for element in list(node.users):
        if element.args[1] == 1:
            for user in list(element.users):
                _replace_backward(graph, user, element, noise, p)
        element.replace_all_uses_with((product, drawn)[element.args[1]])  # type: ignore[index]
        graph.erase_node(element)
    graph.erase_node(node)


@functools.cache
def _in_memory_order() -> bool:
    """Whether an in-place draw goes through a permuted tensor in the order of memory; in old versions, in that of indices."""
    with unset_fake_temporarily():
        permuted, plain = (torch.empty(8, 8, dtype=torch.bool) for _ in range(2))
        permuted.t().bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
        plain.bernoulli_(0.5, generator=torch.Generator().manual_seed(0))
        return torch.equal(permuted, plain)


def _drawn(size: list[int], p: float, *, device: torch.device) -> torch.Tensor:
    return torch.empty(size, dtype=torch.bool, device=device).bernoulli_(p)


# A mask of a size, in one call: what `bernoulli` of an empty tensor would read, inductor's code writes first, one byte at a time.
torch.library.define(
    "checkmate::bernoulli", "(SymInt[] size, float p, *, Device device) -> Tensor", tags=torch.Tag.nondeterministic_seeded
)  # fmt: skip
torch.library.impl("checkmate::bernoulli", "CompositeExplicitAutograd", _drawn)
torch.library.register_fake("checkmate::bernoulli", lambda size, p, *, device: torch.empty(size, dtype=torch.bool, device=device))


def _draw(graph: fx.Graph, node: fx.Node, mask: torch.Tensor, keep: float, decomposed: bool) -> fx.Node:
    """A mask of the same layout, drawn in the order in which eager mode's in-place call does."""
    order = sorted(range(mask.dim()), key=lambda d: symbols.number(mask.stride(d)), reverse=True)
    in_memory_order = _in_memory_order()
    shape = [mask.shape[d] for d in order] if in_memory_order else list(mask.shape)
    if decomposed:
        drawn = _call(graph, node, torch.ops.checkmate.bernoulli.default, symbols.arguments(graph, shape), keep, device=mask.device)
    else:
        empty = _call(graph, node, _aten.empty.memory_format, symbols.arguments(graph, shape), dtype=mask.dtype, device=mask.device)
        drawn = _call(graph, node, _aten.bernoulli.p, empty, keep)
    if order == sorted(order):
        return drawn
    if not in_memory_order:
        permuted = _call(graph, node, _aten.permute.default, drawn, order)
        drawn = _call(graph, node, _aten.clone.default, permuted, memory_format=torch.contiguous_format)
    return _call(graph, node, _aten.permute.default, drawn, [order.index(d) for d in range(len(order))])


def _replace_backward(graph: fx.Graph, node: fx.Node, mask: fx.Node, noise: fx.Node, p: float) -> None:
    """Unless it is not this dropout's: the mask then serves as it did."""
    if node.target is not _aten.native_dropout_backward.default or node.kwargs or node.args[1:] != (mask, 1 / (1 - p)):
        return
    gradient = node.args[0]
    assert isinstance(gradient, fx.Node)
    given, made = gradient.meta["val"], noise.meta["val"]
    if given.dtype != made.dtype or not symbols.same(given.shape, made.shape):
        return
    with graph.inserting_before(node):
        product = _call(graph, node, _aten.mul.Tensor, gradient, noise)
        if not symbols.same(product.meta["val"].stride(), node.meta["val"].stride()):
            # What follows was traced for the layout that PyTorch promises of this call, and its kernel does not keep.
            product = _call(graph, node, _aten.clone.default, product, memory_format=torch.contiguous_format)
    node.replace_all_uses_with(product)
    graph.erase_node(node)


def draw_noise(halves: Halves, limit: int, levels: dict[fx.Node, int]) -> bool:
    """Draws into the noise itself where a mask is made only to be converted: a pass over memory less, where there is room
    for the noise. `levels`: the bytes that are there while each call runs. Returns whether any draw was changed. O(calls)."""
    graphs = (halves.forward.graph, halves.backward.graph)
    return any([_draw_noise(half, noise, limit, levels) for half in graphs for noise in list(half.nodes)])


def _draw_noise(half: fx.Graph, noise: fx.Node, limit: int, levels: dict[fx.Node, int]) -> bool:
    if noise.target is not _aten._to_copy.default or noise.kwargs.keys() != {"dtype"}:
        return False
    (mask,) = noise.all_input_nodes
    permute = mask if mask.target is _aten.permute.default else None
    drawn = mask if permute is None else permute.all_input_nodes[0]
    replayed = drawn.target is random_state.with_state and drawn.args[2] is _aten.bernoulli.p
    if not replayed and drawn.target is not _aten.bernoulli.p:
        return False
    empty, keep = drawn.args[-2:]
    assert isinstance(empty, fx.Node)
    if empty.target is not _aten.empty.memory_format or any(len(made.users) != 1 for made in {empty, drawn, mask}):
        return False
    value = noise.meta["val"]
    bytes_more = symbols.number(value.numel()) * (value.element_size() - 2 * empty.meta["val"].element_size())
    if not symbols.same(value.stride(), mask.meta["val"].stride()) or not _follow(drawn, noise) or levels[drawn] + bytes_more > limit:
        return False
    with half.inserting_before(drawn):  # the schedule may have made the mask's place earlier, where there is no room for the noise
        place = half.call_function(empty.target, empty.args, {**empty.kwargs, "dtype": value.dtype})
        place.meta = {**empty.meta, "val": value if permute is None else _unpermuted(value, permute)}
        target = random_state.with_state if replayed else _aten.bernoulli_.float
        new = half.call_function(target, (*drawn.args[:2], _aten.bernoulli_.float, place, keep) if replayed else (place, keep))
    new.meta = {**drawn.meta, "val": place.meta["val"]}
    if permute is not None:
        permute.replace_input_with(drawn, new)
        permute.meta["val"] = value
        new = permute
    for user in noise.users:
        if user.meta.get(inplace.OVER) is noise:
            user.meta[inplace.OVER] = new
    noise.replace_all_uses_with(new)
    for gone in dict.fromkeys((noise, drawn, empty)):
        half.erase_node(gone)
    return True


def _follow(drawn: fx.Node, noise: fx.Node) -> bool:
    """Whether nothing is computed between the two."""
    node = drawn.next
    while node is not noise and node.target is _aten.permute.default:
        node = node.next
    return node is noise


def _unpermuted(value: torch.Tensor, permute: fx.Node) -> torch.Tensor:
    order = permute.args[1]
    assert isinstance(order, (list, tuple))
    inverse = [order.index(d) for d in range(len(order))]
    mode = torch._guards.detect_fake_mode(value)
    assert mode is not None
    with mode:
        return value.permute(inverse)
