# SPDX-License-Identifier: Apache-2.0
"""More shapes than PyTorch compiles for: the plan of a larger one serves smaller ones, and nothing is solved for them."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from models import make  # noqa: E402
from steps import FAST, gradients  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.plan import solving  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def _solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each run of the solver."""
    runs: list[int] = []

    def solve(graph: Any, *arguments: Any, **options: Any) -> Any:
        runs.append(len(graph.ops))
        return checkmate.solve(graph, *arguments, **options)

    monkeypatch.setattr(solving, "solve", solve)
    return runs


@pytest.mark.slow
def test_a_plan_serves_smaller_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every length, dropout in the model: bit for bit, within the budget, the solver run for the largest alone."""
    runs = _solves(monkeypatch)
    model, (x, y) = make("encoder")
    peak = physical.held_bytes(model, [x, y]) + physical.allocator_peak(lambda: model(x, y).backward())
    model.zero_grad(set_to_none=True)
    limit = peak * 6 // 10
    compiled = ct.compile(model, limit, shapes=20, time_limit=2)
    lengths = [64, 62, 61, 57, 55, 52, 50, 48, 40, 30, 16, 8]
    solved = 0
    for length in lengths:
        inputs = x[:, :length].contiguous(), y[:, :length].contiguous()
        found, expected = gradients(model, compiled, *inputs), gradients(model, model, *inputs)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        measured = physical.held_bytes(model, inputs) + physical.allocator_peak(lambda given=inputs: compiled(*given).backward())
        model.zero_grad(set_to_none=True)
        assert measured <= limit
        solved = solved or len(runs)
    plans = ct.plans(compiled)
    assert len(plans) == len(lengths) > torch._dynamo.config.recompile_limit
    assert len(runs) == solved >= 1, "only the largest is solved"
    assert [p.origin for p in plans] == ["solver", *["another shape"] * (len(lengths) - 1)]
    assert plans[0].recomputed
    assert plans[1].recomputed
    assert not plans[-1].recomputed, "what fits as it is computes nothing again"
    assert plans[-1].gap == 0


def test_a_larger_shape_is_planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _solves(monkeypatch)
    model, (x, y) = make("perceptron")
    compiled = ct.compile(model, "20MB", shapes=20, **FAST)
    compiled(x[:1024], y[:1024]).backward()
    before = len(runs)
    compiled(x, y).backward()
    assert len(runs) > before
    assert [p.origin for p in ct.plans(compiled)] == ["solver", "solver"]
    assert ct.plans(compiled)[1].peak_bytes <= 20_000_000


def test_a_graph_of_another_form_is_planned_anew() -> None:
    class Deeper(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(8))

        def forward(self, x: Any) -> Any:
            for layer in self.layers[: 8 if x.shape[0] > 512 else 6]:
                x = torch.tanh(layer(x))
            return x.square().mean()

    torch.manual_seed(0)
    model = Deeper()
    compiled = ct.compile(model, "1500kB", shapes=20, **FAST)
    for rows in (600, 512):
        x = torch.randn(rows, 64)
        found = [g for g in _gradients(model, compiled, x)]
        assert all(torch.equal(a, b) for a, b in zip(found, _gradients(model, model, x), strict=True))


def _gradients(model: Any, run: Any, x: Any) -> list[Any]:
    model.zero_grad(set_to_none=True)
    loss = run(x)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def test_the_limit_is_what_was_asked_for() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Flatten(0))
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    before = getattr(torch._dynamo.config, limit)
    with torch._dynamo.config.patch({limit: 1}):
        compiled = ct.compile(model, "1GiB", shapes=3, **FAST)
        for rows in (5, 4, 3):
            compiled(torch.randn(rows, 8))
        with pytest.raises(ct.UnsupportedError, match="shapes="):
            compiled(torch.randn(2, 8))
    assert getattr(torch._dynamo.config, limit) == before
    for wrong in (-1, "8", 1.5):
        with pytest.raises(ValueError, match="shapes"):
            ct.compile(model, "1GiB", shapes=wrong)
