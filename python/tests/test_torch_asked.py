# SPDX-License-Identifier: Apache-2.0
"""Models whose code asks whether it is compiled: the first step says what differs from eager mode, and nothing where nothing does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402


def is_compiling() -> bool:
    return torch.compiler.is_compiling()


def other_values(m: Any, x: torch.Tensor) -> torch.Tensor:
    return (m.a(x) * (3.0 if is_compiling() else 2.0)).square().mean()


def other_gradients(m: Any, x: torch.Tensor) -> torch.Tensor:
    """The same numbers forward; backward by other operators."""
    h = m.a(x)
    h = h.reshape(x.shape[0], 1, -1).expand(-1, 2, -1) if is_compiling() else torch.stack([h, h], 1)
    return h.square().mean()


def the_same(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.seen += len([is_compiling()])
    return m.norm(nn.functional.dropout(m.a(x), 0.3)).square().mean()


def does_not_ask(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.forwards.append(1)
    return m.a(x).square().mean()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def steps(model: nn.Module, *, inplace: bool = False, **options: Any) -> list[str]:
    """What three steps warn of."""
    compiled = ct.compile(model, options.pop("budget", "100%"), inplace=inplace, **options, **FAST)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            model.zero_grad()
            compiled(torch.ones(64, 16)).backward()
    return [str(warning.message) for warning in said if "compiled" in str(warning.message)]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("function", "what"), [(other_values, "1 of its 1 outputs"), (other_gradients, "ExpandBackward0.*StackBackward0")])
def test_what_differs_is_said_once_with_the_line_that_asks(function: Callable[..., Any], what: str, inplace: bool) -> None:
    (said,) = steps(Model(function, a=nn.Linear(16, 32)), inplace=inplace)
    line = function.__code__.co_firstlineno + (1 if function is other_values else 3)
    assert f"test_torch_asked.py:{line}" in said, "not the helper's"
    with pytest.warns(RuntimeWarning, match=what):
        ct.compile(Model(function, a=nn.Linear(16, 32)), "100%", **FAST)(torch.ones(64, 16))


def test_a_model_that_does_the_same_takes_the_steps_of_eager_mode() -> None:
    def make() -> nn.Module:
        torch.manual_seed(0)
        return Model(the_same, a=nn.Linear(16, 32), norm=nn.BatchNorm1d(32), seen=torch.zeros(()))

    def run(call: Any, model: nn.Module) -> list[Any]:
        return trace(model, call, [torch.ones(64, 16)])

    twin, model = make(), make()
    compiled = ct.compile(model, "80%", **FAST)
    assert difference(run(compiled, model), run(twin, twin)) == ""


def test_a_model_that_does_not_ask_runs_once() -> None:
    model = Model(does_not_ask, a=nn.Linear(16, 32))
    model.forwards = []
    assert steps(model) == []
    assert len(model.forwards) == 3


def test_parts_that_ask_are_compared_in_the_second_step() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x).relu()
            torch._dynamo.graph_break()
            return (self.b(x) * (3.0 if torch.compiler.is_compiling() else 2.0)).square().mean()

    (said,) = steps(Parts(), budget=10**7, graph_breaks="split")
    assert "1 of its 1 outputs" in said


def test_without_room_for_another_forward_pass_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from checkmate.torch.run import is_compiling

    monkeypatch.setattr(is_compiling, "_forward_bytes", lambda plan: plan.budget_bytes + 1)
    assert steps(Model(other_values, a=nn.Linear(16, 32))) == []


def test_the_forward_pass_without_saving_is_predicted() -> None:
    import pathlib
    import sys

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))
    import physical

    from checkmate.torch.run import is_compiling

    layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())]
    model = Model(lambda m, x: m.net(x).square().mean(), net=nn.Sequential(*layers))
    x = torch.randn(256, 64)
    compiled = ct.compile(model, "100%", **FAST)
    compiled(x)
    with torch.no_grad():
        measured = physical.held_bytes(model, [x]) + physical.allocator_peak(lambda: model(x))
    (plan,) = ct.plans(compiled)
    assert measured <= is_compiling._forward_bytes(plan) < plan.peak_bytes
