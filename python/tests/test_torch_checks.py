# SPDX-License-Identifier: Apache-2.0
"""Checks that a model makes of its data, and numbers that it takes out of tensors: as in eager mode, in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, difference, needs_inductor, trace  # noqa: E402
from torch import fx, nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import effects  # noqa: E402

GOOD, BAD = torch.ones(4, dtype=torch.long), torch.tensor([1, 1, 2, 1])

CHECKS: dict[str, Callable[[Any], None]] = {
    "equal": lambda k: torch._check(k.sum().item() == 4, lambda: "four of them"),
    "less": lambda k: torch._check(k.sum().item() < 5),
    "a float": lambda k: torch._check(k.float().mean().item() < 1.1),
    "a tensor": lambda k: torch._check_tensor_all(k.sum() == 4),
    "a truth": lambda k: torch._check(bool((k.sum() == 4).item())),
    "a value": lambda k: torch._check_value(k.sum().item() < 5),
    "a size": lambda k: torch._check_is_size(4 - k.sum().item()),
    "two of them": lambda k: torch._check(k.sum().item() == 4 * k.max().item()),
    "assert_async": lambda k: torch._assert_async(k.sum() == 4, "four of them"),
    "a range": lambda k: torch.ops.aten.sym_constrain_range.default(k.sum().item(), min=0, max=4),
}


def body() -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(6)])


def checked(check: Callable[[Any], None]) -> Model:
    def run(self: Any, x: Any, k: Any) -> Any:
        for part in self.body[:3]:
            x = part(x)
        check(k)
        return self.body[3:](x).sum()

    return Model(run, body=body())


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("name", CHECKS)
def test_bad_data_is_an_error_in_every_step(name: str) -> None:
    model, x = checked(CHECKS[name]), torch.randn(256, 32)
    run = ct.compile(model, "70%", **FAST)
    assert not difference(trace(model, run, [x, GOOD]), trace(model, model, [x, GOOD]))
    assert ct.plans(run)[0].recomputed
    for call in (model, run):
        with pytest.raises((RuntimeError, ValueError)):
            call(x, BAD)
    run(x, GOOD)


def test_the_error_names_the_line() -> None:
    run = ct.compile(checked(CHECKS["less"]), "100%", **FAST)
    run(torch.randn(4, 32), GOOD)
    with pytest.raises(RuntimeError, match=r"test_torch_checks\.py:\d+"):
        run(torch.randn(4, 32), BAD)


def test_a_number_out_of_a_tensor_is_that_of_each_step() -> None:
    def loss(self: Any, x: Any, k: Any) -> Any:
        for part in self.body:
            x = part(x) * k.sum().item()
        return (x + k.float().mean().item()).sum()

    model, x = Model(loss, body=body()), torch.randn(256, 32)
    run = ct.compile(model, "70%", **FAST)
    for k in (GOOD, BAD):
        assert not difference(trace(model, run, [x, k]), trace(model, model, [x, k]))
    assert ct.plans(run)[0].recomputed


@needs_inductor
def test_generated_code_refuses_them_by_line() -> None:
    run = ct.compile(checked(CHECKS["equal"]), "100%", compiler="inductor", **FAST)
    with pytest.raises(ct.UnsupportedError, match=r"test_torch_checks\.py:\d+.*inductor"):
        run(torch.randn(4, 32), GOOD)


def test_prints_are_kept_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    printed = pytest.importorskip("torch._higher_order_ops.print", reason="this PyTorch traces no print").print

    def loss(self: Any, x: Any) -> Any:
        for i, part in enumerate(self.body):
            x = part(x)
            printed(f"part {i}")
        return x.sum()

    run = ct.compile(Model(loss, body=body()), "70%", **FAST)
    run(torch.randn(256, 32)).backward()
    capfd.readouterr()
    run(torch.randn(256, 32)).backward()
    assert capfd.readouterr().out.split("\n")[:6] == [f"part {i}" for i in range(6)]


def test_every_operator_that_pytorch_registers_as_having_effects_runs_once() -> None:
    registry: Any = pytest.importorskip("torch._library.simple_registry", reason="this PyTorch has no registry of effects").singleton
    found = [target for target in fx.node._side_effectful_functions if isinstance(target, torch._ops.OpOverload)]
    for name, entry in registry._data.items():
        namespace, _, rest = name.partition("::")
        if getattr(entry, "effect", None) is not None and entry.effect.effect is not None and namespace != "higher_order":
            packet = getattr(getattr(torch.ops, namespace), rest.partition(".")[0])
            found.append(getattr(packet, rest.partition(".")[2] or "default"))
    assert len(found) > 5
    graph = fx.Graph()
    assert [str(target) for target in found if not effects.runs_once(graph.call_function(target))] == []
