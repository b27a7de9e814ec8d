# SPDX-License-Identifier: Apache-2.0
"""Dropout on the CPU computes eager mode's bits, holds its noise or its mask alone, and is left alone where it is unusual."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, difference, trace  # noqa: E402
from torch import fx, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch import compiler  # noqa: E402
from checkmate.torch.fx import random_state  # noqa: E402
from checkmate.torch.fx.partition import Halves  # noqa: E402
from checkmate.torch.memory import peak  # noqa: E402
from checkmate.torch.rewrite import dropout  # noqa: E402

aten = torch.ops.aten


def names(module: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def traced(function: Any, x: torch.Tensor) -> fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="fake")(x)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The calls of each joint graph after the rewriting."""
    seen: list[list[str]] = []
    rewrite = dropout.rewrite

    def watched(module: fx.GraphModule, **options: Any) -> None:
        rewrite(module, **options)
        module.graph.lint()
        for node in module.graph.nodes:
            assert node.op != "call_function" or "val" in node.meta
        seen.append(names(module))

    monkeypatch.setattr(dropout, "rewrite", watched)
    return seen


def same(model: nn.Module, inputs: list[Any], budget: str = "100%", eager: nn.Module | None = None, **options: Any) -> list[Any]:
    """The plans of a model whose steps are those of eager mode; `eager`: of that model in eager mode."""
    torch._dynamo.reset()
    compiled = ct.compile(model, budget, time_limit=2, costs="estimate", **options)
    reference = model if eager is None else eager
    reference.load_state_dict(model.state_dict())
    expected = trace(reference, reference, inputs)
    found = trace(model, compiled, inputs)
    assert difference(found, expected) == ""
    return ct.plans(compiled)


def layouts() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(7), torch.randn(3, 5, 7), torch.randn(33, 17).t(), torch.randn(3, 5, 6, 7).permute(0, 3, 1, 2), torch.randn(9, 31)[::2],
            torch.randn(5, 1, 3).expand(5, 4, 3), torch.randn(2, 3, 5).permute(2, 0, 1), torch.randn(3, 1, 7).permute(2, 0, 1)]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.1, 0.5, 1 / 3, 0.9])
def test_bits_and_stream(dtype: torch.dtype, p: float, graphs: list[list[str]]) -> None:
    inputs = [x.to(dtype).requires_grad_() for x in layouts()]
    weights = [torch.randn(x.shape).to(dtype) for x in inputs]

    def run(_m: Any, *xs: torch.Tensor) -> torch.Tensor:
        return sum((functional.dropout(x, p) * w).sum() for x, w in zip(xs, weights, strict=True))

    same(Model(run), inputs)
    (calls,) = graphs
    assert calls.count("aten.bernoulli.p") == len(inputs)
    assert not any("native_dropout" in call for call in calls)


def test_gradient_is_viewed() -> None:
    """PyTorch promises another layout of the gradient of a transposed dropout than its kernel gives."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = (x @ m.w).unflatten(0, (6, 5))
        return (functional.dropout(h.transpose(0, 1), 0.3).tanh() * m.u).sum()

    for u in (torch.randn(5, 6, 8), torch.randn(6, 5, 8).transpose(0, 1)):
        same(Model(run, w=nn.Parameter(torch.randn(8, 8)), u=u), [torch.randn(30, 8)])


def blocks(around: Any = lambda block, x: block(x)) -> nn.Module:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        for block in m.body:
            x = around(block, x)
        return x.square().mean()

    body = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.3), nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.2)) for _ in range(5)
    )
    return Model(run, body=body)


def runs(plan: ct.Plan, name: str) -> int:
    return sum(done.startswith(name) for done in plan.recomputed)


def test_autocast() -> None:
    inner = blocks()

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m.inner(x)

    same(Model(run, inner=inner), [torch.randn(64, 32)], "80%")


@pytest.mark.parametrize("random", ["replay", "keep"])
@pytest.mark.parametrize("budget", ["100%", "65%"])
def test_under_pressure(random: str, budget: str) -> None:
    (plan,) = same(blocks(), [torch.randn(512, 32)], budget, random=random)
    if budget == "100%":
        assert not plan.recomputed
    else:
        assert runs(plan, "div") > 0, "the noise is made again"
    if random == "keep":
        assert runs(plan, "bernoulli") == 0


@pytest.mark.parametrize("budget", ["100%", "65%"])
def test_draws_into_the_noise(budget: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a mask is made only to be converted, and there is room for the noise at once."""
    ran: list[fx.Node] = []
    boxed = compiler.compile_boxed

    def watched(module: fx.GraphModule) -> Any:
        ran.extend(module.graph.nodes)
        return boxed(module)

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        for block in m.body:
            x = functional.dropout(block(x).t(), 0.4).t()
        return x.square().mean()

    monkeypatch.setattr(compiler, "compile_boxed", watched)
    model = Model(run, body=blocks().body)
    (plan,) = same(model, [torch.randn(512, 32)], budget, random="replay")
    draws = [node.args[2] if node.target is random_state.with_state else node.target for node in ran]
    expected = 15 + runs(plan, "bernoulli")
    assert draws.count(aten.bernoulli_.float) + draws.count(aten.bernoulli.p) == expected
    if dropout._in_memory_order():
        assert draws.count(aten.bernoulli.p) == 0 if budget == "100%" else draws.count(aten.bernoulli_.float) > 0

    monkeypatch.setattr(dropout, "draw_noise", lambda _halves, _limit, _levels: False)
    without = len(ran)
    same(model, [torch.randn(512, 32)], budget, random="replay")
    assert not any(aten.bernoulli_.float in (node.target, *node.args) for node in ran[without:])


def test_the_noise_takes_room_only_where_there_is_some() -> None:
    """A schedule may make the place of a mask long before it draws the mask."""
    module = traced(lambda x: aten.native_dropout(aten.repeat(x, [9]).sum() * x, 0.25, True)[0], torch.randn(512))
    dropout.rewrite(module)
    graph = module.graph
    first, (empty,) = next(n for n in graph.nodes if n.op == "call_function"), graph.find_nodes(op="call_function", target=aten.empty.memory_format)
    first.prepend(empty)

    def levels() -> dict[fx.Node, int]:
        found: dict[fx.Node, int] = {}
        peak._walk(graph, {}, peak._Storages(0), {}, found)
        return found

    before = levels()
    limit = max(before.values())
    nothing = fx.GraphModule({}, fx.Graph())
    assert dropout.draw_noise(Halves(module, nothing, 0, []), limit, before)
    graph.lint()
    assert max(levels().values()) <= limit


@pytest.mark.parametrize("binding", ["must", "respect", "override"])
def test_regions(binding: Any) -> None:
    def around(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False)

    (plan,) = same(blocks(around), [torch.randn(64, 32)], checkpoint_policy=binding)
    assert (runs(plan, "bernoulli") > 0) == (binding == "respect")


def selective(choose: Any) -> Any:
    contexts = functools.partial(create_selective_checkpoint_contexts, choose)
    return lambda block, x: checkpoint(block, x, use_reentrant=False, context_fn=contexts)


@pytest.mark.parametrize("random", ["replay", "keep"])
@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE])
def test_policies(policy: CheckpointPolicy, random: str) -> None:
    def choose(_context: Any, called: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        return policy

    # In eager mode, saving what an in-place call writes to is an error.
    (plan,) = same(blocks(selective(choose)), [torch.randn(64, 32)], eager=blocks(), random=random)
    drawn_again = policy == CheckpointPolicy.MUST_RECOMPUTE and random == "replay"
    assert (runs(plan, "bernoulli") > 0) == drawn_again
    assert (runs(plan, "div") > 0) == (policy == CheckpointPolicy.MUST_RECOMPUTE)


def test_saving_the_dropout_saves_its_mask_and_not_its_noise() -> None:
    def choose(_context: Any, called: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if called is aten.native_dropout.default else CheckpointPolicy.PREFER_RECOMPUTE

    (plan,) = same(blocks(selective(choose)), [torch.randn(512, 32)], "75%")
    assert runs(plan, "bernoulli") == 0
    assert runs(plan, "div") > 0


def test_mask_that_others_read() -> None:
    """It stays the mask of a byte an element; a backward call with another scale is not this dropout's."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out, mask = aten.native_dropout(x, 0.25, True)
        return out, mask, aten.native_dropout_backward(x, mask, 1 / 0.75), aten.native_dropout_backward(x, mask, 2.0), aten.sum(mask)

    for x in layouts():
        module = traced(run, x)
        torch.manual_seed(1)
        expected = module(x)
        dropout.rewrite(module)
        module.recompile()
        module.graph.lint()
        torch.manual_seed(1)
        found = module(x)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and torch.equal(a, b)
        assert found[1].stride() == expected[1].stride()
        assert names(module).count("aten.native_dropout_backward.default") == 1
        assert names(module).count("aten.native_dropout.default") == 0


@pytest.mark.skipif(not dropout._in_memory_order(), reason="this version draws in another order, and the mask is a copy")
def test_storages_and_metadata() -> None:
    module = traced(lambda x: aten.native_dropout(x, 0.25, True)[0], torch.randn(4, 6).t())
    (node,) = (n for n in module.graph.nodes if n.target is aten.native_dropout.default)
    node.meta |= {"partitioner_tag": "is_forward", "stack_trace": "here", "recompute": CheckpointPolicy.MUST_SAVE, "ac_graph_id": 3}
    dropout.rewrite(module)
    made = {n.target: n for n in module.graph.nodes if n.op == "call_function"}
    for call in made.values():
        assert call.meta["partitioner_tag"] == "is_forward" and call.meta["stack_trace"] == "here" and call.meta["ac_graph_id"] == 3
    storage = {target: call.meta["val"].untyped_storage()._cdata for target, call in made.items()}
    assert storage[aten.permute.default] == storage[aten.bernoulli.p]
    assert len(set(storage.values())) == len(made) - 1
    assert "recompute" in made[aten.bernoulli.p].meta and "recompute" in made[aten.mul.Tensor].meta
    assert "recompute" not in made[aten.div.Scalar].meta and "recompute" not in made[aten._to_copy.default].meta


@pytest.mark.parametrize(("p", "train"), [(0.0, True), (1.0, True), (0.5, False), (0.5, None)])
def test_what_is_left_alone(p: float, train: bool | None) -> None:
    module = traced(lambda x: aten.native_dropout(x, p, train)[0], torch.randn(4, 6))
    before = names(module)
    dropout.rewrite(module)
    assert names(module) == before
    assert "aten.native_dropout.default" in before


def test_nothing_is_computed_again_where_everything_fits() -> None:
    def layer() -> nn.Module:
        return nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())

    body = nn.Sequential(*(layer() for _ in range(6)), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 16 * 16, 4))
    (plan,) = same(Model(lambda m, x: m.body(x).square().mean(), body=body), [torch.randn(8, 8, 16, 16)], gap=0.0)
    assert plan.recomputed == []
    assert plan.peak_bytes <= plan.budget_bytes
