# SPDX-License-Identifier: Apache-2.0
"""A parameter that gets no gradient in eager mode gets none from a plan, and one that gets zeros gets zeros."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, needs_inductor  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.run import reached  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class Doubled(torch.autograd.Function):
    """Sees zeros where it gets no gradient, as functions do by default."""

    @staticmethod
    def forward(_ctx: Any, a: Any, b: Any) -> Any:
        return a * 2, b * 3

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2, gradients[1] * 3


class Skipping(Doubled):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.set_materialize_grads(False)
        return a * 2, b * 3

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return tuple(None if gradient is None else gradient * 2 for gradient in gradients)


def heads(m: Any, x: Any) -> Any:
    trunk = torch.tanh(m.a(x))
    return m.b(trunk), m.c(trunk)


def views(m: Any, x: Any) -> Any:
    first, second = heads(m, x)
    return first, second, second.view(-1), first[0], x


def untracked(m: Any, x: Any) -> Any:
    with torch.no_grad():
        trunk = m.a(x)
    return m.b(trunk), m.c(m.a(x).detach())


def recurrent(m: Any, x: Any) -> Any:
    outputs, (state, cell) = m.r(x.unsqueeze(0))
    return outputs, m.a(state), m.b(cell.detach())


def parted(m: Any, x: Any) -> Any:
    first, second = heads(m, x)
    torch._dynamo.graph_break()
    return m.a(first), second * 2


KINDS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any]]] = {
    "heads": (heads, {}),
    "a loss and others": (lambda m, x: {"loss": heads(m, x)[0].square().sum(), "other": heads(m, x)[1]}, {}),
    "views": (views, {}),
    "untracked": (untracked, {}),
    "zeros by rule": (lambda m, x: (m.a(x).round() + m.b(x) ** 0, m.c(x)), {}),
    "zeros of a function": (lambda m, x: Doubled.apply(m.a(x), m.b(x)), {}),  # type: ignore[no-untyped-call]
    "buffers": (lambda m, x: (m.n(m.a(x)).square(), m.c(x)), {}),
    "recurrent": (recurrent, {}),
    "parts": (parted, {"graph_breaks": "split"}),
    "sizes": (heads, {"dynamic": True}),
    "accumulated": (heads, {"accumulate": True}),
}


def model(function: Callable[[Any, Any], Any]) -> nn.Module:
    torch.manual_seed(0)
    return Model(function, a=nn.Linear(8, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 8), n=nn.BatchNorm1d(8), r=nn.LSTM(8, 8))


def trained(made: nn.Module, call: Callable[..., Any], *, keep: bool) -> list[Any]:
    """Gradients of every step, each with another loss, and the weights after them."""
    optimizer = torch.optim.AdamW(made.parameters(), weight_decay=0.1)
    found: list[Any] = []
    for step in range(4):
        optimizer.zero_grad(set_to_none=not keep)
        x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step)).requires_grad_()
        outputs = call(x)
        if isinstance(outputs, dict):
            outputs["loss"].backward()
        else:
            wanted = outputs if step == 2 else [outputs[step % 2]]
            sum(out.square().mean() for out in wanted).backward()
        found += [None if p.grad is None else p.grad.clone() for p in (*made.parameters(), x)]
        optimizer.step()
    return [*found, *(p.detach().clone() for p in made.parameters())]


@pytest.mark.filterwarnings("ignore:checkmate. the loss does not depend")  # of the function: see below
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_none_where_eager_mode_has_none(kind: str) -> None:
    function, options = KINDS[kind]
    made = model(function)
    alone = copy.deepcopy(made)
    keep = kind == "accumulated"
    found = trained(made, ct.compile(made, "1GiB", **FAST, **options), keep=keep)
    expected = trained(alone, alone, keep=keep)
    assert [value is None for value in found] == [value is None for value in expected]
    assert any(value is None for value in expected)
    assert all(a is None or torch.equal(a, b) for a, b in zip(expected, found, strict=True))


@needs_inductor
def test_gradients_of_generated_code_are_none_too() -> None:
    made = model(heads)
    alone = copy.deepcopy(made)
    found = trained(made, ct.compile(made, "1GiB", compiler="inductor", **FAST), keep=False)
    expected = trained(alone, alone, keep=False)
    assert [value is None for value in found] == [value is None for value in expected]


def test_a_function_that_may_see_none_is_told_of() -> None:
    made = model(lambda m, x: Skipping.apply(m.a(x), m.b(x)))  # type: ignore[no-untyped-call]
    call = ct.compile(made, "1GiB", **FAST)
    for step in range(2):
        outputs = call(torch.randn(16, 8))
        if step == 0:
            with pytest.warns(RuntimeWarning, match=r"b\.weight, b\.bias are taken through the torch\.autograd\.Function \(.*test_torch_reached"):
                outputs[0].sum().backward()
        else:
            outputs[0].sum().backward()  # one warning is enough
    assert made.b.weight.grad is not None


def test_what_is_not_known_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(heads)
    call = ct.compile(made, "1GiB", **FAST)

    def fails(*_args: Any) -> Any:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(reached, "_results", fails)
    with pytest.warns(RuntimeWarning, match=r"gradients of c\.weight, c\.bias are taken with zeros"):
        call(torch.randn(16, 8))[0].sum().backward()
