# SPDX-License-Identifier: Apache-2.0
"""What the user wants saved, computed again or moved: regions of torch.utils.checkpoint and their policies.

PyTorch marks every call that a region traces with a `CheckpointPolicy` and with the region's number. A call that must
not be computed again is marked so in the dataflow graph. One that must be computed again is *bound*: the backward pass
reads a copy of it, placed just before its first reader there, and the call itself serves the forward pass alone. No
schedule can then hold its value from one pass to the other, because nothing in the backward pass reads it.

Bound calls run once in the forward pass, and so do calls that read them without being bound: computing those again
would need the bound values. The planner may run the copies several times. What one region hands to the next is kept, as
PyTorch's own partitioner does, and so is what the caller gets.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Literal

import torch
from torch import fx
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import CheckpointPolicy

from ...errors import UnsupportedError
from ..fx import effects
from ..fx.dataflow import sides, storage_key, tensors
from ..offload import calls
from ..offload.store import Store

#: "must": MUST_SAVE and MUST_RECOMPUTE bind, PREFER_... does not, which is what PyTorch's documentation says of compilers.
#: "respect": all of them bind, and so plain checkpoint regions, which PyTorch marks PREFER_RECOMPUTE. "override": none does.
Binding = Literal["must", "respect", "override"]
BINDINGS: tuple[Binding, ...] = ("must", "respect", "override")

_SAVE = {"must": {"MUST_SAVE"}, "respect": {"MUST_SAVE", "PREFER_SAVE"}}
_MOVE = {"must": {"MUST_CPU_OFFLOAD"}, "respect": {"MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD"}}
_RECOMPUTE = {"must": {"MUST_RECOMPUTE"}, "respect": {"MUST_RECOMPUTE", "PREFER_RECOMPUTE"}}


def apply(module: fx.GraphModule, num_fwd_outputs: int, binding: Binding, *, replay: bool, store: Store | None = None) -> None:
    """Marks and rewrites the joint graph. `replay`: whether random calls may be computed again; else they are kept
    whatever their policy, as calls with side effects are. `store`: where what must be moved is moved to. O(nodes)."""
    if binding == "override":
        return
    nodes = list(module.graph.nodes)
    outputs = list(nodes[-1].args[0])
    forward, _backward = sides(nodes, outputs[:num_fwd_outputs])
    for node in forward:
        name = _policy(node)
        if name in ("MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD") and store is None:
            raise UnsupportedError(
                f'{node.name} is to be moved ({name}), and it is not said where to: give offload="host" or a folder; '
                'checkpoint_policy="override" ignores it'
            )
        if name in _SAVE[binding]:
            node.meta[effects.PINNED] = True
    given = {node for node in outputs[:num_fwd_outputs] if isinstance(node, fx.Node)}
    bound = _bound(forward, given, binding, replay)
    moved = {node for node in forward if _policy(node) in _MOVE[binding] and _viewed(node) is None and _movable(node)} - bound
    if moved:
        assert store is not None
        for node in moved:
            node.meta[effects.PINNED] = True
        _copy_for_backward(module, _with_views(forward, moved), set(forward), moved, store)
        nodes = list(module.graph.nodes)
        forward, _backward = sides(nodes, outputs[:num_fwd_outputs])
    if not bound:
        return
    for node in forward:
        if node in bound or any(_call(parent) in bound for parent in node.all_input_nodes):
            node.meta[effects.PINNED] = True
    _copy_for_backward(module, bound, set(forward))


def _policy(node: fx.Node) -> str:
    policy = node.meta.get("recompute")
    return policy.name if isinstance(policy, CheckpointPolicy) else ""


def _call(node: fx.Node) -> fx.Node:
    """The call behind an element of a multi-output call."""
    while node.target is operator.getitem:
        parent = node.args[0]
        assert isinstance(parent, fx.Node)
        node = parent
    return node


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """The calls, and the output, that read a call's outputs."""
    for user in node.users:
        if user.target is operator.getitem:
            yield from _readers(user)
        else:
            yield user


def _viewed(node: fx.Node) -> fx.Node | None:
    """The call that a view is a view of."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    if not isinstance(value, torch.Tensor):
        return None
    for parent in node.all_input_nodes:
        base = parent.meta.get("val")
        if isinstance(base, torch.Tensor) and storage_key(base) == storage_key(value):
            return _call(parent)
    return None


def _bound(forward: list[fx.Node], given: set[fx.Node], binding: Binding, replay: bool) -> set[fx.Node]:
    """Calls whose values must not be held from the forward to the backward pass. A view shares its base's fate."""
    bound: set[fx.Node] = set()
    for node in forward:
        once = effects.runs_once(node) or node.meta.get(effects.PINNED) or (effects.is_random(node) and not replay)
        base = _viewed(node)
        if once:
            continue
        wanted = _policy(node) in _RECOMPUTE[binding]
        follows = _policy(node) == "PREFER_RECOMPUTE" and any(_call(parent) in bound for parent in node.all_input_nodes)
        if base in bound or ((base is None or base.op != "call_function") and (wanted or follows)):
            bound.add(node)
    stack = [node for node in bound if _handed_on(node, given)]
    kept: set[fx.Node] = set()
    while stack:
        node = stack.pop()
        if node in kept:
            continue
        kept.add(node)
        base = _viewed(node)
        if base in bound:
            stack.append(base)
        stack.extend(user for user in _readers(node) if user in bound and _viewed(user) is node)
    for node in kept:
        node.meta[effects.PINNED] = True
    return bound - kept


def _handed_on(node: fx.Node, given: set[fx.Node]) -> bool:
    """Whether the caller or a later region gets it."""
    if node in given or any(_call(output) is node for output in given):
        return True
    region = node.meta.get("ac_graph_id")
    if region is None:
        return False
    return any("RECOMPUTE" in _policy(user) and user.meta.get("ac_graph_id", region) > region for user in _readers(node))


def _movable(node: fx.Node) -> bool:
    values = [value for value in tensors(node.meta.get("val")) if value is not None]
    return bool(values) and all(value.layout == torch.strided for value in values)


def _with_views(forward: list[fx.Node], nodes: set[fx.Node]) -> set[fx.Node]:
    """The calls and all views of what they give."""
    found = set(nodes)
    for node in forward:
        if _viewed(node) in found:
            found.add(node)
    return found


def _left(graph: fx.Graph, node: fx.Node, store: Store) -> tuple[fx.Node, bool]:
    """A call after a call that moves what that gives. Returns it, and whether that is a single tensor."""
    elements = {element.args[1]: element for element in _elements(node)}
    single = isinstance(node.meta["val"], torch.Tensor)
    values = [node] if single else [elements.get(i) for i in range(len(node.meta["val"]))]
    order = list(graph.nodes)
    with graph.inserting_after(max([node, *elements.values()], key=order.index)):
        ticket = graph.call_function(calls.leave, (store, *values))  # type: ignore[arg-type]
    with torch._guards.detect_fake_mode(node.meta["val"]):  # type: ignore[union-attr]
        ticket.meta["val"] = torch.empty(1, dtype=torch.int64)
    ticket.meta[effects.ONCE], ticket.meta["partitioner_tag"] = True, "is_forward"
    return ticket, single


def _copy_for_backward(module: fx.GraphModule, bound: set[fx.Node], forward: set[fx.Node], moved: set[fx.Node] = frozenset(),  # type: ignore[assignment]
                       store: Store | None = None) -> None:  # fmt: skip
    """`moved`: calls whose values are brought back instead."""
    graph = module.graph
    place = {node: i for i, node in enumerate(graph.nodes)}
    # Where each bound call is first needed in the backward pass: by a call there, or by a copy of one that reads it.
    needed: dict[fx.Node, int] = {}
    for node in sorted(bound, key=lambda n: place[n], reverse=True):
        places = [needed.get(user, len(place)) if user in forward else place[user] for user in _readers(node)]
        first = min(places, default=len(place))
        if first < len(place):
            needed[node] = first
    at = list(graph.nodes)
    copies: dict[fx.Node, fx.Node] = {}

    def copied(node: fx.Node) -> fx.Node:
        return copies.get(node, node)

    for node in sorted(needed, key=lambda n: place[n]):
        elements = _elements(node)
        for original in [node, *elements]:
            args, kwargs = fx.map_arg((original.args, original.kwargs), copied)
            target = original.target
            if original in moved and store is not None:
                ticket, single = _left(graph, original, store)
                forward.add(ticket)
                target, args, kwargs = calls.come_back, (store, ticket, single), {}  # type: ignore[assignment]
            with graph.inserting_before(at[needed[node]]):
                copy = graph.create_node(original.op, target, args, kwargs, name=f"{original.name}_again")
            copy.meta = dict(original.meta)
            copy.meta.pop(effects.PINNED, None)
            copy.meta["partitioner_tag"] = "is_backward"
            copies[original] = copy
        if node not in moved:
            copies[node].meta[effects.COPY_OF] = node
        _fresh_values(copies[node], [copies[element] for element in elements])
    for original, copy in copies.items():
        for user in list(original.users):
            if user not in forward and user not in copies:
                user.replace_input_with(original, copy)


def _elements(node: fx.Node) -> list[fx.Node]:
    found: list[fx.Node] = []
    for user in node.users:
        if user.target is operator.getitem:
            found += [user, *_elements(user)]
    return found


def _like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _fresh_values(copy: fx.Node, elements: list[fx.Node]) -> None:
    """Fake outputs of its own for a copied call: storages are told apart by them."""
    args, kwargs = fx.map_arg((copy.args, copy.kwargs), lambda n: n.meta.get("val"))
    mode = torch._guards.detect_fake_mode((args, copy.meta.get("val")))
    assert mode is not None
    assert callable(copy.target)
    with mode:
        if copy.target is calls.come_back:
            copy.meta["val"] = tree_map_only(torch.Tensor, _like, copy.meta["val"])
        else:
            copy.meta["val"] = copy.target(*args, **kwargs)  # type: ignore[arg-type]
    for element in elements:
        parent, index = element.args
        assert isinstance(parent, fx.Node)
        element.meta["val"] = parent.meta["val"][index]
