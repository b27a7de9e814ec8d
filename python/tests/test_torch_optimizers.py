# SPDX-License-Identifier: Apache-2.0
"""The state of optimizers that have taken no step yet: what a dry run says is what the first step makes."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from torch import nn  # noqa: E402
from torch.optim import Optimizer  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import meter, optimizers  # noqa: E402


def _model(dtype: Any = None) -> nn.Module:
    """Matrices, vectors, a convolution, a frozen parameter."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 30), nn.Linear(30, 20, bias=False), nn.LayerNorm(20), nn.Linear(20, 7)).to(dtype)
    model[0].weight.requires_grad_(False)
    return model


def _step(model: nn.Module, optimizer: Any) -> None:
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.rand_like(p)
    optimizer.step()


class Lion(Optimizer):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    average = self.state[p].setdefault("average", torch.zeros_like(p))
                    p.add_(average.lerp(p.grad, 0.1).sign(), alpha=-group["lr"])
                    average.lerp_(p.grad, 0.01)


class EightBit(Optimizer):
    """Quantized by blocks; keeps its table of values itself, draws random numbers, and looks at the data."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-3})
        self.table: Any = None
        self.generator = torch.Generator()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if self.table is None:
            self.table = torch.linspace(-1, 1, 256)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not torch.isfinite(p.grad).all():
                    continue
                state = self.state[p]
                blocks = -(-p.numel() // 64)
                if not state:
                    state["codes"] = torch.zeros(p.numel(), dtype=torch.uint8)
                    state["scales"] = torch.zeros(blocks)
                scale = float(p.grad.abs().max()) + 1e-6
                state["codes"].copy_(((p.grad.flatten() / scale + torch.rand(p.numel(), generator=self.generator) / 256) * 127 + 127).clamp(0, 255))
                state["scales"].fill_(scale)
                p.add_((self.table[state["codes"].long()] * scale).view_as(p), alpha=-group["lr"])


class TwoSteps(Optimizer):
    """As sharpness-aware minimization: takes a closure, holds the weights, and has an optimizer inside."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"rho": 0.05})
        self.base = torch.optim.AdamW(self.param_groups)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is not None, "needs a closure"
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["old"] = p.clone()
        with torch.enable_grad():
            closure()
        self.base.step()


O = torch.optim  # noqa: E741
KINDS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: O.SGD(p, 0.1),
    "momentum": lambda p: O.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: O.Adam(p),
    "tensor lr": lambda p: O.Adam(p, lr=torch.tensor(0.1)),
    "foreach": lambda p: O.AdamW(p, foreach=True),
    "fused": lambda p: O.AdamW(p, fused=True),
    "capturable": lambda p: O.Adam(p, amsgrad=True, weight_decay=0.1),
    "NAdam": lambda p: O.NAdam(p),
    "RAdam": lambda p: O.RAdam(p),
    "Adamax": lambda p: O.Adamax(p),
    "Adagrad": lambda p: O.Adagrad(p),
    "Adadelta": lambda p: O.Adadelta(p),
    "RMSprop": lambda p: O.RMSprop(p, centered=True, momentum=0.9),
    "Rprop": lambda p: O.Rprop(p),
    "ASGD": lambda p: O.ASGD(p),
    "Adafactor": lambda p: O.Adafactor(p),
    "own": Lion,
    "8 bits": EightBit,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KINDS)
def test_what_the_first_step_makes(name: str, dtype: Any) -> None:
    model = _model(dtype)
    before = copy.deepcopy(model.state_dict())
    optimizer = KINDS[name](model.parameters())
    random = torch.get_rng_state()
    expected = ct.optimizer_bytes(optimizer)
    assert torch.equal(torch.get_rng_state(), random)
    assert not hasattr(optimizer, "generator") or torch.equal(optimizer.generator.get_state(), torch.Generator().get_state())
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.values(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert name == "Adagrad" or not optimizer.state, "the dry run must leave nothing"
    _step(model, optimizer)
    held = meter.tensor_bytes(list(optimizer.state.values()), getattr(optimizer, "table", None) if name == "8 bits" else None)
    counted = held if name != "tensor lr" else held + 4
    assert expected == ct.optimizer_bytes(optimizer) == counted


def test_muon() -> None:
    if not hasattr(O, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    model = nn.Linear(40, 30, bias=False)
    optimizer = O.Muon(model.parameters())
    assert ct.optimizer_bytes(optimizer) == 40 * 30 * 4
    _step(model, optimizer)
    assert ct.optimizer_bytes(optimizer) == 40 * 30 * 4


def test_hooks_and_schedulers_do_not_run() -> None:
    model, calls = _model(), []
    optimizer = O.Adam(model.parameters())
    scheduler = O.lr_scheduler.StepLR(optimizer, 1)
    optimizer.register_step_pre_hook(lambda *_a: calls.append("before"))
    handle = register_optimizer_step_post_hook(lambda *_a: calls.append("after"))
    try:
        expected = ct.optimizer_bytes(optimizer)
    finally:
        handle.remove()
    assert calls == [] and scheduler.last_epoch == 0 and not hasattr(optimizer, "_opt_called")
    _step(model, optimizer)
    assert ct.optimizer_bytes(optimizer) == expected > 0


def test_an_optimizer_that_takes_a_closure() -> None:
    model = _model()
    optimizer = TwoSteps(model.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    steps = sum(p.requires_grad for p in model.parameters())
    assert ct.optimizer_bytes(optimizer) == 4 * (3 * trained + steps)
    assert not optimizer.state and not optimizer.base.state


@pytest.mark.slow
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_holds_at_most_what_is_said(search: Any) -> None:
    """While its closure runs, all tensors of this process are counted."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 1)), torch.randn(200, 30)
    target = torch.sin(3 * x[:, :1])
    optimizer = O.LBFGS(model.parameters(), history_size=3, max_iter=8, line_search_fn=search, tolerance_change=0.0, tolerance_grad=0.0)
    said = ct.optimizer_bytes(optimizer)
    most = 0

    def alive() -> int:
        found = [v for v in gc.get_objects() if type(v) in (torch.Tensor, nn.Parameter)]  # no fake ones, which hold nothing
        return sum({v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in found}.values())

    def closure() -> Any:
        nonlocal most
        optimizer.zero_grad()
        most = max(most, alive())
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    del model[0].weight.grad
    gc.collect()  # what other tests left behind must not go in between
    before = alive()
    for _ in range(4):
        optimizer.step(closure)
    one = sum(p.numel() * 4 for p in model.parameters())
    assert most - before <= said
    assert said <= most - before + (7 if search else 2) * one, "and not much more"
    assert ct.optimizer_bytes(optimizer) == said, "the same after its first step"


def test_what_cannot_be_tried_is_named() -> None:
    class Odd(Lion):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            raise RuntimeError("needs a device\nof a kind")

    optimizer = Odd(_model().parameters())
    with pytest.raises(ValueError, match=r"state of Odd is not known .*\(RuntimeError: needs a device\).*fixed_bytes"):
        ct.optimizer_bytes(optimizer)


def test_a_step_that_makes_nothing_only_because_it_fails_is_not_believed() -> None:
    class Half(Lion):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters)
            for p in self.param_groups[0]["params"]:
                self.state[p]["steps"] = 0  # no tensor yet

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            if torch.isfinite(self.param_groups[0]["params"][-1].grad).all():
                raise RuntimeError("no second derivative")

    with pytest.raises(ValueError, match="no second derivative"):
        ct.optimizer_bytes(Half(_model().parameters()))


@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit"])
def test_quantized_states_of_torchao(name: str) -> None:
    optim = pytest.importorskip("torchao.optim", reason="torchao is not installed")
    model = nn.Linear(128, 128)
    optimizer = getattr(optim, name)(model.parameters())
    expected = ct.optimizer_bytes(optimizer)
    assert expected < 2 * 128 * 129 * 4 // 3, "less than in single precision"
    with torch.compiler.set_stance("force_eager"):
        _step(model, optimizer)
    assert ct.optimizer_bytes(optimizer) == expected


def test_wrappers_are_looked_through() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    model = _model()
    plain = O.AdamW(model.parameters())
    expected = ct.optimizer_bytes(plain)
    prepared = accelerate.Accelerator(cpu=True).prepare(plain)
    assert type(prepared) is not type(plain)
    assert ct.optimizer_bytes(prepared) == expected
    _step(model, plain)
    assert ct.optimizer_bytes(prepared) == expected


def test_transformers_adafactor() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = _model()
    optimizer = transformers.Adafactor(model.parameters())
    expected = ct.optimizer_bytes(optimizer)
    _step(model, optimizer)
    assert ct.optimizer_bytes(optimizer) == expected > 0


def test_the_state_is_in_the_plan() -> None:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Flatten(0)), torch.randn(16, 64)
    optimizer = O.Adafactor(model.parameters())
    compiled = ct.compile(model, "1GiB", optimizer=optimizer, costs="estimate", time_limit=1)
    compiled(x)
    torch._dynamo.reset()
    plain = ct.compile(model, "1GiB", costs="estimate", time_limit=1)
    plain(x)
    state = optimizers.optimizer_bytes(optimizer)
    assert ct.plans(compiled)[0].peak_bytes == ct.plans(plain)[0].peak_bytes + state
    assert 0 < state < 3000
