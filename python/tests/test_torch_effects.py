# SPDX-License-Identifier: Apache-2.0
"""Calls with effects run once, in their order, however little memory there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, difference, trace  # noqa: E402
from torch import fx, library, nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import effects  # noqa: E402

ROWS, WIDTH, LAYERS, STEPS = 256, 32, 6, 2
RUNS: list[str] = []


@library.custom_op("checkmate_test::scale", mutates_args={"x"})
def scale(x: torch.Tensor, by: float) -> None:
    RUNS.append(f"scale {by}")
    x.mul_(by)


@library.custom_op("checkmate_test::noted", mutates_args={"log"})
def noted(x: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    RUNS.append("noted")
    log.add_(1)
    return x.sin()


@library.custom_op("checkmate_test::pure", mutates_args=())
def pure(x: torch.Tensor) -> torch.Tensor:
    RUNS.append("pure")
    return x.sin()


@noted.register_fake
def _(x: Any, log: Any) -> Any:
    return torch.empty_like(x)


@pure.register_fake
def _(x: Any) -> Any:
    return torch.empty_like(x)


pure.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def body() -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)])


def runs(run: Callable[..., Any], **parts: Any) -> tuple[list[str], list[str]]:
    """What ran in eager mode and what under a budget that needs recomputation, with equal results."""
    model, x = Model(run, body=body(), **parts), torch.randn(ROWS, WIDTH)
    compiled = ct.compile(model, "70%", time_limit=2, costs="estimate")
    compiled(x).backward()  # traced and planned; now the runs
    model.zero_grad(set_to_none=True)
    for name, buffer in model.named_buffers():
        buffer.copy_(parts[name])
    RUNS.clear()
    expected = trace(model, model, [x], steps=STEPS)
    eager = RUNS.copy()
    RUNS.clear()
    assert not difference(trace(model, compiled, [x], steps=STEPS), expected)
    assert ct.plans(compiled)[0].recomputed
    return eager, RUNS.copy()


def test_a_call_that_mutates_runs_once_in_its_order() -> None:
    def run(self: Any, x: Any) -> Any:
        for i, part in enumerate(self.body):
            x = part(x)
            with torch.no_grad():
                scale(self.state, 0.5 + i)
            x = x * self.state.clone()
        return x.sum()

    eager, ours = runs(run, state=torch.ones(ROWS, WIDTH))
    assert len(eager) == STEPS * LAYERS
    assert ours == eager


def test_a_call_that_mutates_and_returns_runs_once() -> None:
    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            h = part(x)
            x = noted(h.detach(), self.log) * h
        return x.sum()

    eager, ours = runs(run, log=torch.zeros(()))
    assert ours == eager
    assert len(ours) == STEPS * LAYERS


def test_a_call_without_effects_may_run_again() -> None:
    """So the counts above say something."""

    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = pure(part(x)) * x
        return x.sum()

    eager, ours = runs(run)
    assert len(ours) > len(eager) == STEPS * LAYERS


def test_an_operator_registered_as_effectful_runs_once() -> None:
    registry = pytest.importorskip("torch._higher_order_ops.effects", reason="this PyTorch has no effect tokens")

    @library.custom_op("checkmate_test::effectful", mutates_args=())
    def effectful(x: torch.Tensor) -> torch.Tensor:
        RUNS.append("effectful")
        return x.cos()

    effectful.register_fake(torch.empty_like)
    effectful.register_autograd(
        lambda ctx, g: -g * ctx.saved_tensors[0].sin(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )
    registry._register_effectful_op(torch.ops.checkmate_test.effectful.default, registry._EffectType.ORDERED)

    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = effectful(part(x)) * x
        return x.sum()

    eager, ours = runs(run)
    assert ours == eager
    assert len(ours) == STEPS * LAYERS


def test_what_is_told_from_an_operators_schema() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")

    def call(target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return graph.call_function(target, args, kwargs)

    aten = torch.ops.aten
    assert effects.runs_once(call(aten.copy_.default, x, x))
    assert effects.runs_once(call(aten._assert_async.msg, x, "text"))
    assert effects.runs_once(call(aten.rand.generator, [2], generator=torch.Generator()))
    assert effects.runs_once(call(torch.ops._c10d_functional.all_reduce.default, x, "sum", "0"))
    assert effects.runs_once(call(torch.ops._c10d_functional.wait_tensor.default, x))
    assert not effects.runs_once(call(aten.add.Tensor, x, x))
    assert not effects.runs_once(call(aten.rand.generator, [2], generator=None))
    assert effects.is_random(call(aten.rand_like.default, x))
    assert effects.is_random(call(aten.native_dropout.default, x, 0.5, True))
    assert not effects.is_random(call(aten.native_dropout.default, x, 0.0, True))
    assert not effects.is_random(call(aten.add.Tensor, x, x))
