# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN: planned as one operator, results those of eager mode, measured peaks within the budget."""

from __future__ import annotations

import gc
import pathlib
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from steps import FAST, difference, gradients, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.rewrite import recurrent  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class Tagger(nn.Module):
    """Layers before and behind each of `depth` recurrent layers."""

    def __init__(self, kind: type[nn.RNNBase], depth: int = 1, width: int = 24, **options: Any) -> None:
        super().__init__()
        wide = (options.get("proj_size") or width) * (2 if options.get("bidirectional") else 1)
        self.before = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
        self.layers = nn.ModuleList(kind(16, width, **options) for _ in range(depth))
        self.behind = nn.ModuleList(nn.Linear(wide, 16) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        last = 0.0
        for before, layer, behind in zip(self.before, self.layers, self.behind, strict=True):
            y, state = layer(torch.tanh(before(x)))
            x = x + torch.tanh(behind(torch.tanh(y)))
            last = last + (state[0] if isinstance(state, tuple) else state).square().mean()
        return x.square().mean() + last


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layers": {"num_layers": 2},
    "bidirectional": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "dropout": {"num_layers": 3, "dropout": 0.3},
    "no bias": {"bias": False, "batch_first": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_results_are_eager_modes(kind: type[nn.RNNBase], options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, x = Tagger(kind, **options), torch.randn(12, 6, 16, requires_grad=True)
    compiled = ct.compile(model, "100%", **FAST)
    assert not difference(trace(model, compiled, [x]), trace(model, model, [x]))
    (plan,) = ct.plans(compiled)
    assert sum(op.name.startswith("recurrent") for op in plan.graph.ops if op.kind == "forward") == 1, "one operator, not one a step"
    gc.collect()
    assert not recurrent._RECORDS, "what is kept for the backward pass dies with it"


@pytest.mark.parametrize("name", ["relu", "projected", "frozen", "unbatched"])
def test_other_recurrent_layers(name: str) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"relu": {"nonlinearity": "relu"}, "projected": {"proj_size": 8}}.get(name, {})
    model, x = Tagger(nn.RNN if name == "relu" else nn.LSTM, **options), torch.randn(12, 6, 16)
    if name == "unbatched":
        x = x[:, 0]
    if name == "frozen":
        model.layers.requires_grad_(False)
        model.layers[0].bias_hh_l0.requires_grad_(True)
    compiled = ct.compile(model, "100%", **FAST)
    assert not difference(trace(model, compiled, [x]), trace(model, model, [x]))


@pytest.mark.slow
@pytest.mark.parametrize("costs", ["measure", "estimate"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_the_kernel_runs_again_as_a_whole_within_the_budget(kind: type[nn.RNNBase], costs: Any) -> None:
    """With dropout between the layers, which is drawn again."""
    torch.manual_seed(0)
    model, x = Tagger(kind, depth=4, width=48, num_layers=2, dropout=0.2), torch.randn(40, 32, 16)
    expected = gradients(model, model, x)
    for budget in ("100%", "60%"):
        torch._dynamo.reset()
        compiled = ct.compile(model, budget, costs=costs, time_limit=3)
        assert all(torch.equal(a, b) for a, b in zip(gradients(model, compiled, x), expected, strict=True))
        (plan,) = ct.plans(compiled)
        measured = physical.held_bytes(model, [x]) + physical.allocator_peak(lambda run=compiled: run(x).backward())
        model.zero_grad(set_to_none=True)
        assert measured <= plan.budget_bytes
        assert measured >= 0.95 * plan.peak_bytes
    assert any(name.startswith("recurrent") for name in plan.recomputed), "60 % cannot hold all that the layers keep"


def test_a_backward_pass_runs_twice() -> None:
    torch.manual_seed(0)
    model, x = Tagger(nn.GRU, depth=2), torch.randn(12, 6, 16)

    def twice(run: Any) -> list[Any]:
        model.zero_grad(set_to_none=True)
        loss = run(x)
        loss.backward(retain_graph=True)
        loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    compiled = ct.compile(model, "80%", **FAST)
    assert all(torch.equal(a, b) for a, b in zip(twice(compiled), twice(model), strict=True))


def test_without_gradients_nothing_is_kept() -> None:
    model, x = Tagger(nn.LSTM, num_layers=2, dropout=0.5), torch.randn(12, 6, 16)
    compiled = ct.compile(model, "100%", **FAST)
    model.eval()
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    assert not recurrent._RECORDS


def test_packed_sequences_and_autocast_are_refused_clearly() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(16, 8)

        def forward(self, x: Any) -> Any:
            y, _ = self.layer(x)
            return y.data.square().mean()

    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 16), torch.randn(3, 16)])
    with pytest.raises(ct.UnsupportedError, match="packed sequences cannot be planned"):
        ct.compile(Packed(), "1GiB", **FAST)(packed)
    torch._dynamo.reset()
    compiled = ct.compile(Packed(), "1GiB", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        compiled(packed)
    torch._dynamo.reset()
    with pytest.raises(ct.UnsupportedError, match=r"LSTM cannot be planned under torch\.autocast"), torch.autocast("cpu", torch.bfloat16):
        ct.compile(Tagger(nn.LSTM), "1GiB", **FAST)(torch.randn(12, 6, 16))


def test_a_backend_plans_recurrent_layers_too() -> None:
    torch.manual_seed(0)
    model, x = Tagger(nn.GRU), torch.randn(12, 6, 16)
    made = ct.backend("1GiB", **FAST)
    with torch._dynamo.config.patch(allow_rnn=True):
        compiled = torch.compile(model, backend=made, dynamic=False)
        assert not difference(trace(model, compiled, [x]), trace(model, model, [x]))
    assert len(made.plans) == 1
