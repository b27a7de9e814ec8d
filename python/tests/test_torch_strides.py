# SPDX-License-Identifier: Apache-2.0
"""Strides are traced as kernels give them, so that nothing is copied that eager mode does not copy."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, gradients  # noqa: E402

import checkmate.torch as c  # noqa: E402
from checkmate.torch.rewrite import strides  # noqa: E402


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


class Mixer(torch.nn.Module):
    """The gradient that reaches the activation is transposed."""

    def __init__(self, activation: Any) -> None:
        super().__init__()
        self.inner, self.outer, self.activation = torch.nn.Linear(16, 8), torch.nn.Conv1d(8, 8, 3), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.activation(self.inner(x)).transpose(1, 2)).transpose(1, 2).contiguous().square().sum()


F = torch.nn.functional
ACTIVATIONS = [F.softplus, F.elu, F.celu, F.selu, F.hardswish, F.hardsigmoid, F.hardtanh, F.relu6, F.silu, F.mish, F.logsigmoid, torch.special.logit]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda f: f.__name__)
def test_gradients_behind_a_transposed_activation(activation: Any) -> None:
    torch._dynamo.reset()
    torch.manual_seed(1)
    model, x = Mixer(activation), torch.rand(2, 12, 16) * 0.1
    expected = gradients(model, model, x)
    compiled = c.compile(model, "100%", **FAST)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(gradients(model, compiled, x), expected, strict=True))


def test_verification_runs_there_too() -> None:
    torch._dynamo.reset()
    compiled = c.compile(Mixer(F.softplus), "100%", verify=True, **FAST)
    compiled(torch.rand(2, 12, 16)).backward()
    assert not c.plans(compiled)[0].verification.by("AOTAutograd")


def test_what_is_traced_of_elementwise_calls_is_what_their_kernels_give() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def strides_of(call: Any) -> list[tuple[int, ...]]:
        x = torch.rand(2, 3, 4, 5)
        operands = [x, x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0), x[:1].expand(2, 3, 4, 5), torch.rand(4, 6, 8, 10)[::2, ::2, ::2, ::2]]
        operands += [x.to(memory_format=torch.channels_last), x[0], x[:, :1]]
        return [call(a, b).stride() for a in operands[:5] for b in operands]

    aten = torch.ops.aten
    for call in (
        lambda a, b: aten.softplus_backward(a, b, 1, 20),
        lambda a, b: aten.elu_backward(a, b, 1, 1, 1, False),
        aten.copysign, aten.xlogy, aten.logaddexp, aten.logit_backward, aten.hardswish_backward, aten.mul, aten.floor_divide,
    ):  # fmt: skip
        try:
            expected = strides_of(call)
        except RuntimeError:  # operands of other shapes
            continue
        with strides.as_kernels_have_them(), FakeTensorMode():
            assert strides_of(call) == expected, call


def test_positions_that_a_few_elements_do_not_have() -> None:
    torch._dynamo.reset()
    torch.manual_seed(1)
    inner = torch.nn.Linear(16, 16)
    model = Model(lambda self, x: torch.select_scatter(self.inner(x).transpose(0, 1), x[:, 0], 0, 11).tanh().sum(), inner=inner)
    x = torch.rand(12, 12, 16)
    expected = gradients(model, model, x)
    assert all(torch.equal(a, b) for a, b in zip(gradients(model, c.compile(model, "100%", **FAST), x), expected, strict=True))


def test_a_view_of_what_lies_otherwise_than_traced_is_a_copy() -> None:
    from torch import fx

    from checkmate.torch.fx.program import compile_boxed

    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 3, 4)
    made = graph.call_function(torch.ops.aten.view.default, (x, [6, 4]))
    made.meta["val"] = x.meta["val"].view(6, 4)
    read = graph.call_function(torch.ops.aten.neg.default, (made,))
    read.meta["val"] = torch.empty(6, 4)
    graph.output((read,))
    given = torch.randn(4, 3, 2).permute(2, 1, 0)
    assert torch.equal(compile_boxed(fx.GraphModule({}, graph))([given])[0], -given.reshape(6, 4))


def test_tracing_elsewhere_is_as_before() -> None:
    from torch._decomp import meta_table
    from torch._subclasses.fake_impls import op_implementations_dict

    before = dict(meta_table), dict(op_implementations_dict)
    with strides.as_kernels_have_them(), pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert (meta_table, op_implementations_dict) == before
