# SPDX-License-Identifier: Apache-2.0
"""Numbers that a model takes out of its tensors, with `.item()` or in a check of its data, and the calls that read them.

PyTorch traces such a number as a symbol. Its value is another one in every step, though what was checked of it may have told the
tracer which one it has to be. So it is taken out where it is read: each call with such numbers among its arguments becomes one call
with the tensors that they come from, which computes them first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ...errors import UnsupportedError
from ..fx import effects, symbols
from ..user_code import place

_aten = torch.ops.aten

#: Calls that ask a tensor for its layout, which is known when the graph is planned.
_LAYOUT = {getattr(_aten, name) for name in ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "size", "stride", "numel")}


class Read:
    """A call, and the calls before it that take its numbers out of tensors."""

    def __init__(self, target: Any, graph: fx.Graph, where: str) -> None:
        """`where`: the place of the call in the model, for what is wrong with the data."""
        self.where = where
        self.target, self.__name__ = target, f"read_{getattr(target, '__name__', 'numbers').replace('.', '_')}"
        self._run = fx.GraphModule({}, graph)

    def __call__(self, *operands: Any) -> Any:
        try:
            return self._run.forward(*operands)
        except RuntimeError as error:
            error.args = (f"{error}{self.where}", *error.args[1:])
            raise


def _from_data(graph: fx.Graph) -> set[fx.Node]:
    """The numbers that tensors' values decide."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if symbols.is_number(node) and any(_gives(parent, node, found) for parent in node.all_input_nodes):
            found.add(node)
    return found


def _gives(parent: fx.Node, node: fx.Node, found: set[fx.Node]) -> bool:
    if symbols.is_number(parent) or symbols.is_symbol(parent):
        return parent in found
    return getattr(node.target, "overloadpacket", None) not in _LAYOUT


def _place(node: fx.Node) -> str:
    return place(str(node.meta.get("stack_trace") or ""))


def fold(module: fx.GraphModule, *, generated: bool) -> None:
    """Rewrites a joint graph so that no call has such a number among its arguments. UnsupportedError where the model returns one, and for
    `generated` code, which has no such calls. O(nodes and what is read)."""
    graph = module.graph
    numbers = _from_data(graph)
    if not numbers:
        return
    readers = [node for node in graph.nodes if node not in numbers and any(parent in numbers for parent in node.all_input_nodes)]
    for node in readers:
        if node.op != "call_function" or generated:
            first = next(parent for parent in node.all_input_nodes if parent in numbers)
            why = 'compiler="inductor" does not plan it' if generated else "the model returns it"
            raise UnsupportedError(f"a number taken out of a tensor cannot be planned{_place(first)}: {why}. Keep it a tensor, without .item()")
        _replace(graph, node, numbers)
    for node in reversed(list(graph.nodes)):
        if node in numbers and not node.users:
            graph.erase_node(node)


def _replace(graph: fx.Graph, node: fx.Node, numbers: set[fx.Node]) -> None:
    calls: dict[fx.Node, None] = {}
    operands: dict[fx.Node, None] = {}

    def collect(reader: fx.Node) -> None:
        for parent in reader.all_input_nodes:
            if parent not in numbers:
                operands[parent] = None
            elif parent not in calls:
                collect(parent)
        calls[reader] = None

    collect(node)
    inner = fx.Graph()
    values = {operand: inner.placeholder(f"x{i}") for i, operand in enumerate(operands)}
    for call in calls:
        values[call] = inner.node_copy(call, values.__getitem__)
    inner.output(values[node])
    with graph.inserting_before(node):
        new = graph.call_function(Read(node.target, inner, _place(node)), tuple(operands))
    new.meta = dict(node.meta)
    if effects.runs_once(node) or effects.is_random(node) or not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
        new.meta[effects.ONCE] = True
    node.replace_all_uses_with(new)
    graph.erase_node(node)
