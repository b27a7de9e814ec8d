# SPDX-License-Identifier: Apache-2.0
"""Results written over dead operands: the same bits, fewer bytes, and never over what somebody needs again."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, backward, difference, trace  # noqa: E402
from torch import fx, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import inplace  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402

ROWS, WIDTH = 256, 32
_aten = torch.ops.aten
_x, _y = torch.randn(37, 53), torch.randn(37, 53)
_index = [torch.tensor([3, 0, 3])]

#: A call, its arguments, and how many operands it can write over.
CALLS: list[tuple[Any, tuple[Any, ...], int]] = [
    (_aten.relu.default, (_x,), 1),
    (_aten.gelu.default, (_x,), 1),
    (_aten.silu.default, (_x,), 1),
    (_aten.tanh.default, (_x.T,), 1),
    (_aten.exp.default, (_x,), 1),
    (_aten.add.Tensor, (_x, _y), 2),
    (_aten.add.Tensor, (_x, _y[0]), 1),
    (_aten.add.Tensor, (_x, _y.T.contiguous().T), 1),
    (_aten.sub.Tensor, (_x, _y), 2),
    (_aten.mul.Tensor, (_x, 0.3), 1),
    (_aten.mul.Tensor, (_x.int(), 0.3), 0),
    (_aten.div.Tensor, (_x, _y), 2),
    (_aten.pow.Tensor_Scalar, (_x, 3), 1),
    (_aten.clamp.default, (_x, -0.5, 0.5), 1),
    (_aten.where.self, (_x > 0, _x, _y), 2),
    (_aten.threshold_backward.default, (_x, _y, 0), 2),
    (_aten.tanh_backward.default, (_x, _y), 2),
    (_aten.sigmoid_backward.default, (_x, _y), 2),
    (_aten.gelu_backward.default, (_x, _y), 2),
    (_aten.silu_backward.default, (_x, _y), 2),
    (_aten.hardtanh_backward.default, (_x, _y, -0.5, 0.5), 2),
    (_aten.leaky_relu_backward.default, (_x, _y, 0.1, False), 2),
    (_aten.masked_fill.Scalar, (_x, _y > 0, 2.0), 1),
    (_aten.index_put.default, (_x, _index, _y[:3], True), 1),
    (_aten.select_scatter.default, (_x, _y[0], 0, 2), 1),
    (_aten.slice_scatter.default, (_x, _y[:, :5], 1, 3, 8), 1),
    (_aten.copy.default, (_x, _y), 1),
    (_aten.mm.default, (_x, _y.T), 0),
    (_aten.native_dropout_backward.default, (_x, _y > 0, 2.0), 0),
    (_aten.cumsum.default, (_x, 0), 0),
    (_aten.bernoulli.p, (_x, 0.5), 0),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _call(target: Any, arguments: tuple[Any, ...]) -> tuple[fx.Node, list[fx.Node]]:
    """A call of copies of the tensors among the arguments, one node each."""
    graph = fx.Graph()
    operands: list[fx.Node] = []

    def operand(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        node = graph.call_function(_aten.clone.default, (graph.placeholder("x"),))
        node.meta["val"] = value
        operands.append(node)
        return node

    node = graph.call_function(target, torch.utils._pytree.tree_map(operand, arguments))
    node.meta["val"] = target(*arguments)
    return node, operands


@pytest.mark.parametrize(("target", "arguments", "count"), CALLS, ids=lambda value: str(value) if callable(value) else "")
def test_a_call_over_its_operand_gives_the_same_bits(target: Any, arguments: tuple[Any, ...], count: int) -> None:
    node, operands = _call(target, arguments)
    found = list(inplace.candidates(node))
    assert len(found) == count
    for candidate in found:
        graph = fx.Graph()
        values = {operand: graph.placeholder(f"x{i}") for i, operand in enumerate(operands)}
        new = inplace.emit(graph, node, candidate, values.__getitem__)
        assert new.meta[inplace.OVER] is values[candidate]
        graph.output(new)
        # Layouts are part of what is compared: a copy keeps them.
        copies = [operand.meta["val"].clone(memory_format=torch.preserve_format) for operand in operands]
        result = fx.GraphModule({}, graph)(*copies)
        assert result.data_ptr() == copies[operands.index(candidate)].data_ptr()
        assert torch.equal(result, node.meta["val"])
        assert result.stride() == node.meta["val"].stride()


def _layouts(dtype: Any) -> dict[str, Any]:
    """Operands of one shape, and what has to be done to them to be others."""

    def made(*shape: int) -> Any:
        return torch.randn(shape, dtype=dtype) if dtype.is_complex or dtype.is_floating_point else torch.randint(1, 7, shape).to(dtype)

    return {
        "contiguous": made(2, 3, 4, 6),
        "transposed": made(6, 4, 3, 2).permute(3, 2, 1, 0),
        "expanded": made(1, 3, 4, 6).expand(2, 3, 4, 6),
        "sliced": made(4, 6, 8, 12)[::2, ::2, ::2, ::2],
        "channels last": made(2, 3, 4, 6).to(memory_format=torch.channels_last),
    }


def _elementwise() -> list[Any]:
    """Those of PyTorch's operators that can write over an operand."""
    packets = (getattr(_aten, name) for name in dir(_aten) if not name.startswith("__"))
    overloads = [getattr(p, name) for p in packets if isinstance(p, torch._ops.OpOverloadPacket) for name in p.overloads()]
    return [op for op in overloads if op not in inplace._WRITES and any(inplace._variants(op))]


def _arguments(op: Any, operands: list[Any], dtype: Any) -> list[Any]:
    """The operands, and numbers for what else it takes. None where it takes something else."""
    numbers = {"number": 0.7 if dtype.is_floating_point or dtype.is_complex else 2, "float": 0.7, "int": 2, "bool": False}
    left, made = list(operands), []
    for argument in op._schema.arguments:
        if argument.kwarg_only:
            break
        if str(argument.type) == "Tensor":
            made.append(left.pop(0) if left else operands[-1])
        else:
            made.append(argument.default_value if argument.has_default_value() else numbers.get(str(argument.type)))
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int64], ids=str)
def test_every_elementwise_call_gives_the_same_bits_over_every_operand(dtype: Any) -> None:
    compared, layouts = 0, _layouts(dtype)
    pairs = [(a, b) for i, a in enumerate(layouts.values()) for j, b in enumerate(layouts.values()) if i == j or j < 2]
    for op in _elementwise():
        for pair in pairs:
            given = _arguments(op, list(pair), dtype)
            if op is _aten.where.self:
                given[0] = torch.rand(given[1].shape) > 0.5
            try:
                node, operands = _call(op, tuple(given))
            except (RuntimeError, TypeError, IndexError, NotImplementedError):
                continue  # not of this type
            for candidate in inplace.candidates(node):
                variant = inplace.over(node, candidate)
                place = operands.index(candidate)
                copies = [operand.meta["val"].clone() if i == place else operand.meta["val"] for i, operand in enumerate(operands)]
                values = iter(copies)
                arguments = [next(values) if isinstance(value, torch.Tensor) else value for value in given]
                found = variant.target(*arguments, **({variant.out: copies[place]} if variant.out else {}))
                same = torch.equal(torch.nan_to_num(found), torch.nan_to_num(node.meta["val"]))
                assert same, f"{op} over operand {place} of {[(v.dtype, v.shape, v.stride()) for v in copies]}"
                compared += 1
    assert (compared == 0) if dtype.is_complex else (compared > 100)


def test_spectral_layers_have_the_gradients_of_eager_mode() -> None:
    def loss(self: Any, x: Any) -> Any:
        for layer in self.body:
            modes = torch.fft.rfft(x, dim=1, norm="ortho")
            kept = torch.zeros_like(modes)
            kept[:, :9] = modes[:, :9] * torch.view_as_complex(self.weight).t()[None]
            x = functional.gelu(torch.fft.irfft(kept, n=x.shape[1], dim=1, norm="ortho") + layer(x))
        return x.square().mean()

    model = Model(loss, body=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), weight=nn.Parameter(torch.randn(WIDTH, 9, 2) * 0.1))
    x = torch.randn(8, 64, WIDTH)
    for budget in ("100%", "70%"):
        torch._dynamo.reset()
        compiled = ct.compile(model, budget, time_limit=1, costs="estimate")
        assert not difference(trace(model, compiled, [x]), trace(model, model, [x]))


def test_an_operand_that_is_also_written_from_is_left_alone() -> None:
    graph = fx.Graph()
    x = graph.call_function(_aten.clone.default, (graph.placeholder("x"),))
    x.meta["val"] = torch.randn(4, 4)
    copied = graph.call_function(_aten.index_put.default, (x, [torch.tensor([0, 1, 2, 3])], x))
    added = graph.call_function(_aten.add.Tensor, (x, x))
    for node in (copied, added):
        node.meta["val"] = torch.randn(4, 4)
    assert not list(inplace.candidates(copied))
    assert list(inplace.candidates(added)) == [x]


def overwrites(model: Model, inputs: list[Any], budget: str) -> tuple[int, ct.Plan]:
    """How many calls write over an operand, after the results were compared with those of eager mode."""
    compiled = ct.compile(model, budget, time_limit=2)
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    (plan,) = ct.plans(compiled)
    step = lambda: backward(compiled(*inputs))  # noqa: E731
    measured = meter.peak_bytes(step, model, inputs)
    assert 0.97 * plan.peak_bytes <= measured <= plan.peak_bytes + 64
    return sum(len(step.inplace) for step in plan.schedule.steps), plan


def test_inplace_activations_need_no_more_than_in_eager_mode() -> None:
    def loss(self: Any, x: Any) -> Any:
        for part in self.body:
            x = functional.relu(part(x), inplace=True)
        return x.sum()

    model = Model(loss, body=nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]))
    x = torch.randn(ROWS, WIDTH)
    model(x).backward()
    model.zero_grad(set_to_none=True)
    eager = meter.peak_bytes(lambda: model(x).backward(), model, x)
    model.zero_grad(set_to_none=True)
    count, plan = overwrites(model, [x], "100%")
    assert count > 0
    assert plan.peak_bytes <= eager + 64


def test_gradients_are_added_up_in_place() -> None:
    """Autograd does so in eager mode, too; and at a small budget the bytes are needed."""

    def loss(self: Any, x: Any) -> Any:
        for part in self.body:
            x = x + functional.gelu(part(x))
        return x.square().sum()

    model = Model(loss, body=nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(6)]))
    count, plan = overwrites(model, [torch.randn(4 * ROWS, WIDTH)], "60%")
    assert count > 0
    assert plan.recomputed


def test_the_backward_pass_can_run_twice() -> None:
    """What the forward pass saved is not written over, not even by calls that are computed again."""

    def twice(loss: Any) -> None:
        loss.backward(retain_graph=True)
        loss.backward()

    def loss(self: Any, x: Any) -> Any:
        for part in self.body:
            x = torch.exp(-functional.relu(torch.sin(part(x)), inplace=True))
        return x.sum()

    model = Model(loss, body=nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(5)]))
    x = torch.randn(ROWS, WIDTH)
    for budget in ("100%", "70%"):
        torch._dynamo.reset()
        compiled = ct.compile(model, budget, time_limit=2, costs="estimate")
        assert not difference(trace(model, compiled, [x], twice), trace(model, model, [x], twice))
        assert any(step.inplace for step in ct.plans(compiled)[0].schedule.steps)


def test_what_the_caller_gets_is_not_written_over() -> None:
    def outputs(self: Any, x: Any) -> Any:
        h = self.body(x)
        return torch.relu(h).sum(), h, h.neg(), torch.exp(h.T)

    def all_of_them(found: Any) -> None:
        sum(f.sum() for f in found).backward()

    model = Model(outputs, body=nn.Linear(WIDTH, WIDTH))
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    compiled = ct.compile(model, "100%", time_limit=2, costs="estimate", loss="all")
    assert not difference(trace(model, compiled, [x], all_of_them), trace(model, model, [x], all_of_them))


def test_inputs_and_parameters_are_not_written_over() -> None:
    def loss(self: Any, x: Any) -> Any:
        return (torch.exp(x) * torch.neg(self.weight) + torch.relu(x.T).T).sum()

    model = Model(loss, weight=nn.Parameter(torch.randn(ROWS, WIDTH)))
    x = torch.randn(ROWS, WIDTH)
    compiled = ct.compile(model, "100%", time_limit=2, costs="estimate")
    assert not difference(trace(model, compiled, [x]), trace(model, model, [x]))
