# SPDX-License-Identifier: Apache-2.0
"""The gradient of a tensor that was taken apart: one call, and the same bits as eager mode's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, difference, needs_inductor, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.rewrite import split_gradients  # noqa: E402

ROWS, WIDTH = 6, 12
_SCATTERS = ("select_backward", "slice_backward")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def calls(monkeypatch: Any) -> Counter[str]:
    """How often each operator is called in the joint graph after the pass."""
    counted: Counter[str] = Counter()
    apply = split_gradients.apply

    def observe(module: torch.fx.GraphModule) -> None:
        apply(module)
        module.graph.lint()
        counted.update(node.target.overloadpacket.__name__ for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload))

    monkeypatch.setattr(split_gradients, "apply", observe)
    return counted


def _weights(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)


def _same_as_eager(take: Callable[[torch.Tensor], Any], **options: Any) -> None:
    """A linear layer's output is taken apart, and each part is weighed differently."""

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        parts = take(m.linear(x).tanh())
        return sum((part.sin() * _weights(*part.shape)).sum() for part in parts)

    torch.manual_seed(0)
    model = Model(function, linear=nn.Linear(WIDTH, WIDTH)).train()
    inputs = [torch.randn(4, ROWS, WIDTH, requires_grad=True)]
    compiled = ct.compile(model, "100%", cache=False, costs="estimate", **options)
    assert difference(trace(model, compiled, inputs), trace(model, model, inputs)) == ""


def _thirds(y: torch.Tensor) -> torch.Tensor:
    return y.view(4, ROWS, 3, WIDTH // 3)


COVERED: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "indices": (lambda y: [y[:, i] for i in range(ROWS)], "stack"),
    "in another order": (lambda y: [y[:, i] for i in (3, 0, 5, 1, 4, 2)], "stack"),
    "negative": (lambda y: [y.select(-2, i - ROWS) for i in range(ROWS)], "stack"),
    "unpacked": (lambda y: [*y], "stack"),
    "ranges": (lambda y: [y[..., :5], y[..., 5:-1], y[..., -1:]], "cat"),
    "ranges and indices": (lambda y: [y[:, :3], y[:, 3], y[:, 4], y[:, 5:]], "cat"),
    "permuted and copied": (lambda y: [*_thirds(y).permute(2, 0, 3, 1)], "cat"),
    "transposed and copied": (lambda y: (lambda z: [z[:2], z[2:]])(_thirds(y).transpose(0, 2)), "cat"),
}


@pytest.mark.parametrize("name", COVERED)
def test_parts_that_cover_the_tensor_are_gathered_by_one_call(name: str, calls: Counter[str]) -> None:
    take, gather = COVERED[name]
    _same_as_eager(take)
    assert calls[gather] == 1
    assert not any(calls[scatter] for scatter in _SCATTERS)


def test_a_copy_behind_the_parts_is_saved(calls: Counter[str]) -> None:
    _same_as_eager(lambda y: [*_thirds(y).permute(2, 0, 3, 1)])
    assert calls["clone"] == 0


LEFT: dict[str, Callable[[torch.Tensor], Any]] = {
    "overlapping": lambda y: [y[:, :4], y[:, 2:]],
    "overlapping, as long as the whole": lambda y: [y[:, :3], y[:, 2:5]],
    "missing": lambda y: [y[:, :2], y[:, 3:]],
    "missing index": lambda y: [y[:, i] for i in (0, 1, 2, 4, 5)],
    "other dimensions": lambda y: [y[:, :3], y[..., :6]],
    "with a step": lambda y: [y[:, ::2], y[:, 1::2]],
    "one part": lambda y: [y[:, 1:]],
}


@pytest.mark.parametrize("name", LEFT)
def test_other_sums_are_left(name: str, calls: Counter[str]) -> None:
    _same_as_eager(LEFT[name])
    assert calls["stack"] == calls["cat"] == 0
    assert any(calls[scatter] for scatter in _SCATTERS)


def _sum_graph(write: Callable[[torch.Tensor, torch.Tensor], Any]) -> torch.fx.GraphModule:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        x, y = torch.empty(4, 5), torch.empty(4, 5)
    return make_fx(write, tracing_mode="real")(x, y)


def _select(x: torch.Tensor, index: int) -> torch.Tensor:
    return torch.ops.aten.select_backward.default(x, [2, 4, 5], 0, index)


def _count(module: torch.fx.GraphModule) -> Counter[str]:
    return Counter(node.target.overloadpacket.__name__ for node in module.graph.nodes if node.op == "call_function")


GRAPHS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], Any], int]] = {
    "a sum": (lambda x, y: _select(x, 0) + _select(y, 1), 1),
    "the same index twice": (lambda x, y: _select(x, 1) + _select(y, 1), 0),
    "one part, added to itself": (lambda x, y: (lambda part: part + part)(_select(x, 0)), 0),
    "a part that something else reads": (lambda x, y: (lambda part: (part + _select(y, 1), part.neg()))(_select(x, 0)), 0),
    "alpha": (lambda x, y: torch.add(_select(x, 0), _select(y, 1), alpha=2), 0),
    "another term": (lambda x, y: _select(x, 0) + y, 0),
    "broadcast": (lambda x, y: _select(x, 0) + torch.ops.aten.select_backward.default(y[:1], [2, 1, 5], 0, 1), 0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_counts_as_a_sum_of_parts(name: str) -> None:
    write, stacks = GRAPHS[name]
    module = _sum_graph(write)
    before = _count(module)
    split_gradients.apply(module)
    module.graph.lint()
    module.recompile()
    assert _count(module)["stack"] == stacks
    assert stacks or _count(module) == before
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    assert torch.utils._pytree.tree_all(lambda same: same, torch.utils._pytree.tree_map(torch.equal, module(x, y), write(x, y)))


def test_a_sum_with_other_strides_is_left() -> None:
    """Parts in the layout of images give a sum in that layout, and a stack that is contiguous."""
    module = _sum_graph(lambda x, y: _select(x, 0) + _select(y, 1))
    total = next(node for node in module.graph.nodes if node.target is torch.ops.aten.add.Tensor)
    value = total.meta["val"]
    with value.fake_mode:
        total.meta["val"] = torch.empty_strided(value.shape, (5, 10, 1))
    before = _count(module)
    split_gradients.apply(module)
    assert _count(module) == before


@pytest.mark.slow
@needs_inductor
def test_inductor_gets_the_graph_as_it_was(calls: Counter[str]) -> None:
    _same_as_eager(lambda y: [*_thirds(y).permute(2, 0, 3, 1)])
    assert calls["cat"] == 1
    seen = calls.total()
    torch._dynamo.reset()
    model = Model(lambda m, x: sum((part * i).sum() for i, part in enumerate(m.linear(x))), linear=nn.Linear(WIDTH, WIDTH))
    compiled = ct.compile(model, "100%", cache=False, costs="estimate", compiler="inductor")
    compiled(torch.randn(3, WIDTH)).backward()
    assert calls.total() == seen
