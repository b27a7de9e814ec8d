# SPDX-License-Identifier: Apache-2.0
"""Strides are traced as kernels give them, so that nothing is copied that eager mode does not copy."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import checkmate.torch as c  # noqa: E402
from checkmate.torch import strides  # noqa: E402


class Pooled(torch.nn.Module):
    """As transformers' Swin ends: the gradient that reaches the normalization is transposed, and its operand's goes two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = torch.nn.Linear(32, 32), torch.nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(x)
        x = self.norm(x + self.inner(x))
        return torch.nn.functional.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1)


def test_no_copy_is_traced_that_eager_mode_does_not_make() -> None:
    torch.manual_seed(1)
    model = Pooled()
    x = torch.randn(8, 64, 32, requires_grad=True)
    model(x).square().sum().backward()
    expected = [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
    x.grad = None
    model.zero_grad()
    compiled = c.compile(model, "100%", time_limit=1, threads=1)
    compiled(x).square().sum().backward()
    (plan,) = c.plans(compiled)
    assert not [op.name for op in plan.graph.ops if op.name.startswith("clone")], [op.name for op in plan.graph.ops]
    assert all(torch.equal(a, b) for a, b in zip([x.grad, *(p.grad for p in model.parameters())], expected, strict=True))


def test_what_is_traced_of_layer_norm_is_what_its_kernel_gives() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def results() -> list[object]:
        gradient = torch.empty(8, 32, 64).transpose(1, 2)
        one = torch.empty(8, 64, 1)
        found = []
        for x in (torch.empty(8, 64, 32), torch.empty(8, 32, 64).transpose(1, 2)):
            for mask in ([True, True, True], [True, False, False], [False, True, False]):
                weight = torch.empty(32)
                made = torch.ops.aten.native_layer_norm_backward(gradient, x, [32], one, one, weight, weight, mask)
                found.append([None if t is None else (t.shape, t.stride(), t.dtype) for t in made])
        return found

    expected = results()
    with strides.as_kernels_have_them(), FakeTensorMode():
        assert results() == expected


def test_tracing_elsewhere_is_as_before() -> None:
    from torch._decomp import meta_table
    from torch._subclasses.fake_impls import op_implementations_dict

    before = dict(meta_table), dict(op_implementations_dict)
    with strides.as_kernels_have_them(), pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert (meta_table, op_implementations_dict) == before
