# SPDX-License-Identifier: Apache-2.0
"""Views of a dropout's result share its storage: what is saved through a view is not written over."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import steps  # noqa: E402

import checkmate.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("budget", ["100%", "70%"])
def test_what_is_saved_through_a_view(budget: str, permuted: bool) -> None:
    def run(self, x):  # type: ignore[no-untyped-def]
        x = self.norm(x)
        x = self.drop(x.transpose(0, 1) if permuted else x)
        return (torch.relu(self.first(x)) + x).square().mean()

    torch.manual_seed(0)
    model = steps.Model(run, norm=torch.nn.LayerNorm(32), drop=torch.nn.Dropout(0.1), first=torch.nn.Linear(32, 32))
    x = torch.randn(16, 24, 32)
    compiled = ct.compile(model, budget, **steps.FAST)
    assert steps.difference(steps.trace(model, compiled, [x]), steps.trace(model, model, [x])) == ""
    (plan,) = ct.plans(compiled)
    if not permuted:  # else it is copied first
        product = next(i for i, t in enumerate(plan.graph.tensors) if t.name.startswith("mul_tensor"))
        assert [(t.bytes, t.alias_of) for t in plan.graph.tensors if t.name == "view"] == [(0, product)]
