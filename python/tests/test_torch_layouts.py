# SPDX-License-Identifier: Apache-2.0
"""Gradients that come in another layout than PyTorch's tracing assumes are told, since they may round differently."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.8")

from steps import FAST, Model, difference  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def transposed(model: Any, x: Any) -> Any:
    return nn.functional.gelu(model.conv(x)[:, :, :-1]).transpose(1, 2)


def normalized(output: Any) -> Any:
    """Its gradient is contiguous, whatever the output is."""
    return (nn.functional.layer_norm(output, (16,)) * torch.arange(16.0)).square().mean()


def gradients(model: Any, run: Any, x: Any, loss: Any) -> list[Any]:
    model.zero_grad()
    loss(run(x)).backward()
    return [p.grad.clone() for p in model.parameters()]


def outcome(forward: Any, loss: Any) -> tuple[bool, list[str]]:
    """Whether gradients are eager mode's, and what is said."""
    torch.manual_seed(0)
    model, x = Model(forward, conv=nn.Conv1d(16, 16, 16, padding=8)), torch.randn(2, 16, 50)
    usual = copy.deepcopy(model)
    compiled = ct.compile(model, "1GiB", **FAST)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = [gradients(model, compiled, x, loss) for _ in range(2)][-1]
    same = difference(found, gradients(usual, usual, x, loss)) == ""
    return same, [str(w.message) for w in said if "layout" in str(w.message)]


def test_a_gradient_in_another_layout_is_told() -> None:
    same, (told,) = outcome(transposed, normalized)  # once in two steps
    line = transposed.__code__.co_firstlineno + 1
    assert not same and f"({__file__}:{line})" in told and ".contiguous()" in told


def test_what_it_says_works() -> None:
    assert outcome(lambda m, x: transposed(m, x).contiguous(), normalized) == (True, [])
    assert outcome(lambda m, x: normalized(transposed(m, x)), lambda loss: loss) == (True, [])


def test_a_gradient_that_is_the_same_everywhere() -> None:
    assert outcome(transposed, lambda output: output.sum()) == (True, [])


def test_a_batch_norm_given_a_gradient_that_is_the_same_everywhere() -> None:
    def forward(model: Any, x: Any) -> Any:
        return nn.functional.batch_norm(model.conv(x), None, None, training=True)

    same, told = outcome(forward, lambda output: output.sum())
    assert not same and len(told) == 1 and "Take the loss inside" in told[0]
    assert outcome(lambda m, x: forward(m, x).sum(), lambda loss: loss) == (True, [])
    assert outcome(forward, lambda output: (output * torch.rand_like(output)).sum())[1] == []
