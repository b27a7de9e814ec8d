# SPDX-License-Identifier: Apache-2.0
"""Copies in the joint graph that eager mode does not make, and those that must stay."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def clones(compiled: Any) -> int:
    return sum(op.name.startswith("clone") for op in ct.plans(compiled)[0].graph.ops)


def test_dropout_of_probability_zero_holds_nothing() -> None:
    layers = [nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.0)) for _ in range(6)]
    model = Model(lambda self, x: self.body(x).square().mean(), body=nn.Sequential(*layers))
    x = torch.randn(512, 128)
    eager = meter.peak_bytes(lambda: model(x).backward(), model, x)
    model.zero_grad(set_to_none=True)
    compiled = ct.compile(model, "100%", **FAST)
    assert difference(trace(model, compiled, (x,)), trace(model, model, (x,))) == ""
    assert clones(compiled) == 0
    assert ct.plans(compiled)[0].peak_bytes <= eager
    torch._dynamo.reset()
    tight = ct.compile(model, "75%", **FAST)
    assert difference(trace(model, tight, (x,)), trace(model, model, (x,))) == ""


def parts_of_a_copy(self: Any, x: Any) -> Any:
    """Views, and elements of several, of what was copied."""
    copy = self.layer(x).tanh().clone()
    left, right = copy.t().contiguous().t().chunk(2, 1)
    return (left * right).sum() + copy.view(-1)[3:7].sum()


def outputs(self: Any, x: Any) -> Any:
    """The caller may write to one of the two."""
    h = self.layer(x).tanh()
    return h.square().mean(), h.detach(), h.clone().detach()


def updated(self: Any, x: Any) -> Any:
    """What a buffer was, and what it becomes. PyTorch's tracing copies it once more, but not in 2.8."""
    before = self.count.clone()
    self.count.add_(1)
    return (self.layer(x) * before).sum() + self.count.sum()


def of_a_parameter(self: Any, x: Any) -> Any:
    return (x @ self.layer.weight.clone()).tanh().sum()


@pytest.mark.parametrize(
    ("function", "stay"), [(parts_of_a_copy, 1), (outputs, 1), (updated, 1 if torch.__version__ < "2.9" else 2), (of_a_parameter, 1)]
)
def test_copies_that_matter_stay(function: Any, stay: int) -> None:
    model, x = Model(function, layer=nn.Linear(8, 8), count=torch.ones(8)), torch.randn(4, 8, requires_grad=True)
    compiled = ct.compile(model, "100%", **FAST)
    assert difference(trace(model, compiled, (x,)), trace(model, model, (x,))) == ""
    found = compiled(x)
    if function is outputs:
        found[1].fill_(7)
        assert not found[2].eq(7).any()
    assert clones(compiled) == stay
