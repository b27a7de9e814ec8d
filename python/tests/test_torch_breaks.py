# SPDX-License-Identifier: Apache-2.0
"""Models that PyTorch does not trace whole: graph breaks, parts that share a budget, falling back."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from models import Broken, Untraceable, make  # noqa: E402
from steps import FAST, Model, gradients  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import devices  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class BrokenLoop(torch.nn.Module):
    """A graph break within a loop: PyTorch gives up on the whole function."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.layer(x)
            torch._dynamo.graph_break()
        return x.square().mean()


def counts_what_it_skips() -> bool:
    """Whether PyTorch counts functions that it gives up on; 2.6 counts them as traced."""
    frames = torch._dynamo.utils.counters["frames"]
    before = frames["total"] - frames["ok"]
    torch._dynamo.reset()
    torch.compile(BrokenLoop(), backend="eager")(torch.randn(1, 64))
    return frames["total"] - frames["ok"] > before


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3])
def test_graphs_of_a_broken_model_share_the_budget(parts: int) -> None:
    torch.manual_seed(0)
    model, x = Broken(parts), torch.randn(2048, 64)
    start = copy.deepcopy(model.state_dict())
    expected = gradients(model, model, x)
    peak = meter.peak_bytes(lambda: model(x).backward(), model, x)
    model.zero_grad(set_to_none=True)
    model.load_state_dict(start)
    limit = peak * 7 // 10
    compiled = ct.compile(model, limit, graph_breaks="split", time_limit=2)
    found = gradients(model, compiled, x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    plans = ct.plans(compiled)
    assert len(plans) == parts
    assert all(p.peak_bytes <= p.budget_bytes == limit for p in plans)
    assert [p.held_bytes for p in plans] == sorted(p.held_bytes for p in plans)
    assert any(p.recomputed for p in plans)
    measured = meter.peak_bytes(lambda: compiled(x).backward(), model, x)
    assert measured <= limit
    assert len(ct.plans(compiled)) == parts, "the second step must not plan again"


def test_a_part_that_does_not_fit_is_named() -> None:
    model, x = Broken(), torch.randn(2048, 64)
    with pytest.raises(
        checkmate.InfeasibleError, match=r"graph \d of the model, while .* bytes are held: .*no.*fit.* is enough for this part, while"
    ):
        ct.compile(model, "2MB", graph_breaks="split", **FAST)(x)


def test_a_graph_break_is_an_error_by_default() -> None:
    model, x = Broken(), torch.randn(64, 64)
    with pytest.raises(ct.UnsupportedError, match=r"(?s)one graph.*graph_breaks=\"split\".*fallback") as caught:
        ct.compile(model, "100%", **FAST)(x)
    assert caught.value.__cause__ is not None


def test_what_cannot_be_traced_does_not_run_unplanned_in_silence() -> None:
    model, x = BrokenLoop(), torch.randn(16, 64)
    with pytest.raises(ct.UnsupportedError, match="nothing of the model"):
        ct.compile(model, "1GiB", graph_breaks="split", **FAST)(x)
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", graph_breaks="split", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        assert torch.equal(compiled(x), model(x))

    class Partly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.loop, self.last = BrokenLoop(), torch.nn.Linear(64, 64)

        def forward(self, x: Any) -> Any:
            return self.last(x).tanh().square().mean() + self.loop(x)

    if not counts_what_it_skips():
        return
    torch._dynamo.reset()
    compiled = ct.compile(Partly(), "1GiB", graph_breaks="split", **FAST)
    with pytest.warns(RuntimeWarning, match="budget does not hold"):
        compiled(x)


def test_split_needs_bytes_and_a_module() -> None:
    with pytest.raises(ValueError, match="in bytes"):
        ct.compile(Broken(), "50%", graph_breaks="split")
    with pytest.raises(ValueError, match=r"nn\.Module"):
        ct.compile(lambda x: x, "1GiB", graph_breaks="split")
    with pytest.raises(ValueError, match="graph_breaks"):
        ct.compile(Broken(), "1GiB", graph_breaks="maybe")


def test_the_backend_alone_warns_of_a_second_graph() -> None:
    model, x = Broken(), torch.randn(64, 64)
    made = ct.backend("1GiB", **FAST)
    with pytest.warns(RuntimeWarning, match="graph_breaks"):
        torch.compile(model, backend=made, dynamic=False)(x).backward()
    assert len(made.plans) == 2


def test_auto_budget_is_one_budget_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Broken(), torch.randn(256, 64)
    free = iter([100_000_000])
    monkeypatch.setattr(devices, "free_bytes", lambda _device: next(free))
    compiled = ct.compile(model, "auto", graph_breaks="split", **FAST)
    compiled(x).backward()
    present = meter.tensor_bytes([p.detach() for p in model.parameters()], list(model.buffers()), x)
    assert [p.budget_bytes for p in ct.plans(compiled)] == [90_000_000 + present] * 2


def test_falls_back_only_if_asked_and_says_so_once() -> None:
    model, x = Untraceable(), torch.randn(4, 8)
    with pytest.raises(ct.UnsupportedError, match="cannot be traced"):
        ct.compile(model, "1GiB", **FAST)(x)
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        first = compiled(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x), first)
    assert ct.plans(compiled) == []
    with pytest.raises(ValueError, match="fallback"):
        ct.compile(model, "1GiB", fallback="please")


def test_a_budget_too_small_is_never_a_reason_to_fall_back() -> None:
    model, inputs = make("perceptron")
    with pytest.raises(checkmate.InfeasibleError):
        ct.compile(model, "1MB", fallback="eager", **FAST)(*inputs)


SHARED: dict[str, Any] = {
    "detached": lambda _self, x: x.detach().requires_grad_(),
    "a view": lambda _self, x: x.view(32, 256),
    "the weight": lambda self, _x: self.layer.weight.detach(),
    "anew": lambda _self, x: x * 2,
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_part_without_a_backward_pass_whose_outputs_go_on(kind: str) -> None:
    """Its outputs were taken off what is held while the next part runs, though they had never been counted."""
    torch._dynamo.reset()

    def run(self: Any, x: Any) -> Any:
        y = SHARED[kind](self, x)
        torch._dynamo.graph_break()
        return self.layer(y.reshape(-1, 32)).square().mean()

    model, x = Model(run, layer=torch.nn.Linear(32, 32)), torch.randn(256, 32)
    compiled = ct.compile(model, 10**7, graph_breaks="split", **FAST)
    compiled(x).backward()
    (plan,) = ct.plans(compiled)
    assert plan.held_bytes >= 0
    assert plan.input_bytes + plan.held_bytes >= 4 * 256 * 32
