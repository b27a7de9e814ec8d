# SPDX-License-Identifier: Apache-2.0
"""Generated code: calls that are part of other kernels take no bytes in the plan, and the budget holds for what is generated."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.8")

from steps import needs_inductor  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import fusion, partition  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402
from checkmate.torch.options import Options  # noqa: E402

aten = torch.ops.aten


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.up(self.norm(x)), approximate="tanh")
        return x + torch.nn.functional.dropout(self.down(y), 0.1, self.training)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(64)
        self.blocks = torch.nn.Sequential(*(Block(64) for _ in range(4)))
        self.head = torch.nn.Linear(64, 500)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.head(self.blocks(self.norm(x))), labels)


def _step(model: Any, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(7)
    loss = model(x, labels)
    loss.backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return loss.detach(), gradients


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(512, 64), torch.randint(0, 500, (512,))


def _nodes(function: Callable[..., Any], *args: torch.Tensor) -> list[Any]:
    return list(make_fx(function, tracing_mode="fake")(*args).graph.nodes)


def test_what_is_computed_where_it_is_read() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        scaled = aten.mul.Tensor(x, 2.0)  # read by an elementwise call and a reduction
        shifted = aten.view.default(aten.add.Tensor(scaled, y), [24])  # through a view by a reduction
        read_by_a_product = aten.exp.default(scaled)
        return [aten.sum.default(shifted), aten.mm.default(read_by_a_product, aten.t.default(y)), aten.sum.default(scaled)]

    nodes = _nodes(function, torch.randn(6, 4), torch.randn(6, 4))
    found = {node.name: [leaf.name for leaf in leaves] for node, leaves in fusion.fused(nodes).items()}
    assert found == {"mul": ["x_1"], "add": ["x_1", "y_1"], "view": ["x_1", "y_1"]}
    total = next(node for node in nodes if node.name == "sum_1")
    assert [node.name for node in fusion.calls(total, fusion.fused(nodes))] == ["mul", "add", "view"]
    assert [node.name for node in fusion.operands(total, fusion.fused(nodes))] == ["x_1", "y_1"]


def test_what_leaves_the_graph_or_reads_much_has_bytes() -> None:
    def function(*values: torch.Tensor) -> list[torch.Tensor]:
        leaving = aten.mul.Tensor(values[0], 2.0)
        sums = values[0]
        for value in values[1:]:
            sums = aten.add.Tensor(sums, value)
        return [leaving, aten.sum.default(leaving), aten.sum.default(sums)]

    nodes = _nodes(function, *(torch.randn(4) for _ in range(7)))
    found = fusion.fused(nodes)
    assert "mul" not in {node.name for node in found}
    assert len(found) == 5  # of six sums in a row, the fourth is written
    assert max(map(len, found.values())) == 4


def test_few_numbers_that_many_results_are_computed_of_have_bytes() -> None:
    def function(x: torch.Tensor, variances: torch.Tensor) -> list[torch.Tensor]:
        shifted = aten.add.Tensor(variances, 1e-5)
        scale = aten.unsqueeze.default(aten.rsqrt.default(shifted), 1)
        return [aten.sum.default(aten.mul.Tensor(x, scale)), aten.sum.default(aten.exp.default(shifted))]

    nodes = _nodes(function, torch.randn(6, 40), torch.randn(6))
    found = {node.name: [leaf.name for leaf in leaves] for node, leaves in fusion.fused(nodes).items()}
    assert found == {"mul": ["x_1", "unsqueeze"], "exp": ["add"]}


def test_what_is_put_into_a_large_tensor_is_computed_once() -> None:
    def function(*values: torch.Tensor) -> list[torch.Tensor]:
        return [aten.cat.default([aten.mul.Tensor(values[0], 2.0), *values[1:]])]

    nodes = _nodes(function, *(torch.randn(4) for _ in range(8)))
    assert [node.name for node in fusion.fused(nodes)] == ["mul"]


def test_what_takes_less_than_what_it_is_computed_of_may_be_saved() -> None:
    """Only if the backward pass reads it, and only of several large tensors."""

    def function(x: torch.Tensor, y: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
        total, shifted = aten.view.default(aten.add.Tensor(x, y), [24]), aten.add.Tensor(x, row)
        forward = [aten.sum.default(total), aten.sum.default(shifted), aten.sum.default(aten.sub.Tensor(x, y))]
        return [*forward, aten.sum.default(aten.neg.default(total)), aten.sum.default(aten.neg.default(shifted))]

    nodes = _nodes(function, torch.randn(6, 4), torch.randn(6, 4), torch.randn(4))
    assert "add" in {node.name for node in fusion.fused(nodes)}
    backward = {node for node in nodes if node.name.startswith("neg")}
    found = {node.name: [leaf.name for leaf in leaves] for node, leaves in fusion.fused(nodes, backward).items()}
    assert found == {"add_1": ["x_1", "row_1"], "sub": ["x_1", "y_1"], "neg": ["view"], "neg_1": ["x_1", "row_1"]}


class Halving(torch.nn.Module):
    """Its forward pass writes to a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scale.mul_(0.5)
        return (self.layers(x) * self.scale).square().mean()


@needs_inductor
def test_trials_leave_what_the_step_writes_to() -> None:
    model, x = Halving(), torch.randn(512, 32)
    compiled = ct.compile(model, "90%", compiler="inductor", costs="estimate", cache=False)
    compiled(x).backward()
    assert model.scale.item() == 0.5


@pytest.mark.slow
@needs_inductor
def test_the_least_takes_no_more_than_keeping_everything() -> None:
    def taken(budget: str) -> int:
        torch._dynamo.reset()
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()) for _ in range(3)]
        compiled = ct.compile(torch.nn.Sequential(*layers), budget, compiler="inductor", costs="estimate", cache=False, time_limit=1)
        compiled(torch.randn(8, 8, 24, 24)).square().mean().backward()
        return ct.plans(compiled)[0].peak_bytes

    assert taken("min") <= taken("100%")


@pytest.mark.slow
@needs_inductor
def test_a_budget_that_an_error_names_works() -> None:
    model, inputs = Net(), _inputs()

    def compiled(budget: int | str) -> Any:
        torch._dynamo.reset()
        return ct.compile(model, budget, compiler="inductor", costs="estimate", cache=False, time_limit=1)

    with pytest.raises(ct.InfeasibleError, match="works") as caught:
        _step(compiled("5%"), *inputs)
    named = compiled(caught.value.smallest_known)
    _step(named, *inputs)
    assert meter.peak_bytes(lambda: _step(named, *inputs), model, list(inputs)) <= caught.value.smallest_known


@needs_inductor
def test_code_writes_to_buffers_that_are_no_longer_read() -> None:
    """As inductor does by itself: it says so, and less often where it must not."""
    from torch._inductor.utils import run_and_get_code

    def reused() -> int:
        torch._dynamo.reset()
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(4)]
        compiled = ct.compile(torch.nn.Sequential(*layers), "100%", compiler="inductor", costs="estimate", cache=False)
        return sum(code.count("# reuse") for code in run_and_get_code(compiled, torch.randn(512, 32))[1])

    with torch._inductor.config.patch(allow_buffer_reuse=False):
        least = reused()
    assert reused() > least


class PostNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return (y + self.down(torch.relu(self.up(y)))).square().mean()


@needs_inductor
def test_a_residual_around_a_layer_of_three_dimensions() -> None:
    model, x = PostNorm(), torch.randn(8, 64, 64)
    model(x).backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    ct.compile(model, "100%", compiler="inductor", costs="estimate", cache=False)(x).backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


class _SavesAView(torch.autograd.Function):
    """Its gradients may be written over what it saves: inductor takes the two for tensors of their own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x, y)
        ctx.save_for_backward(product, product.t())
        return product.exp().sum()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product, view = ctx.saved_tensors
        return gradients[0] * product.cos(), gradients[0] * (view + 1).cos()


class SavesAView(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _SavesAView.apply(x, y)  # type: ignore[no-any-return]


@needs_inductor
def test_a_tensor_and_its_view_are_saved_once() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(64, 64, requires_grad=True) for _ in range(2)]
    expected = torch.autograd.grad(SavesAView()(*inputs), inputs)
    compiled = ct.compile(SavesAView(), "100%", compiler="inductor", cache=False)
    for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@needs_inductor
@pytest.mark.parametrize("budget", ["100%", "60%", "min"])
def test_the_budget_holds(budget: str) -> None:
    model, inputs = Net(), _inputs()
    expected_loss, expected = _step(model, *inputs)
    mean, count = model.norm.running_mean.clone(), int(model.norm.num_batches_tracked)
    state = torch.get_rng_state()
    compiled = ct.compile(model, budget, compiler="inductor", time_limit=2, cache=False)
    loss, gradients = _step(compiled, *inputs)
    (plan,) = ct.plans(compiled)
    # The trial ran a step more, of which nothing is left.
    assert int(model.norm.num_batches_tracked) == count + 1
    assert torch.allclose(model.norm.running_mean, 0.9 * mean + 0.1 * inputs[0].mean(0), atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)
    # Dropout draws eager mode's numbers, so that the results are the same within rounding.
    assert torch.allclose(loss, expected_loss, rtol=1e-5)
    for a, b in zip(gradients, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-6)
    assert (plan.overhead > 0) == (budget != "100%")
    taken = meter.peak_bytes(lambda: _step(compiled, *inputs), model, list(inputs))
    assert taken <= plan.budget_bytes
    assert abs(taken - plan.peak_bytes) <= 4096  # the generator's seed, and the loss held


@needs_inductor
def test_an_exponential_is_written_once_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    split = partition.split

    def watched(*given: Any) -> Any:
        made.append(split(*given))
        return made[-1]

    monkeypatch.setattr(partition, "split", watched)
    layer = [torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.SiLU()]
    model = torch.nn.Sequential(*(copy.deepcopy(part) for _ in range(4) for part in layer))
    compiled = ct.compile(lambda x: model(x).square().mean(), "100%", compiler="inductor", costs="estimate", cache=False)
    compiled(torch.randn(512, 64)).backward()
    # The layer norm's gradient is three kernels that read the activation's, which is never stored.
    assert [node.target for node in made[-1].backward.graph.nodes].count(aten.sigmoid.default) == 4


@needs_inductor
def test_dropout_holds_no_more_than_its_mask() -> None:
    model, inputs = Net(), _inputs()
    compiled = ct.compile(model, "100%", compiler="inductor", costs="estimate", cache=False)
    _step(compiled, *inputs)
    (plan,) = ct.plans(compiled)
    drawn = [t for op in plan.graph.ops if not op.recomputable and "bernoulli" in op.name for t in op.outputs]
    assert len(drawn) == 4
    assert all(plan.graph.tensors[t].bytes == 512 * 64 for t in drawn)
    assert [op.name for op in plan.graph.ops if not op.recomputable and "native_dropout" in op.name] == []


def _tries(monkeypatch: pytest.MonkeyPatch, takes: Callable[[int], int], least: int = 0) -> tuple[list[int], Callable[..., Any]]:
    """`takes`: bytes of the code for the bytes of a plan, which are negative where the plan's schedule was given; below `least` nothing
    is found."""
    from checkmate.torch.run import inductor

    asked: list[int] = []

    def attempt(options: Options) -> tuple[Any, Any]:
        budget = {"50%": 1000, "min": least}.get(str(options.budget)) or int(options.budget)
        asked.append(budget)
        if options.given is not None:
            return (lambda: None), Plan(budget, options.given, 5000 + options.given, 2000)
        if budget < least:
            raise ct.InfeasibleError("nothing", proven=False, budget_bytes=budget, smallest_known=None, largest_impossible=0)
        return (lambda: None), Plan(budget, budget, 5000 - budget, 2000)

    class Plan(SimpleNamespace):
        def __init__(self, budget_bytes: int, peak_bytes: int, cost: int, baseline_cost: int) -> None:
            super().__init__(budget_bytes=budget_bytes, peak_bytes=peak_bytes, cost=cost, baseline_cost=baseline_cost,
                             baseline_peak_bytes=2000, overhead=cost / baseline_cost - 1, graph="", schedule=-peak_bytes)  # fmt: skip

    monkeypatch.setattr(inductor, "_taken", lambda _run, _inputs, plan: takes(plan.peak_bytes))
    monkeypatch.setattr(inductor, "replace", lambda made, **new: SimpleNamespace(**{**vars(made), **new}))
    kept: list[int] = []
    memory = SimpleNamespace(remember=lambda _graph, schedule, _front, on_disk: kept.append(schedule),
                             recall=lambda _graph, _front, on_disk: kept[-1] if kept else None)  # fmt: skip
    monkeypatch.setattr(inductor, "named", memory)

    def run(budget: int | str = "50%") -> Any:
        options: Any = SimpleNamespace(budget=budget, given=None, cache=False, say=lambda _text: None)
        return inductor.within_budget(attempt, [], options)[1]

    return asked, run


@needs_inductor
def test_code_that_takes_more_is_planned_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = _tries(monkeypatch, lambda planned: planned + 100)
    plan = run()
    assert asked == [1000, 900]
    assert (plan.budget_bytes, plan.peak_bytes) == (1000, 1000)


@needs_inductor
def test_code_that_takes_less_is_planned_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = _tries(monkeypatch, lambda planned: planned - 100 if planned <= 1000 else planned - 50)
    plan = run()
    assert asked == [1000, 1100, 1050]  # the second one is above the budget
    assert (plan.budget_bytes, plan.peak_bytes, plan.cost) == (1000, 1000, 3950)


@needs_inductor
def test_between_a_plan_with_much_room_and_one_without_lies_a_better_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = _tries(monkeypatch, lambda planned: planned + (300 if planned > 990 else 0))
    plan = run()
    assert asked == [1000, 700, 850, 925, 962]
    assert (plan.budget_bytes, plan.peak_bytes) == (1000, 962)


@needs_inductor
def test_code_that_never_fits_is_an_error_that_says_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = _tries(monkeypatch, lambda planned: planned + 100, least=950)
    with pytest.raises(ct.InfeasibleError, match=r"within 1,000 bytes; budget=1,060 works, with 102.5 % more") as caught:
        run()
    assert asked == [1000, 900, 950, 1055, 1212, 1475, 2000]
    assert caught.value.smallest_known == 1060


@needs_inductor
def test_what_an_error_named_is_kept_for_whoever_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time, no target leads to what was found within 1,060 bytes: the schedule itself does."""
    found = {950: 1050}
    asked, run = _tries(monkeypatch, lambda planned: found.get(planned, planned + 200), least=950)
    with pytest.raises(ct.InfeasibleError, match="budget=1,060 works"):
        run()
    found.clear()
    found[-950] = 1050
    plan = run(1060)
    assert (plan.budget_bytes, plan.peak_bytes, plan.cost) == (1060, 1050, 4050)
    assert asked[-1] == 1060


@needs_inductor
def test_the_code_of_a_larger_plan_may_take_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the least plan on, others are tried up to keeping everything."""
    asked, run = _tries(monkeypatch, lambda planned: 990 if planned == 1475 else 1400, least=950)
    plan = run()
    assert asked == [1000, 600, 950, 1055, 1212, 1475, 2000]
    assert (plan.budget_bytes, plan.peak_bytes, plan.cost) == (1000, 990, 3525)


@needs_inductor
def test_parts_of_a_model_say_that_nobody_measures_them() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum()

    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    compiled = ct.compile(module, "1GiB", compiler="inductor", graph_breaks="split", time_limit=1, cache=False)
    with pytest.warns(RuntimeWarning, match='graph_breaks="split", the peak of generated code is not measured'):
        model(compiled(torch.randn(4, 8))).backward()


@needs_inductor
def test_calls_without_gradients_come_in_any_length() -> None:
    """As those of `generate()` do, and they leave training its own eight shapes."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    compiled = ct.compile(model, "1GiB", compiler="inductor", costs="estimate", cache=False)
    compiled(torch.randn(4, 8)).sum().backward()
    for length in range(2, 14):
        x = torch.randn(length, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
    compiled(torch.randn(5, 8)).sum().backward()
    assert len(ct.plans(compiled)) == 2
