# SPDX-License-Identifier: Apache-2.0
"""One plan for a range of sizes, planned and proven at the range's upper end.

PyTorch traces with dynamic shapes, so that sizes are expressions in symbols. Each symbol whose value a tensor's bytes depend on has
an upper end. The graph is planned there, with the verifier and the peak of what would run. If the bytes of every tensor are shown to
be non-decreasing in every symbol, then the same calls need at most as much at any smaller size: what is live at each call is
the same set of tensors. That is shown from the structure of the expressions, or by trying every value. What kernels take inside is
measured at the upper end, and assumed to be no more below it.

A guard on each of these symbols keeps larger sizes out: PyTorch traces them anew, for a plan of their own. And before a size runs
for the first time, the peak of what will run is computed for it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from ...errors import CheckmateError, InfeasibleError, UnsupportedError
from ..fx import places, symbols
from ..fx.dataflow import Joint, is_tangent, storage_bytes, storage_key, tensors
from ..fx.partition import Halves
from . import peak

#: What `dynamic=` takes: the largest size of each dimension of each argument by name.
UpperEnds = Mapping[str, Mapping[int, int]]

#: Combinations of sizes that are tried one by one where structure does not show that bytes grow.
_TRIED = 50_000


def check(dynamic: object) -> None:
    """TypeError or ValueError for what `dynamic=` does not take."""
    if isinstance(dynamic, bool):
        return
    if not isinstance(dynamic, Mapping) or not dynamic:
        raise TypeError(f'dynamic must be True, False, or the largest sizes such as {{"input_ids": {{1: 512}}}}, not {dynamic!r}')
    for name, largest in dynamic.items():
        whole = isinstance(name, str) and isinstance(largest, Mapping) and largest
        if not whole or not all(type(dim) is int and type(size) is int for dim, size in largest.items()):
            raise TypeError(f"dynamic[{name!r}] must be the largest size of each dimension, such as {{1: 512}}, not {largest!r}")
        for dim, size in largest.items():
            if dim < 0 or size < 2:
                raise ValueError(f"dynamic[{name!r}][{dim}] = {size}: dimensions are counted from 0, and a range ends at 2 or more")


def arguments_of(model: object) -> list[inspect.Parameter]:
    """Of a module's or a function's call; none where Python does not know them, as of a function written in C."""
    try:
        return list(inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def marker(dynamic: object, model: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], None] | None:
    """Marks the dimensions that `dynamic=` names in the arguments of a call, as torch._dynamo.mark_dynamic does; None where there is
    nothing to mark. Sizes 0 and 1, for which PyTorch traces by themselves, are left alone. ValueError for names that the model's
    arguments do not have."""
    if not isinstance(dynamic, Mapping):
        return None
    wanted = {name: tuple(largest) for name, largest in dynamic.items()}
    parameters = arguments_of(model)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    known = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
    for name in wanted:
        if known and name not in known and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            raise ValueError(f"dynamic= names {name!r}, but the model has no argument {name!r}: there are {', '.join(map(repr, sorted(known)))}")
    at = {name: names.index(name) for name in wanted if name in names}

    def mark(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, dims in wanted.items():
            value = kwargs[name] if name in kwargs else args[at[name]] if at.get(name, len(args)) < len(args) else None
            if value is None:
                continue
            if not isinstance(value, torch.Tensor) or any(dim >= value.dim() for dim in dims):
                what = f"{value.dim()} dimensions" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
                raise ValueError(f"dynamic[{name!r}] names dimension {max(dims)}, but '{name}' is {what}: name dimensions of tensors")
            for dim in dims:
                if value.shape[dim] > 1:
                    torch._dynamo.mark_dynamic(value, dim)

    return mark


@dataclass(frozen=True)
class Size:
    """A number among the inputs of Dynamo's graph, or a size of a tensor there: whose, which dimension (-1: none), what was said of
    its largest value."""

    argument: str
    dim: int
    value: Any
    most: int | None = None

    def __str__(self) -> str:
        return f"dimension {self.dim} of {self.argument}" if self.dim >= 0 else f"the number {self.argument}"


def sizes(module: fx.GraphModule, inputs: list[Any], name_of: Callable[[fx.Node], str], dynamic: object) -> list[Size]:
    """Those that are symbols. `name_of`: the user's name, in quotes, for an input."""
    found: list[Size] = []
    given = dynamic if isinstance(dynamic, Mapping) else {}
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, real in zip(nodes, inputs, strict=True):
        value = node.meta.get("example_value")
        if isinstance(value, symbols.NUMBERS):
            found.append(Size(name_of(node), -1, value))
        elif isinstance(value, torch.Tensor) and symbols.symbolic(value):
            argument = name_of(node)
            largest = given.get(argument.strip("'"), {})
            marked = {r.dim: r.max for r in getattr(real, "_dynamo_dynamic_range", ()) if r.max is not None}
            found += [Size(argument, i, size, marked.get(i, largest.get(i))) for i, size in enumerate(value.shape) if not isinstance(size, int)]
    return found


@dataclass(frozen=True)
class Range:
    """Sizes that are the same symbol, and the values that it has been planned for."""

    names: tuple[str, ...]
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{' = '.join(self.names)} from {self.lower} to {self.upper}"


class Ranges:
    """The symbols of one joint graph, each with its range."""

    def __init__(self, module: fx.GraphModule, found: list[Size]) -> None:
        self.lower: dict[Any, int] = {}
        self.upper: dict[Any, int] = {}
        self.now: dict[Any, int] = {}
        self.proof: Proof | None = None
        self._env: Any = None
        self._names: dict[Any, list[str]] = {}
        self._bound: dict[Any, None] = {}
        self._most: dict[Any, int] = {}
        for size in sorted(found, key=lambda size: size.dim < 0):  # dimensions have names that users know
            symbol = symbols.expression(size.value)
            names = self._names.setdefault(symbol, [])
            if size.dim >= 0 or not names:
                names.append(str(size))
            if size.most is not None:
                self._most[symbol] = min(size.most, self._most.get(symbol, size.most))
        for number in self._numbers(module):
            self._env = number.node.shape_env
            for symbol in symbols.expression(number).free_symbols:
                self._add(symbol, number)

    @staticmethod
    def _numbers(module: fx.GraphModule) -> Iterator[Any]:
        """Numbers and sizes of a graph that are no constants."""
        for node in module.graph.nodes:
            values = [node.meta.get("val"), *(t.untyped_storage().nbytes() for t in tensors(node.meta.get("val")) if t is not None)]
            yield from (v for v in values if isinstance(v, symbols.NUMBERS) and getattr(symbols.expression(v), "free_symbols", None))

    def _add(self, symbol: Any, number: Any) -> None:
        if symbol in self.now:
            return
        known = getattr(self._env, "backed_var_to_val", None) or self._env.var_to_val
        if symbol not in known:
            raise UnsupportedError(f"a size depends on data ({number}), so that bytes are not known: torch.where with a mask keeps it fixed")
        if not symbol.is_integer:
            raise UnsupportedError(f"{self.describe(symbol)} that the model is called with is a symbol ({number}): give it as a tensor")
        span = self._env.var_to_range[symbol]
        self.now[symbol] = int(known[symbol])
        self.lower[symbol] = int(span.lower) if getattr(span.lower, "is_Integer", False) else 0
        possible = int(span.upper) if getattr(span.upper, "is_Integer", False) else math.inf
        self.upper[symbol] = int(max(self.now[symbol], min(self._most.get(symbol, self.now[symbol]), possible)))

    def top(self) -> symbols.Values:
        """The upper ends."""
        return symbols.Values(self.upper)

    def bind(self, nodes: Iterable[fx.Node]) -> None:
        """Guards the upper ends of the symbols that bytes of these nodes' values depend on, so that larger sizes are traced anew.
        UnsupportedError for bytes that are not shown to be non-decreasing."""
        seen: set[Any] = set()
        for node in nodes:
            for value in tensors(node.meta.get("val")):
                size = symbols.expression(value.untyped_storage().nbytes()) if value is not None else 0
                if isinstance(size, int) or size in seen:
                    continue
                seen.add(size)
                self._require_growth(node, size)
        import sympy

        for symbol in sorted(set().union(*(size.free_symbols for size in seen)) - set(self._bound), key=str):
            self._bound[symbol] = None
            self._env.evaluate_expr(sympy.Le(symbol, self.upper[symbol]))  # which adds a guard

    def _require_growth(self, node: fx.Node, size: Any) -> None:
        if not grows(size, self.lower, self.upper):
            where = f" ({place})" if (place := places.source_of(node)) else ""
            named = "; ".join(f"{symbol}: {self.describe(symbol)}" for symbol in sorted(size.free_symbols, key=str))
            raise UnsupportedError(
                f"one plan cannot be proven for a range of sizes: the result of '{node.name}'{where} has {size} bytes, which are not shown to "
                f"grow with the sizes ({named}). Plan each size by itself: dynamic=False, with shapes= for many"
            )

    def present_bytes(self, model: Joint) -> int:
        """Of the inputs of the call under way."""
        with symbols.at(symbols.Values(self.now)):
            return input_bytes(model)

    def prove(self, model: Joint, halves: Halves, workspace: dict[str, int], limit: int, peak_bytes: int) -> tuple[Range, ...]:
        """The ranges for which the run, of this peak at their upper ends, stays within the limit. CheckmateError where the peak of the
        call under way is above that, which would be a bug."""
        self.bind([*halves.forward.graph.nodes, *halves.backward.graph.nodes])
        self.proof = Proof(model, halves, workspace, limit)
        now = self.proof.peak_at(self.now)
        if not now <= peak_bytes <= limit:
            raise CheckmateError(f"the peak is {now:,} bytes at the sizes of this call, and {peak_bytes:,} at the upper ends of {self}")
        return self.listed()

    def __str__(self) -> str:
        return "; ".join(map(str, self.listed()))

    def named(self, error: InfeasibleError) -> InfeasibleError:
        """The error, with the sizes that it is about."""
        largest = ", ".join(f"{' = '.join(r.names)} = {r.upper}" for r in self.listed())
        return InfeasibleError(f"{error} (planned for {largest}, the upper end of its range)", **error.facts())

    def describe(self, symbol: Any) -> str:
        return str(self._range(symbol)) if symbol in self.now else " = ".join(self._names.get(symbol, [str(symbol)]))

    def _range(self, symbol: Any) -> Range:
        names = self._names.get(symbol) or [str(getattr(source, "name", symbol)) for source in self._env.var_to_sources[symbol][:1]]
        return Range(tuple(dict.fromkeys(names)), self.lower[symbol], self.upper[symbol])

    def listed(self) -> tuple[Range, ...]:
        """The ranges that bytes depend on."""
        return tuple(map(self._range, self._bound))

    def places_in(self, inputs: list[Any]) -> dict[Any, int]:
        """Where each symbol stands among the inputs of Dynamo's graph."""
        found: dict[Any, int] = {}
        for i, value in enumerate(inputs):
            if isinstance(value, torch.SymInt) and symbols.expression(value) in self.now:
                found.setdefault(symbols.expression(value), i)
        return found


def _reversed(direction: int | None) -> int | None:
    return None if direction is None else -direction


def _together(directions: Iterable[int | None]) -> int | None:
    """Of what has parts of these directions, and grows if each of them does."""
    found = set(directions) - {0}
    return None if None in found or len(found) > 1 else found.pop() if found else 0


def grows(expression: Any, lower: Mapping[Any, int], upper: Mapping[Any, int]) -> bool:
    """Whether an integer expression is shown to be non-decreasing in each of its symbols, whose least and largest values these
    are: by its structure, or else by trying all values where these are few."""
    import sympy

    structure = _Structure(lower, upper)
    if any(structure.direction(form) in (0, 1) for form in (expression, sympy.expand(expression))):
        return True
    free = sorted(expression.free_symbols, key=str)
    if math.prod(max(0, upper[s] - lower[s]) + 1 for s in free) > _TRIED:
        return False
    spans = [map(sympy.Integer, range(lower[s], upper[s] + 1)) for s in free]
    at = {values: int(expression.xreplace(dict(zip(free, values, strict=True)))) for values in itertools.product(*spans)}
    following = ((v, (*v[:i], v[i] + 1, *v[i + 1 :])) for v in at for i in range(len(v)))
    return all(at[a] <= at[b] for a, b in following if b in at)


class _Structure:
    """In which direction an expression goes when its symbols grow, by its structure: 1, -1, 0 where it is constant, or None."""

    def __init__(self, lower: Mapping[Any, int], upper: Mapping[Any, int]) -> None:
        import sympy

        self.lower, self.upper = ({symbol: sympy.Integer(end) for symbol, end in ends.items()} for ends in (lower, upper))

    def direction(self, e: Any) -> int | None:
        if not getattr(e, "free_symbols", None):
            return 0
        if e.is_Symbol:
            return 1
        kind = type(e).__name__
        if e.is_Add or kind in ("Max", "Min"):
            return _together(map(self.direction, e.args))
        if kind in ("CeilToInt", "FloorToInt", "TruncToInt", "ToFloat", "Identity", "ceiling", "floor"):
            return self.direction(e.args[0])
        if kind in ("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv"):
            numerator, divisor = e.args
            constant = not divisor.free_symbols and divisor > 0
            return self.direction(numerator) if constant else None
        if e.is_Mul:
            sign, rest = 1, []
            for factor in e.args:
                if factor.free_symbols:
                    rest.append(factor)
                elif factor < 0:
                    sign = -sign
            found = _together(map(self.direction, rest))
            if not all(self._not_negative(factor) for factor in rest) and len(rest) > 1:
                return None
            return found if sign > 0 else _reversed(found)
        if e.is_Pow and e.exp.is_Integer and e.exp > 0 and self._not_negative(e.base):
            return self.direction(e.base)
        return None

    def _not_negative(self, e: Any) -> bool:
        """At the corner where it is least."""
        direction = self.direction(e)
        return direction is not None and bool(e.xreplace(self.upper if direction < 0 else self.lower) >= 0)


@dataclass
class Proof:
    """What runs within `limit` bytes at the upper ends, and what it takes to compute its peak at any size."""

    model: Joint
    halves: Halves
    workspace: dict[str, int]
    limit: int

    def peak_at(self, values: Mapping[Any, int]) -> int:
        """Bytes, kernels' own as at the upper end."""
        with symbols.at(symbols.Values(dict(values))):
            return peak.peak_bytes(replace(self.model, input_bytes=input_bytes(self.model)), self.halves, self.workspace)


def input_bytes(model: Joint) -> int:
    """Of a graph's distinct inputs and constants."""
    nodes = [n for n in model.module.graph.nodes if n in model.tensor_of and n.op in ("placeholder", "get_attr") and not is_tangent(n)]
    values = [t for n in nodes for t in tensors(n.meta.get("val")) if t is not None]
    return sum({storage_key(t): storage_bytes(t) for t in values}.values())


def checked(run: Callable[..., Any], ranges: Ranges, inputs: list[Any], outside: Callable[[list[Any]], int]) -> Callable[..., Any]:
    """A compiled graph's function that computes the peak of each combination of sizes before its first run. `outside`: bytes of the
    call under way that the graph does not take, more than were there when it was planned. CheckmateError if it is above the budget."""
    proof, where = ranges.proof, ranges.places_in(inputs)
    assert proof is not None
    at = tuple(where.values())
    seen: set[tuple[int, ...]] = set()

    def call(*args: Any) -> Any:
        key = tuple([args[i] for i in at])
        if key not in seen:
            real = proof.peak_at(ranges.upper | dict(zip(where, key, strict=True))) + outside(list(args))
            if real > proof.limit:
                raise CheckmateError(f"this call needs {real:,} bytes, more than the budget of {proof.limit:,} that was proven for "
                                     f"{ranges}: tensors that the model is given and does not use are larger "
                                     "than in the first call. Call it with the largest first")  # fmt: skip
            seen.add(key)
        return run(*args)

    return call
