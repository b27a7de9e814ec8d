# SPDX-License-Identifier: Apache-2.0
"""Models whose control flow depends on data: what cannot be traced falls back, and the parts around it are planned."""

from __future__ import annotations

import logging
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from steps import FAST, Model, difference, gradients, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    logging.getLogger("torch").setLevel(logging.ERROR)


def _layers(**parts: Any) -> dict[str, Any]:
    return {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8), **parts}


def _branches(self: Any, x: Any) -> Any:
    x = self.a(x).tanh()
    return (self.b(x) if x.sum() > 0 else x).square().mean()


def _picks(self: Any, x: Any) -> Any:
    scales = [0.5, 1.0, 2.0]
    return self.b(self.a(x).tanh() * scales[int(torch.rand(1).item() * 3)]).square().mean()


def _cuts(self: Any, x: Any) -> Any:
    x = self.a(x).tanh()
    return self.b(x[: int((x[:, 0] > 0).sum().item()) + 1]).square().mean()


def _selects(self: Any, x: Any) -> Any:
    x = self.a(x).tanh()
    return self.b(x[(x[:, 0] > 0).nonzero().squeeze(-1)]).square().sum()


def _splits(self: Any, x: Any) -> Any:
    n = (x[:, 0] > 0).sum().tolist()
    first, second = torch.split(self.a(x), [n, x.shape[0] - n])
    return first.square().sum() + self.b(second).square().sum()


@pytest.mark.parametrize("function", [_branches, _picks, _cuts, _selects, _splits])
def test_control_that_depends_on_data_falls_back(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    model, x = Model(function, **_layers()), torch.randn(16, 8)
    with pytest.raises(ct.UnsupportedError, match=rf"\(.*{pathlib.Path(__file__).name}:\d+\)"):
        ct.compile(model, "1GiB", **FAST)(x)
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", fallback="eager", **FAST)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for inputs in (x, -x):
            assert not difference(trace(model, compiled, [inputs]), trace(model, model, [inputs]))
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    assert len(said) == 1, "it says so once"
    assert "runs without a budget" in said[0]


def test_a_value_error_of_pytorchs_own_falls_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch raises them where it cannot trace; what this package says of the user's options stays an error."""
    model, x = Model(lambda self, x: self.b(self.a(x)).sum(), **_layers()), torch.randn(16, 8)
    with pytest.raises(ValueError, match="loss='logits'"):
        ct.compile(model, "1GiB", fallback="eager", loss="logits", **FAST)(x)
    monkeypatch.setattr("torch._dynamo.backends.common.aot_autograd", lambda **_options: lambda *_inputs: _raise())
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="ValueError: unfamiliar"):
        assert torch.equal(compiled(x), model(x))


def _raise() -> None:
    raise ValueError("unfamiliar")


def test_errors_of_a_traced_models_run_are_not_hidden() -> None:
    """Only what happens in tracing is a reason to fall back."""
    model = Model(lambda self, x, i: self.b(self.a(x)[i]).sum(), **_layers())
    compiled = ct.compile(model, "1GiB", fallback="eager", **FAST)
    x = torch.randn(16, 8)
    assert torch.equal(compiled(x, torch.tensor([3])), model(x, torch.tensor([3])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((IndexError, RuntimeError), match="out of") as caught:
            compiled(x, torch.tensor([99]))
    assert not isinstance(caught.value, checkmate.CheckmateError)


class Block(nn.Module):
    """Layers, a graph break, and a sum."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(6)))

    def forward(self, x: Any) -> Any:
        y = self.layers(x)
        torch._dynamo.graph_break()
        return x + y


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


@pytest.mark.slow
def test_parts_that_share_their_code_count_what_is_held_where_they_run() -> None:
    """The graphs of the second block serve the third and the fourth as well, while more is held."""
    torch.manual_seed(0)
    model, x = Blocks(), torch.randn(2048, 64)
    expected = gradients(model, model, x)
    peak = physical.held_bytes(model, [x]) + physical.allocator_peak(lambda: model(x).backward())
    model.zero_grad(set_to_none=True)
    with pytest.raises(checkmate.InfeasibleError, match="are held"):  # all that might be waiting is counted
        ct.compile(model, peak * 8 // 10, graph_breaks="split", **FAST)(x)
    torch._dynamo.reset()
    limit = peak * 110 // 100
    compiled = ct.compile(model, limit, graph_breaks="split", **FAST)
    with pytest.warns(RuntimeWarning, match="a function cannot be traced.* is not planned.* what it computes"):
        found = gradients(model, compiled, x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    plans = ct.plans(compiled)
    assert [p.held_bytes for p in plans] == sorted({p.held_bytes for p in plans})
    assert len(plans) == 8, "two parts of each block"
    assert any(p.recomputed for p in plans)
    measured = physical.held_bytes(model, [x]) + physical.allocator_peak(lambda: compiled(x).backward())
    assert measured <= limit
    assert len(ct.plans(compiled)) == len(plans), "the second step must not plan again"


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return self.outer(self.inner(x).tanh())


class Routed(nn.Module):
    """Two experts, each of which gets the rows that are meant for it; layers around them."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = Expert(), Expert()
        self.experts = nn.ModuleList(Expert() for _ in range(2))

    def route(self, x: Any) -> Any:
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where((x[:, 0] > 0) == (number == 1))[0]
            if rows.numel() > 0:
                out = out.index_add(0, rows, expert(x[rows]))
        return out

    def forward(self, x: Any) -> Any:
        return self.after(self.route(self.before(x).tanh())).square().mean()


def test_experts_that_data_chooses_run_between_planned_parts() -> None:
    torch.manual_seed(0)
    model = Routed()
    compiled = ct.compile(model, "1GiB", graph_breaks="split", **FAST)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(7):
            x = torch.randn(40, 8)
            assert all(torch.equal(a, b) for a, b in zip(gradients(model, compiled, x), gradients(model, model, x), strict=True))
    assert 2 <= len(ct.plans(compiled)) <= 2 * 8 + 2, "other numbers of rows must not be planned for ever"
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    assert len(said) == 1
    assert "more shapes than PyTorch compiles for" in said[0]
    assert "the budget does not hold for what it computes" in said[0]


def test_what_an_error_in_a_later_part_names_works() -> None:
    def forward(m: Any, x: Any) -> Any:
        hidden = torch.tanh(m.a(x))
        torch._dynamo.graph_break()
        return hidden.sum() + nn.functional.embedding(torch.zeros(3, dtype=torch.long), m.a.weight, sparse=True).sum()

    model = Model(forward, a=nn.Linear(8, 8))
    for fallback in ("error", "eager"):
        torch._dynamo.reset()
        with pytest.raises(ct.UnsupportedError, match='fallback="eager" without graph_breaks="split" runs it'):
            ct.compile(model, "1GiB", graph_breaks="split", fallback=fallback, **FAST)(torch.randn(4, 8))
    torch._dynamo.reset()
    with pytest.warns(RuntimeWarning, match="the model runs without a budget"):
        assert ct.compile(model, "1GiB", fallback="eager", **FAST)(torch.randn(4, 8)).requires_grad
