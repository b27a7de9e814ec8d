# SPDX-License-Identifier: Apache-2.0
"""A graph run as a function of one list gives what the graph's calls give, views included."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from checkmate.torch.fx.program import compile_boxed  # noqa: E402

aten = torch.ops.aten


class Calls(TorchDispatchMode):
    """What the dispatcher sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def _run(function: Callable[..., Any], traced: list[torch.Tensor], given: list[torch.Tensor] | None = None) -> tuple[list[torch.Tensor], list[Any]]:
    """The results for other tensors than it was traced with, and the calls that went through the dispatcher."""
    module = make_fx(function, tracing_mode="fake")(*traced)
    boxed = compile_boxed(module)
    with torch.no_grad(), Calls() as calls:
        results = boxed(list(given or traced))
    return list(results), calls.seen


def _chain(x: torch.Tensor) -> list[torch.Tensor]:
    part = aten.select.int(aten.permute.default(aten.view.default(x, [2, 3, 4]), [2, 0, 1]), 0, 1)
    return [aten.mul.Tensor(aten.unsqueeze.default(aten.expand.default(part, [2, 3]), -1), 2.0)]


def _equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(found, expected, strict=True))


def test_a_chain_of_views_is_made_from_its_base() -> None:
    x = torch.randn(6, 4)
    found, calls = _run(_chain, [x])
    assert _equal(found, _chain(x))
    assert calls == [aten.mul.Tensor]


def test_an_offset_of_the_base_counts() -> None:
    x = torch.randn(50)[7:31].view(6, 4)
    found, _ = _run(_chain, [torch.randn(6, 4)], [x])
    assert _equal(found, _chain(x))


def test_other_strides_than_traced() -> None:
    def flipped(x: torch.Tensor) -> list[torch.Tensor]:
        return [aten.mul.Tensor(aten.t.default(aten.t.default(aten.t.default(x))), 2.0)]

    x = torch.randn(4, 6).t()
    found, calls = _run(flipped, [torch.randn(6, 4)], [x])
    assert _equal(found, flipped(x))
    assert calls == [aten.t.default] * 3 + [aten.mul.Tensor]


def test_views_that_leave_or_are_written_to_are_pytorchs_own() -> None:
    def leaves(x: torch.Tensor) -> list[torch.Tensor]:
        return [aten.t.default(aten.view.default(x, [4, 6]))]

    x = torch.randn(6, 4)
    found, _ = _run(leaves, [x])
    assert found[0]._is_view() and found[0]._base is x

    def written(x: torch.Tensor) -> list[torch.Tensor]:
        return [aten.add_.Tensor(aten.t.default(x), 1.0)]

    version = x._version
    _run(written, [x.clone()], [x])
    assert x._version == version + 1


def test_detaching_takes_no_call() -> None:
    """Not even where the result is read by a call that writes to another operand, as threshold_backward.grad_input does."""

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        made = aten.mul.Tensor(y, 2.0)
        return [aten.add.out(made, aten.detach.default(x), out=made)]

    x, y = torch.randn(6, 4), torch.randn(6, 4)
    for given in ([x, y], [x.t().contiguous().t(), y]):
        found, calls = _run(function, [x, y], given)
        assert torch.equal(found[0], 2 * y + x)
        assert calls == [aten.mul.Tensor, aten.add.out]
    _, calls = _run(lambda x: [aten.detach.default(x)], [x])
    assert calls in ([aten.detach.default], [aten.alias.default])  # as PyTorch 2.15 traces it


def test_conjugation_is_not_a_view_to_leave_out() -> None:
    def conjugated(x: torch.Tensor) -> list[torch.Tensor]:
        return [aten.mul.Tensor(aten.t.default(aten._conj.default(x)), 2.0)]

    x = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(_run(conjugated, [x])[0][0], x.conj().t() * 2.0)


def test_a_chain_longer_than_python_can_nest() -> None:
    def long(x: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(301):
            x = aten.t.default(x)
        return [aten.mul.Tensor(x, 2.0)]

    x = torch.randn(3, 4)
    assert _equal(_run(long, [x])[0], long(x))


def test_a_base_dies_with_its_last_view() -> None:
    alive: list[bool] = []
    held: list[weakref.ref[Any]] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        alive.append(held[0]() is not None)
        return x + 1

    graph = torch.fx.Graph()
    shape = torch.empty(2, 3, device="meta")
    a, b = graph.placeholder("a"), graph.placeholder("b")
    between = graph.call_function(aten.t.default, (a,))
    first = graph.call_function(note, (b,))
    back = graph.call_function(aten.t.default, (between,))
    used = graph.call_function(aten.neg.default, (back,))
    graph.output((used, graph.call_function(note, (first,))))
    for node in (a, b, first, used):
        node.meta["val"] = shape
    between.meta["val"], back.meta["val"] = shape.t(), shape.t().t()
    arguments = [torch.randn(2, 3), torch.randn(2, 3)]
    held.append(weakref.ref(arguments[0]))
    expected = -arguments[0]
    results = compile_boxed(torch.fx.GraphModule({}, graph))(arguments)
    assert torch.equal(results[0], expected)
    assert alive == [True, False]
