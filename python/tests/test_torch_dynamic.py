# SPDX-License-Identifier: Apache-2.0
"""One plan for a range of sizes: traced once, solved once at the upper end, bit for bit and within the budget at every size."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from models import Loss, make  # noqa: E402
from steps import FAST, Model, difference, gradients, trace  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import ranges  # noqa: E402
from checkmate.torch.plan import solving  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each run of the solver."""
    runs: list[int] = []

    def solve(graph: Any, *arguments: Any, **options: Any) -> Any:
        runs.append(len(graph.ops))
        return checkmate.solve(graph, *arguments, **options)

    monkeypatch.setattr(solving, "solve", solve)
    return runs


def _traces() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _peak(model: nn.Module, run: Callable[..., Any], inputs: Any) -> int:
    found = physical.held_bytes(model, inputs) + physical.allocator_peak(lambda: run(*inputs).backward())
    model.zero_grad(set_to_none=True)
    return found


QUICK: dict[str, Any] = {**FAST, "time_limit": 0.3}


class Named(Model):
    """Whose arguments have names."""

    def forward(self, x: Any, n: Any = None) -> Any:
        return self.function(self, x) if n is None else self.function(self, x, n)


def _perceptron() -> nn.Module:
    torch.manual_seed(0)
    return Named(lambda m, x: m.body(x).square().mean(), body=nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(8))))


def _cut(inputs: Any, *sizes: int) -> tuple[Any, ...]:
    return tuple(t[tuple(slice(size) for size in sizes[: t.dim()])].clone() for t in inputs)


def _encoder() -> tuple[nn.Module, tuple[Any, Any]]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True)
    return Loss(nn.Sequential(layer, nn.Linear(32, 32)), functional.mse_loss), (torch.randn(8, 64, 32), torch.randn(8, 64, 32))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cuts"), [
    ("perceptron", [(2048,), (2047,), (1000,), (2,)]),
    ("encoder", [(8, 64), (8, 33), (5, 64), (3, 7), (2, 2)]),
    ("gpt", [(8, 64), (4, 64), (7, 31)]),
    ("autoencoder", [(16,), (15,), (2,)]),
    ("depthwise", [(8,), (3,)]),
])  # fmt: skip
def test_every_size_of_the_range(name: str, cuts: list[tuple[int, ...]], solves: list[int]) -> None:
    """Bit for bit, dropout and statistics of batch norms included; the peak within the budget, and at the upper end as planned."""
    model, inputs = make(name)
    limit = _peak(model, model, inputs) * 6 // 10
    compiled = ct.compile(model, limit, dynamic=True, time_limit=2)
    solved = 0
    for cut in cuts:
        given = _cut(inputs, *cut)
        assert difference(trace(model, compiled, given), trace(model, model, given)) == "", cut
        assert _peak(model, compiled, given) <= limit
        assert _traces() == 1
        solved = solved or len(solves)
    assert len(solves) == solved >= 1, "only the upper end is solved"
    (plan,) = ct.plans(compiled)
    assert plan.recomputed
    assert plan.peak_bytes <= limit
    assert plan.ranges[0].lower == 2
    assert plan.ranges[0].upper == cuts[0][0]
    assert f"from 2 to {cuts[0][0]}" in str(plan)


def test_marked_dimensions_are_planned_at_their_largest(solves: list[int]) -> None:
    """Before any call with that size; without `dynamic=`, in a model whose other sizes stay as they are."""
    model, (x, y) = _encoder()
    limit = _peak(model, model, (x, y)) * 6 // 10
    compiled = ct.compile(model, limit, time_limit=2)
    for rows in (3, 8, 5):
        given = _cut((x, y), rows)
        for tensor in given:
            torch._dynamo.mark_dynamic(tensor, 0, min=2, max=8)
        assert difference(gradients(model, compiled, *given), gradients(model, model, *given)) == ""
        assert _peak(model, compiled, given) <= limit
    assert _traces() == 1
    (plan,) = ct.plans(compiled)
    assert [(r.lower, r.upper) for r in plan.ranges] == [(2, 8)]
    assert "dimension 0 of 'x'" in plan.ranges[0].names
    assert plan.recomputed
    torch._dynamo.mark_dynamic(x, 1)
    with pytest.raises(ct.UnsupportedError, match=r"marked as dynamic is not.*constant \(64\).*every tensor"):
        ct.compile(model, limit, **FAST)(x, y)


@pytest.mark.parametrize("keyword", [False, True])
def test_named_dimensions(keyword: bool) -> None:
    model, (x, _y) = _encoder()
    wrapped = Named(lambda m, x: m.body(x).square().mean(), body=model.body)
    limit = _peak(wrapped, wrapped, (x,)) * 7 // 10
    compiled = ct.compile(wrapped, limit, dynamic={"x": {1: 64}}, **FAST)
    for length in (16, 64, 1, 40):
        given = x[:, :length].clone()
        torch.manual_seed(1)
        found = compiled(x=given) if keyword else compiled(given)
        torch.manual_seed(1)
        assert torch.equal(found, wrapped(given))
    long, one = ct.plans(compiled)
    assert [(r.names, r.upper) for r in long.ranges] == [(("dimension 1 of 'x'",), 64)]
    assert one.ranges == (), "PyTorch traces size 1 by itself"
    with pytest.raises(ValueError, match=r"'x'.*3 dimensions"):
        ct.compile(wrapped, "80%", dynamic={"x": {7: 64}}, **FAST)(x)
    with pytest.raises(ValueError, match=r"no argument 'inputs'.*'n', 'x'"):
        ct.compile(wrapped, "80%", dynamic={"inputs": {1: 64}}, **FAST)


@pytest.mark.slow
def test_a_larger_size_is_planned_anew() -> None:
    """And the plan for it serves what lies between; too large a size is infeasible, which says what it was planned for."""
    model = _perceptron()
    x = torch.randn(4096, 64)
    limit = _peak(model, model, (x[:1000].clone(),))
    compiled = ct.compile(model, limit, dynamic=True, **QUICK)
    uppers = []
    for rows in (1000, 1500, 1400, 900):
        given = x[:rows].clone()
        assert difference(trace(model, compiled, (given,)), trace(model, model, (given,))) == ""
        assert _peak(model, compiled, (given,)) <= limit
        uppers.append([plan.ranges[0].upper for plan in ct.plans(compiled)])
    assert uppers == [[1000], [1000, 1500], [1000, 1500], [1000, 1500]]
    assert _traces() == 2
    with pytest.raises(checkmate.InfeasibleError, match=r"dimension 0 of 'x' = 4096, the upper end"):
        compiled(x)
    assert torch.equal(compiled(x[:999].clone()), model(x[:999].clone()))


@pytest.mark.parametrize("time_limit", [0.05, 0.5])
def test_a_budget_that_the_upper_end_does_not_fit(time_limit: float) -> None:
    """Whatever schedule is found in the time for the budget that is named, without a byte to spare."""
    model = _perceptron()
    options = FAST | {"time_limit": time_limit}
    compiled = ct.compile(model, "300kB", **options)
    x = torch.randn(16, 64)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=4096)
    with pytest.raises(checkmate.InfeasibleError, match=r"dimension 0 of 'x' = 4096") as caught:
        compiled(x)
    enough = caught.value.smallest_known
    assert enough is not None
    again = torch.randn(16, 64)
    torch._dynamo.mark_dynamic(again, 0, min=2, max=4096)
    compiled = ct.compile(model, enough, **options)
    compiled(again).backward()
    model.zero_grad()
    assert _peak(model, compiled, (torch.randn(4096, 64),)) <= enough


@pytest.mark.parametrize("how", ["name", "backend"])
def test_a_backend(how: str) -> None:
    model = _perceptron()
    options = {"budget": "60%", **FAST}
    run: Any = torch.compile(model, backend="checkmate", options=options, dynamic=True)
    if how == "backend":
        made = ct.backend("60%", **FAST)
        run = torch.compile(model, backend=made, dynamic=True)
    for rows in (500, 300, 2):
        given = (torch.randn(rows, 64),)
        assert difference(trace(model, run, given), trace(model, model, given)) == ""
    assert _traces() == 1
    if how == "backend":
        (plan,) = made.plans
        assert (plan.ranges[0].lower, plan.ranges[0].upper) == (2, 500)


def test_upper_ends_of_a_backend() -> None:
    model = _perceptron()
    made = ct.backend("60%", dynamic={"x": {0: 700}}, **FAST)
    run = torch.compile(lambda x: model(x), backend=made, dynamic=True)
    run(torch.randn(30, 64)).backward()
    run(torch.randn(700, 64)).backward()
    (plan,) = made.plans
    assert plan.ranges[0].upper == 700


def test_the_backward_pass_runs_twice() -> None:
    model, (x, y) = _encoder()
    model.eval()
    compiled = ct.compile(model, "80%", dynamic=True, **FAST)
    for length in (64, 20):
        given = x[:, :length].clone(), y[:, :length].clone()
        found = []
        for run in (compiled, model):
            loss = run(*given)
            loss.backward(retain_graph=True)
            loss.backward()
            found.append([p.grad for p in model.parameters()])
            model.zero_grad(set_to_none=True)
        assert difference(*found) == ""
    assert _traces() == 1


def test_sizes_are_computed_in_both_passes() -> None:
    """Sizes of tensors that are not there any more, products and quotients of sizes, numbers in the backward pass."""

    def forward(m: Any, x: Any, n: int) -> Any:
        b, t, _ = x.shape
        h = torch.tanh(m.one(x)).reshape(b * t, -1)
        h = functional.pad(h, (0, 0, 0, b * (t // 2)))
        h = torch.cat([h, h[: b * t // 2 + 1].cos()])
        rows, half = h.shape[0], m.width // 2
        h = torch.sigmoid(h.view(rows, 2, half).transpose(0, 1).reshape(2 * rows, half)).view(rows, 2 * half) * (n / t)
        for layer in m.more:
            h = torch.tanh(layer(h))
        return h.sum() / (b * t) + h.shape[0]

    torch.manual_seed(0)
    model = Named(forward, one=nn.Linear(8, 16), more=nn.ModuleList(nn.Linear(16, 16) for _ in range(6)))
    model.width = 16
    compiled = ct.compile(model, "70%", dynamic=True, **FAST)
    for shape in [(6, 30), (6, 29), (3, 30), (2, 5)]:
        inputs = torch.randn(*shape, 8).requires_grad_(), 3
        assert difference(trace(model, compiled, inputs), trace(model, model, inputs)) == ""
    assert _traces() == 1
    assert ct.plans(compiled)[0].recomputed


def test_a_number_that_no_bytes_depend_on_has_no_upper_end() -> None:
    model = Named(lambda m, x, step: m.layer(x).square().mean() * step, layer=nn.Linear(8, 8))
    compiled = ct.compile(model, "1GiB", dynamic=True, **FAST)
    x = torch.randn(16, 8)
    for step in (5, 6, 500):
        assert torch.equal(compiled(x, step), model(x, step))
    assert _traces() == 1
    assert [r.names for r in ct.plans(compiled)[0].ranges] == [("dimension 0 of 'x'",)]


def test_what_does_not_grow_is_refused() -> None:
    def forward(m: Any, x: Any) -> Any:
        rest = x.new_zeros(100 - x.shape[0], 8)
        return m.layer(torch.cat([x.sum(0, keepdim=True), rest + 1])).square().mean()

    model = Named(forward, layer=nn.Linear(8, 8))
    with pytest.raises(ct.UnsupportedError, match=rf"\({pathlib.Path(__file__).name}:\d+\).*not shown to grow.*dimension 0 of 'x' from 2 to 50"):
        ct.compile(model, "1GiB", dynamic=True, **FAST)(torch.randn(50, 8))
    x = torch.randn(50, 8)
    assert torch.equal(ct.compile(model, "1GiB", shapes=3, **FAST)(x), model(x)), "what the error advises works"


def test_what_depends_on_data_is_refused() -> None:
    model = Named(lambda m, x: m.layer(x[x[:, 0] > 0]).sum(), layer=nn.Linear(8, 8))
    with pytest.raises(ct.UnsupportedError, match=rf"depend on data.*{pathlib.Path(__file__).name}:\d+.*torch\.where"):
        ct.compile(model, "1GiB", dynamic=True, **FAST)(torch.randn(4, 8))


def test_a_recurrent_layer_is_refused() -> None:
    model = Named(lambda m, x: m.layer(x)[0].sum(), layer=nn.GRU(8, 8))
    with pytest.raises(ct.UnsupportedError, match=r"recurrent layer.*dimension 0 of 'x' \(now 5\).*dynamic=False"):
        ct.compile(model, "1GiB", dynamic=True, **FAST)(torch.randn(5, 4, 8))


def test_options_are_checked() -> None:
    model = _perceptron()
    for wrong, error in ((3, TypeError), ({}, TypeError), ({"x": 64}, TypeError), ({"x": {0: "64"}}, TypeError), ({"x": {0: 1}}, ValueError)):
        with pytest.raises(error, match="dynamic"):
            ct.compile(model, "1GiB", dynamic=wrong)
    for other in ({"graph_breaks": "split"}, {"compiler": "inductor"}):
        with pytest.raises(ValueError, match="dynamic"):
            ct.compile(model, "1GiB", dynamic=True, **other)


def test_what_the_model_does_not_use_is_counted() -> None:
    """Tensors that the graph does not take have sizes that no guard knows."""
    model = _perceptron()
    wrapped = Named(lambda m, x, _beside: m.inner(x), inner=model)
    x = torch.randn(500, 64)
    limit = _peak(model, model, (x,)) + 4000
    compiled = ct.compile(wrapped, limit, dynamic=True, **FAST)
    compiled(x, torch.zeros(100))
    compiled(x[:400].clone(), torch.zeros(200))
    with pytest.raises(checkmate.CheckmateError, match="does not use"):
        compiled(x[:499].clone(), torch.zeros(100_000))


def test_verified_at_the_first_size() -> None:
    model, (x, y) = _encoder()
    compiled = ct.compile(model, "70%", dynamic=True, verify=True, **FAST)
    compiled(x, y).backward()
    (plan,) = ct.plans(compiled)
    assert plan.verification is not None
    assert plan.ranges


def test_under_autocast() -> None:
    model, (x, y) = _encoder()
    compiled = ct.compile(model, "70%", dynamic=True, **FAST)

    def under(run: Any) -> Any:
        def call(*given: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return run(*given)

        return call

    for length in (64, 30):
        given = x[:, :length].clone(), y[:, :length].clone()
        assert difference(trace(model, under(compiled), given), trace(model, under(model), given)) == ""
    assert _traces() == 1


def test_compiled_in_place_with_checkpointed_regions() -> None:
    from torch.utils.checkpoint import checkpoint

    def forward(m: Any, x: Any) -> Any:
        for layer in m.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x.square().mean()

    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.2), nn.Tanh(), nn.Linear(64, 32)) for _ in range(4))
    model, twin = (Named(forward, layers=layers) for _ in range(2))
    ct.compile(model, "95%", dynamic=True, inplace=True, checkpoint_policy="respect", **FAST)
    for rows in (300, 200):
        given = (torch.randn(rows, 32),)
        assert difference(trace(model, model, given), trace(twin, twin, given)) == ""
    assert _traces() == 1


def test_explain_takes_marked_tensors() -> None:
    model = _perceptron()
    x = torch.randn(64, 64)
    torch._dynamo.mark_dynamic(x, 0)
    found = ct.explain(model, (x,), budgets=2, show=None, **FAST)
    assert found.baseline_peak_bytes > 64 * 64 * 4 * 8


def test_bytes_that_grow() -> None:
    """By structure where that shows it, else by trying every size; never by assuming it."""
    sympy = pytest.importorskip("sympy")
    from torch.utils._sympy.functions import FloorDiv, Max, Mod

    s, t = (sympy.Symbol(name, integer=True, positive=True) for name in "st")
    low, high = {s: 2, t: 2}, {s: 64, t: 1000}
    shown = [4 * s * t, 32 * t * (s - 1) + 32 * t, (s + 1) ** 2 - s**2, s * (s - 2), FloorDiv(s - 1, 2) * t, Max(s, 7) * 4, s - Mod(s, 8), s * s - s]
    for expression in shown:
        assert ranges.grows(expression, low, high), expression
    for expression in (100 - s, s * (10 - t), Mod(s, 8), (s - 5) ** 2, FloorDiv(64, s), s * t - 2 * t * t):
        assert not ranges.grows(expression, low, high), expression
    unproven = s - Mod(s, 8)
    assert not ranges.grows(unproven, low, {s: 10**9, t: 2})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_models_of_transformers(name: str, solves: list[int]) -> None:
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model: Any = {
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=200, n_embd=32, n_layer=2, n_head=2, n_positions=64)),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=200, num_key_value_heads=2, max_position_embeddings=64, **sizes)),
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(vocab_size=200, max_position_embeddings=64, **sizes)),
    }[name]()

    def step(run: Any, ids: Any, compare: bool = True) -> list[Any]:
        torch.manual_seed(3)
        output = run(input_ids=ids, labels=ids)
        output.loss.backward()
        found = [output.loss.detach(), output.logits.detach(), *(p.grad for p in model.parameters())] if compare else []
        model.zero_grad(set_to_none=True)
        return found

    def peak(run: Any, ids: Any) -> int:
        return physical.held_bytes(model, [ids]) + physical.allocator_peak(lambda: step(run, ids, compare=False))

    ids = torch.randint(0, 200, (5, 48))
    limit = peak(model, ids) * 7 // 10
    compiled = ct.compile(model, limit, dynamic=True, time_limit=2)
    solved = 0
    for rows, length in ((5, 48), (4, 48), (5, 31), (2, 7)):
        given = ids[:rows, :length].clone()
        assert difference(step(compiled, given), step(model, given)) == "", (rows, length)
        assert peak(compiled, given) <= limit
        solved = solved or len(solves)
    assert _traces() == 1
    assert len(solves) == solved >= 1
    assert {(r.lower, r.upper) for r in ct.plans(compiled)[0].ranges} == {(2, 5), (2, 48)}
    assert re.search(r"dimension 1 of 'input_ids'.* from 2 to 48", str(ct.plans(compiled)[0]))
