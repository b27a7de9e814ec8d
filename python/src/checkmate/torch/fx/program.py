# SPDX-License-Identifier: Apache-2.0
"""A graph as a Python function that gives up every value at its last use, its arguments included.

The arguments come as one list, which is emptied ("boxed" calls): else the caller's references would keep the tensors
saved for the backward pass alive until its end.

Half of a graph's calls only look at a tensor in another way. PyTorch's dispatcher takes longer over such a call than making
the view does, so views are made from sizes and strides known beforehand, where the tensor's own strides are those the graph
was traced with; else by the calls themselves. A view that only other views use is left out: they are made from its base.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from .dataflow import storage_key
from .symbols import Written, is_symbol

#: Views of views that are made from one base. Python's parser has a limit for calls in calls.
_CHAIN = 32

#: Calls whose result only autograd can tell from their operand.
_SAME = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}


def _inputs(node: fx.Node) -> list[fx.Node]:
    return node.all_input_nodes


def last_uses(graph: fx.Graph, reads: Callable[[fx.Node], list[fx.Node]] = _inputs) -> dict[fx.Node, list[fx.Node]]:
    """For each node, what is used by it for the last time; a value that nothing uses dies where it is made."""
    dying: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        for value in [*reads(node), node]:
            if value not in seen and node.op != "output":
                dying.setdefault(node, []).append(value)
            seen.add(value)
    return dying


def _is_view(node: fx.Node, sizes: Written) -> bool:
    """Whether the call gives its first operand's storage with other sizes, strides and offset, which can be written, and does
    nothing else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return False
    if not node.args or not isinstance(node.args[0], fx.Node) or node.all_input_nodes != [node.args[0]]:
        return False
    base, value = node.args[0].meta.get("val"), node.meta.get("val")
    if not isinstance(base, torch.Tensor) or not isinstance(value, torch.Tensor) or {base.layout, value.layout} != {torch.strided}:
        return False
    if not (sizes.can(base) and sizes.can(value)):
        return False
    same = base.dtype == value.dtype and base.is_conj() == value.is_conj() and base.is_neg() == value.is_neg()
    return same and storage_key(base) == storage_key(value)


def _views(graph: fx.Graph, sizes: Written) -> set[fx.Node]:
    """The views to make without the dispatcher: autograd, which counts changes through views, must not see them. So those
    that leave the graph or are written to are not among them, nor are those behind them."""
    found: set[fx.Node] = set()
    seen: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        seen.update(_watched(node))
        if _is_view(node, sizes):
            if node in seen:
                seen.update(node.all_input_nodes)
            else:
                found.add(node)
    return found


def _watched(node: fx.Node) -> list[fx.Node]:
    """The operands that autograd may look at: those written to; all of what is no operator, such as the graph's output."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.all_input_nodes
    written: list[fx.Node] = []
    for i, argument in enumerate(target._schema.arguments):
        if argument.is_write:
            fx.map_arg(node.args[i] if i < len(node.args) else node.kwargs.get(argument.name), written.append)
    return written


def compile_boxed(module: fx.GraphModule) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A function of one list. O(nodes)."""
    constants: dict[str, Any] = {}
    names: dict[fx.Node, str] = {}

    def constant(value: object) -> str:
        name = f"c{len(constants)}"
        constants[name] = value
        return name

    def text(value: object) -> str:
        if isinstance(value, fx.Node):
            return names[value]
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if isinstance(value, tuple) and type(value) is tuple:
            return "(" + "".join(text(v) + ", " for v in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(text(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
        return constant(value)

    def call(node: fx.Node, first: str | None = None) -> str:
        arguments = [text(a) for a in node.args] + [f"{k}={text(v)}" for k, v in node.kwargs.items()]
        if first is not None:
            arguments[0] = first
        # What an OpOverload's Python call hands on to; TorchBind's, of a class of its own, looks at its arguments first.
        # A view that is read only may be of a tensor whose kernel gave it other strides than were traced: eager mode copies it there.
        asked = torch.ops.aten.reshape.default if node.target is torch.ops.aten.view.default and node in views else node.target
        target = asked._op if type(asked) is torch._ops.OpOverload else asked
        return f"{constant(target)}({', '.join(arguments)})"

    def calls(node: fx.Node) -> str:
        """The calls from a view's base to the view."""
        parent = node.args[0]
        return call(node, calls(parent) if parent in skipped else None)  # type: ignore[arg-type]

    def view(node: fx.Node) -> str:
        base, old, new = names[bases[node]], bases[node].meta["val"], node.meta["val"]
        if node.target in _SAME and node.args[0] is bases[node]:
            return base
        offset = sizes.size(new.storage_offset() - old.storage_offset())
        made = f"{reinterpret}({base}, {sizes.sizes(new.shape)}, {sizes.sizes(new.stride())}, {offset})"
        return f"{made} if {base}.stride() == {sizes.sizes(old.stride())} else {calls(node)}"

    for i, node in enumerate(module.graph.nodes):
        names[node] = f"v{i}"
    sizes = Written(module.graph, names)
    views = _views(module.graph, sizes)
    bases: dict[fx.Node, fx.Node] = {}
    skipped: dict[fx.Node, int] = {}  # how far from the base
    for node in module.graph.nodes:
        if node in views:
            parent = node.args[0]
            bases[node] = bases[parent] if parent in skipped else parent
            links = skipped.get(parent, 0) + 1
            if links < _CHAIN and all(user in views for user in node.users):
                skipped[node] = links
    reinterpret = constant(_reinterpret_tensor)

    def reads(node: fx.Node) -> list[fx.Node]:
        return [] if node in skipped else [bases[node]] if node in bases else node.all_input_nodes

    dying = last_uses(module.graph, reads)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    lines = ["def run(arguments):"]
    if inputs:
        lines.append("    " + "".join(names[n] + ", " for n in inputs) + "= arguments")
    lines.append("    arguments.clear()")
    beginning = len(lines)
    for node in module.graph.nodes:
        if node in skipped:
            continue
        if node in views:
            lines.append(f"    {names[node]} = {view(node)}")
        elif node.target is getitem:
            lines.append(f"    {names[node]} = {text(node.args[0])}[{text(node.args[1])}]")
        elif node.op == "call_function":
            lines.append(f"    {names[node]} = {call(node)}")
        elif node.op == "get_attr":
            owner: Any = module
            for part in str(node.target).split("."):
                owner = getattr(owner, part)
            lines.append(f"    {names[node]} = {constant(owner)}")
        elif node.op == "output":
            lines.append(f"    return {text(tuple(node.args[0]))}")
        dead = [names[n] for n in dying.get(node, ()) if not is_symbol(n)]  # numbers are named in sizes of views, too
        if dead:
            lines.append("    del " + ", ".join(dead))
    lines[beginning:beginning] = [f"    {line}" for line in sizes.lines]
    exec(compile("\n".join(lines), "<checkmate schedule>", "exec"), constants)  # noqa: S102 - text made above from the graph
    run: Callable[[list[Any]], tuple[Any, ...]] = constants["run"]
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
