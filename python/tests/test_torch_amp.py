# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: losses, gradients, parameters and the scaler's state are those of eager mode, bit for bit."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")

from models import MODELS, make  # noqa: E402
from steps import Model, difference  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.cost import cost  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def train(model: nn.Module, call: Callable[..., Any], inputs: tuple[Any, ...], *, dtype: Any, scaled: bool = False, outside: bool | None = True,
          backward_inside: bool = False, steps: int = 3) -> list[Any]:  # fmt: skip
    """Losses, gradients and the scale of every step, then parameters and buffers; numbers for what is none. The model stays
    as it is. `outside`: whether the call is under autocast, or under one that is turned off, or under none."""
    state = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    # So large at first that steps are skipped.
    scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=2.0**30, backoff_factor=2.0**-12)
    found: list[Any] = []
    for step in range(steps):
        torch.manual_seed(5 + step)
        optimizer.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if outside is None else torch.autocast("cpu", dtype=dtype, enabled=outside):
            loss = call(*inputs)
            if backward_inside:
                scaler.scale(loss).backward()
        if not backward_inside:
            scaler.scale(loss).backward()
        found += [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    optimizer.zero_grad(set_to_none=True)
    found += [t.detach().clone() for t in [*model.parameters(), *model.buffers()]]
    model.load_state_dict(state)
    return [v.masked_fill(v.isnan(), 77777.0) if isinstance(v, torch.Tensor) else v for v in found]


def transformer(dropout: float = 0.1) -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(64, 4, 128, dropout=dropout, batch_first=True) for _ in range(3)]
    model = Model(lambda m, x: m.layers(x).float().square().mean(), layers=nn.Sequential(*layers))
    return model, (torch.randn(8, 32, 64),)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("scaled", [False, True])
def test_backward_outside_of_autocast(dtype: str, scaled: bool) -> None:
    model, inputs = transformer()
    expected = train(model, model, inputs, dtype=HALVES[dtype], scaled=scaled)
    compiled = ct.compile(model, "70%", time_limit=2)
    assert difference(train(model, compiled, inputs, dtype=HALVES[dtype], scaled=scaled), expected) == ""
    (plan,) = ct.plans(compiled)
    assert plan.recomputed


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MODELS)
def test_models_under_autocast(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make(name)
    measured, unmeasured = cost._measured, []

    def record(node: Any, runs: int) -> list[float]:
        found = measured(node, runs)
        if len(found) == 2:  # an estimate, and no outputs
            unmeasured.append(node.target)
        return found

    monkeypatch.setattr(cost, "_measured", record)
    expected = train(model, model, inputs, dtype=HALVES[dtype], scaled=dtype == "fp16", steps=2)
    compiled = ct.compile(model, "70%", time_limit=2)
    assert difference(train(model, compiled, inputs, dtype=HALVES[dtype], scaled=dtype == "fp16", steps=2), expected) == ""
    (plan,) = ct.plans(compiled)
    model.zero_grad(set_to_none=True)

    def step() -> None:
        with torch.autocast("cpu", dtype=HALVES[dtype]):
            loss = compiled(*inputs)
        loss.backward()

    # Several steps: one that takes more than the others is told from a plan that does not hold.
    peaks = []
    for _ in range(3):
        peaks.append(meter.peak_bytes(step, model, inputs))
        model.zero_grad(set_to_none=True)
    assert max(peaks) <= plan.budget_bytes, peaks
    assert unmeasured == []


@pytest.mark.parametrize("dtype", HALVES)
def test_autocast_inside_of_the_model(dtype: str) -> None:
    model, inputs = transformer()
    layers = model.layers

    def forward(m: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=HALVES[dtype]):
            x = m.layers[0](x)
            with torch.autocast("cpu", enabled=False):
                x = m.layers[1](x.float())
            x = m.layers[2](x)
        return x.float().square().mean()

    inside = Model(forward, layers=layers)
    expected = train(inside, inside, inputs, dtype=HALVES[dtype], outside=False, scaled=dtype == "fp16")
    compiled = ct.compile(inside, "70%", time_limit=2)
    assert difference(train(inside, compiled, inputs, dtype=HALVES[dtype], outside=False, scaled=dtype == "fp16"), expected) == ""


def test_backward_under_autocast() -> None:
    model, inputs = transformer()
    expected = train(model, model, inputs, dtype=torch.bfloat16, backward_inside=True)
    compiled = ct.compile(model, "70%", time_limit=2, autocast_backward=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(model, compiled, inputs, dtype=torch.bfloat16, backward_inside=True)
    assert difference(found, expected) == ""


@pytest.mark.parametrize("under", [False, True])
def test_a_backward_pass_that_was_planned_otherwise_is_warned_of(under: bool) -> None:
    model, inputs = transformer()
    compiled = ct.compile(model, "100%", time_limit=1, costs="estimate", autocast_backward=not under)
    with pytest.warns(RuntimeWarning, match=rf"{'under' if under else 'after'} torch.autocast, .*Compile with autocast_backward={under}") as caught:
        train(model, compiled, inputs, dtype=torch.bfloat16, backward_inside=under, steps=1)
    assert {w.filename for w in caught if w.category is RuntimeWarning} == {__file__}


def _shared_with_single_precision(m: Any, x: Any) -> Any:
    """Used under autocast, after it was turned off, and again under it."""
    x = m.a(m.a(x)).tanh()
    with torch.autocast("cpu", enabled=False):
        x = m.a(x.float()).tanh()
    x = m.a(x).tanh()
    with torch.autocast("cpu", enabled=False):
        x = m.a(x.float()).tanh()
    return m.a(x).float().square().mean()


def _converted_by_the_model(m: Any, x: Any) -> Any:
    """Not autocast's conversions, so that eager mode sums their gradients in single precision."""
    for _ in range(3):
        x = nn.functional.linear(x.bfloat16(), m.a.weight.to(torch.bfloat16), m.a.bias.bfloat16()).tanh()
    return m.a(m.a(m.a(x.float()))).float().square().mean()


def _two_stretches(m: Any, x: Any) -> Any:
    """With autocast inside: what is kept in one is converted anew in the other."""
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = m.a(m.a(m.a(x).tanh()).tanh())
        x = m.a(x.float()).tanh()
    return x.square().mean()


def _not_kept(m: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        x = m.a(m.a(m.a(x).tanh()).tanh())
    return x.float().square().mean()


def _transposed(m: Any, x: Any) -> Any:
    """A view is converted for every use."""
    for _ in range(3):
        x = (m.a(x) @ m.a.weight.t() @ m.a.weight).tanh()
    return x.float().square().mean()


def _checkpointed(m: Any, x: Any) -> Any:
    for _ in range(3):
        x = torch.utils.checkpoint.checkpoint(lambda y: m.a(m.a(y).tanh()).tanh(), x, use_reentrant=False)
    return m.a(x).float().square().mean()


SHARED = [_shared_with_single_precision, _converted_by_the_model, _two_stretches, _not_kept, _transposed, _checkpointed]


@pytest.mark.slow
@pytest.mark.parametrize("outside", [None, False, True])
@pytest.mark.parametrize("function", SHARED)
def test_gradients_of_parameters_that_are_used_again(function: Any, outside: bool | None) -> None:
    torch.manual_seed(0)
    model, x = Model(function, a=nn.Linear(64, 64)), torch.randn(256, 64)
    expected = train(model, model, (x,), dtype=torch.bfloat16, outside=outside, steps=2)
    compiled = ct.compile(model, "80%", time_limit=1, costs="estimate")
    assert difference(train(model, compiled, (x,), dtype=torch.bfloat16, outside=outside, steps=2), expected) == ""
