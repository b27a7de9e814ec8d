# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols in a traced graph: their values while it is planned, and the calls that compute them when it runs.

A graph that PyTorch traced with dynamic shapes has numbers among its inputs, calls that compute other numbers of them, and tensors
whose sizes are expressions in symbols. It is planned at one value for each symbol. What is asked of sizes is asked at that value,
but whether two layouts are the same is asked of the expressions, since it must hold for every value. Nothing here adds a guard.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from ...errors import UnsupportedError

#: The kinds of numbers that a traced graph computes with.
NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_aten = torch.ops.aten


def expression(number: Any) -> Any:
    """Of a number, in sympy; of a plain one, itself."""
    return number.node.expr if isinstance(number, NUMBERS) and hasattr(number.node, "expr") else number


class Values:
    """A value for each symbol, and for the expressions in them."""

    def __init__(self, values: dict[Any, int]) -> None:
        import sympy

        self.values = {symbol: sympy.Integer(value) for symbol, value in values.items()}
        self._known: dict[Any, Any] = {}

    def of(self, number: Any) -> Any:
        """UnsupportedError where a symbol has none: the size depends on data."""
        found = expression(number)
        if isinstance(found, (int, float, bool)):
            return found
        if found not in self._known:
            value = found.xreplace(self.values)
            if value.free_symbols:
                raise UnsupportedError(f"a size depends on data ({found}), so that no bytes are known: torch.where with a mask keeps it fixed")
            plain = bool(value) if isinstance(number, torch.SymBool) else float(value) if isinstance(number, torch.SymFloat) else int(value)
            self._known[found] = plain
        return self._known[found]


_active: contextvars.ContextVar[Values | None] = contextvars.ContextVar("checkmate_sizes", default=None)


@contextlib.contextmanager
def at(values: Values | None) -> Iterator[None]:
    """While this lasts, symbols have these values; None where there are no symbols."""
    token = _active.set(values)
    try:
        yield
    finally:
        _active.reset(token)


def number(size: Any) -> int:
    """A size as an integer. UnsupportedError for a symbol without a value."""
    if isinstance(size, int):
        return size
    values = _active.get()
    if values is None:
        raise UnsupportedError(f"a tensor's size is not known when the graph is planned ({size}): it depends on data")
    return int(values.of(size))


def symbolic(tensor: torch.Tensor) -> bool:
    """Whether any size, stride or the offset is no plain integer."""
    return not all(isinstance(size, int) for size in _layout(tensor))


def concrete(value: Any) -> Any:
    """The value, with tensors and numbers that have the sizes they have now in place of those with symbols."""
    values = _active.get()
    if values is None:
        return value

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, NUMBERS):
            return values.of(leaf)
        if not isinstance(leaf, torch.Tensor) or not symbolic(leaf):
            return leaf
        shape, stride = ([values.of(size) for size in sizes] for sizes in (leaf.shape, leaf.stride()))
        with torch._guards.detect_fake_mode(leaf) or contextlib.nullcontext():
            return torch.empty_strided(shape, stride, dtype=leaf.dtype, device=leaf.device)

    return tree_map(plain, value)


def same(a: Any, b: Any) -> bool:
    """Whether two sizes, or tuples of them, are the same whatever their symbols are."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    x, y = expression(a), expression(b)
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    return bool(x == y) or _equal(x, y)


@functools.lru_cache(4096)
def _equal(x: Any, y: Any) -> bool:
    import sympy

    return bool(sympy.expand(x - y) == 0)


def is_symbol(node: object) -> bool:
    """Whether it is an input of a graph that is a number."""
    return isinstance(node, fx.Node) and node.op == "placeholder" and isinstance(node.meta.get("val"), NUMBERS)


def is_number(node: object) -> bool:
    """Whether it is a call that computes a number."""
    return isinstance(node, fx.Node) and node.op == "call_function" and isinstance(node.meta.get("val"), (*NUMBERS, int, float, bool))


def inputs_of(node: fx.Node) -> list[fx.Node]:
    """The graph's inputs that a number is computed from."""
    found: dict[fx.Node, None] = {}
    stack, seen = [node], {node}
    while stack:
        at = stack.pop()
        if is_symbol(at):
            found[at] = None
        for parent in at.all_input_nodes:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return list(found)


def materialize(module: fx.GraphModule) -> None:
    """Rewrites a graph so that every number is computed from inputs that are numbers: a tensor's size is not taken of the tensor,
    which need not be there. O(nodes)."""
    graph = module.graph
    for node in list(graph.nodes):
        if is_number(node) and any(not is_number(parent) and not is_symbol(parent) for parent in node.all_input_nodes):
            (new,) = arguments(graph, [node.meta["val"]])
            if isinstance(new, fx.Node):
                node.replace_all_uses_with(new)
            else:
                _replace_by_constant(node, new)
            graph.erase_node(node)


def arguments(graph: fx.Graph, sizes: Iterable[Any]) -> list[Any]:
    """Sizes as arguments of a call: calls that compute those with symbols, at the beginning of the graph."""
    return [_computed(graph, size) if isinstance(size, NUMBERS) else size for size in sizes]


def _computed(graph: fx.Graph, size: Any) -> Any:
    wanted = expression(size)
    known: dict[Any, fx.Node] = {}
    for node in graph.find_nodes(op="placeholder"):
        if is_symbol(node):
            known.setdefault(expression(node.meta["val"]), node)
    if wanted in known:
        return known[wanted]
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        return _compute(graph, wanted, known)


def _replace_by_constant(node: fx.Node, value: Any) -> None:
    for user in list(node.users):
        changed: Any = fx.map_arg((user.args, user.kwargs), lambda leaf: value if leaf is node else leaf)
        user.args, user.kwargs = changed


def _compute(graph: fx.Graph, wanted: Any, known: dict[Any, Any]) -> Any:
    """The node, or the plain number, that has an expression's value. Integers are exact, whatever the order of operations."""
    import sympy
    from torch.utils._sympy.interp import sympy_interp
    from torch.utils._sympy.reference import PythonReferenceAnalysis

    if isinstance(wanted, int) or wanted.is_number:
        return int(wanted)
    missing = [symbol for symbol in wanted.free_symbols if not isinstance(known.get(symbol), fx.Node)]
    if missing or not wanted.is_integer:
        raise UnsupportedError(f"a size is {wanted}, which is not to be had of the sizes that the model is called with")
    tracer = fx.proxy.GraphAppendingTracer(graph)
    environment = {symbol: fx.Proxy(known[symbol], tracer) for symbol in wanted.free_symbols}
    before = set(graph.nodes)
    found = sympy_interp(PythonReferenceAnalysis, environment, sympy.sympify(wanted))
    for node in graph.nodes:
        if node not in before:
            target: Any = node.target
            arguments, named = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            node.meta["val"] = target(*arguments, **named)
    return found.node if isinstance(found, fx.Proxy) else int(found)


class Written:
    """Sizes as text in a function that is made of a graph. `names`: of the graph's nodes there."""

    def __init__(self, graph: fx.Graph, names: dict[fx.Node, str]) -> None:
        self._known: dict[Any, str] = {}
        for node in graph.find_nodes(op="placeholder"):
            if is_symbol(node) and getattr(expression(node.meta["val"]), "is_Symbol", False):
                self._known.setdefault(expression(node.meta["val"]), names[node])
        self._symbols = set(self._known)
        self.lines: list[str] = []  # that compute what the texts name

    def can(self, tensor: torch.Tensor) -> bool:
        """Whether sizes, strides and offset can be written: they are products and sums of numbers that the function is given."""
        return all(self._can(expression(size)) for size in _layout(tensor))

    def _can(self, size: Any) -> bool:
        if isinstance(size, int):
            return True
        plain = all(e.is_Symbol or e.is_Integer or e.is_Add or e.is_Mul for e in _parts(size))
        return plain and size.free_symbols <= self._symbols

    def size(self, size: Any) -> str:
        found = expression(size)
        if isinstance(found, int) or found.is_Integer:
            return str(int(found))
        if found not in self._known:
            text = (" + " if found.is_Add else " * ").join(self.size(part) for part in found.args)
            self._known[found] = f"n{len(self.lines)}"
            self.lines.append(f"{self._known[found]} = {text}")
        return self._known[found]

    def sizes(self, sizes: Iterable[Any]) -> str:
        return "(" + "".join(self.size(size) + ", " for size in sizes) + ")"


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.shape, *tensor.stride(), tensor.storage_offset())


def _parts(e: Any) -> Iterator[Any]:
    yield e
    for part in e.args:
        yield from _parts(part)
