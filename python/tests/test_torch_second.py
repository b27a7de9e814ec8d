# SPDX-License-Identifier: Apache-2.0
"""Gradients of gradients: an error, never zeros or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, needs_inductor  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402


class Net(nn.Module):
    """With `views`, a step that is not plain: AOTAutograd's own functions run it."""

    def __init__(self, *, views: bool) -> None:
        super().__init__()
        self.body, self.views = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), views

    def forward(self, x: Any) -> Any:
        loss = self.body(x).square().mean()
        return (loss, x.view(-1)) if self.views else loss


def _loss(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found


def _hessian(run: Any, _net: Net, x: Any) -> None:
    torch.autograd.functional.hessian(lambda a: _loss(run(a)), x)


def _hvp(run: Any, _net: Net, x: Any) -> None:
    torch.autograd.functional.hvp(lambda a: _loss(run(a)), x, torch.ones_like(x))


def _hutchinson(run: Any, net: Net, x: Any) -> None:
    parameters = list(net.parameters())
    first = torch.autograd.grad(_loss(run(x)), parameters, create_graph=True)
    torch.autograd.grad(first, parameters, [torch.ones_like(g) for g in first], allow_unused=True)


def _penalty(run: Any, _net: Net, x: Any) -> None:
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(_loss(run(x)), x, create_graph=True)
    (first.norm() - 1).square().backward()


def _behind_another(run: Any, net: Net, x: Any) -> None:
    """What the step is called with was computed of what is differentiated by."""
    x = x.clone().requires_grad_()
    for p in net.parameters():
        p.requires_grad_(False)
    (first,) = torch.autograd.grad(_loss(run(x * 2)), x, create_graph=True)
    torch.autograd.grad(first.sum(), x, allow_unused=True)


WAYS = [_hessian, _hvp, _hutchinson, _penalty, _behind_another]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("views", [False, True], ids=["plain", "views"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__[1:])
def test_a_gradient_of_a_gradient_is_an_error(way: Callable[..., None], views: bool) -> None:
    net, x = Net(views=views), torch.randn(3, 8)
    way(net, net, x)
    with pytest.raises(RuntimeError, match="double backward"):
        way(ct.compile(net, "100%", **FAST), net, x)


@needs_inductor
def test_a_gradient_of_a_gradient_through_generated_code_is_an_error() -> None:
    net, x = Net(views=False), torch.randn(3, 8)
    with pytest.raises(RuntimeError, match=r"double backward|create_graph=False"):
        _hessian(ct.compile(net, "100%", compiler="inductor", **FAST), net, x)


@pytest.mark.parametrize("views", [False, True], ids=["plain", "views"])
def test_a_graph_of_the_backward_pass_that_nobody_differentiates_is_no_error(views: bool) -> None:
    net, x = Net(views=views), torch.randn(3, 8)
    expected = torch.autograd.grad(_loss(net(x)), list(net.parameters()), create_graph=True)
    found = torch.autograd.grad(_loss(ct.compile(net, "100%", **FAST)(x)), list(net.parameters()), create_graph=True)
    assert all(torch.equal(a, b) and b.requires_grad for a, b in zip(expected, found, strict=True))
