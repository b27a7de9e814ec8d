# SPDX-License-Identifier: Apache-2.0
"""Modules that are compiled in place stay what they are; torch.compile knows the backend by its name."""

from __future__ import annotations

import copy
import importlib.metadata
import io
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from models import Broken, make  # noqa: E402
from steps import FAST, Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def test_class_names_and_results_stay() -> None:
    model, inputs = make("gpt")
    usual = copy.deepcopy(model)
    names, kind = list(model.state_dict()), type(model)
    expected = trace(usual, usual, inputs)
    compiled = ct.compile(model, "65%", inplace=True, time_limit=2)
    assert compiled is model and type(compiled) is kind
    assert difference(trace(compiled, compiled, inputs), expected) == ""
    assert list(compiled.state_dict()) == names
    (plan,) = ct.plans(compiled)
    assert plan.recomputed


def test_saved_copied_and_pickled_modules_are_as_before() -> None:
    model, inputs = make("perceptron")
    ct.compile(model, "80%", inplace=True, **FAST)
    loss = model(*inputs).item()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    other, _ = make("perceptron")
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    assert other(*inputs).item() == loss
    duplicate = copy.deepcopy(model)
    with torch.no_grad():
        for p in duplicate.parameters():
            p.zero_()
    assert duplicate(*inputs).item() != loss and model(*inputs).item() == loss
    with pytest.raises(ValueError, match="compile the copy"):
        ct.plans(duplicate)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert model(*inputs).item() != loss, "its own parameters are what runs"


def test_a_part_of_a_module() -> None:
    """As in Lightning, where the module around it logs."""
    inner, (x, y) = make("perceptron")
    told: list[float] = []

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = ct.compile(inner, "70%", inplace=True, **FAST)

        def training_step(self, x: Any, y: Any) -> Any:
            loss = self.net(x, y)
            told.append(loss.item())
            return loss

    outer = Outer()
    outer.training_step(x, y).backward()
    assert told and len(ct.plans(inner)) == 1
    assert [name.removeprefix("net.") for name in outer.state_dict()] == list(inner.state_dict())


def test_compiled_again_with_another_budget() -> None:
    model, inputs = make("perceptron")
    ct.compile(model, "100%", inplace=True, **FAST)
    model(*inputs)
    (before,) = ct.plans(model)
    ct.compile(model, "60%", inplace=True, **FAST)
    assert ct.plans(model) == []
    model(*inputs)
    (after,) = ct.plans(model)
    assert after.budget_bytes < before.budget_bytes
    with pytest.raises(ValueError, match="in place already"):
        ct.compile(model, "80%")
    frontier = ct.explain(model, inputs, budgets=1, show=None, **FAST)
    assert frontier.baseline_peak_bytes == after.baseline_peak_bytes
    assert len(ct.plans(model)) == 1


def test_hooks_fallback_and_wrong_arguments() -> None:
    model, (x, y) = make("perceptron")
    model.register_forward_hook(lambda _module, _inputs, output: output * 3)
    expected = model(x, y)
    ct.compile(model, "80%", inplace=True, **FAST)
    assert torch.equal(model(x, y), expected)
    with pytest.raises(TypeError, match="wrong arguments"):
        model(x)
    broken, z = Broken(), torch.randn(16, 64)
    usual = copy.deepcopy(broken)
    ct.compile(broken, "1GiB", inplace=True, fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        torch.manual_seed(1)
        found = broken(z)
    torch.manual_seed(1)
    assert torch.equal(found, usual(z))
    with pytest.raises(TypeError, match=r"nn\.Module"):
        ct.compile(lambda x: x, "1GiB", inplace=True)


def test_many_modules_in_place() -> None:
    """PyTorch compiles a function for at most eight combinations of shapes."""
    layers = [ct.compile(nn.Sequential(nn.Linear(4 + i, 1), nn.Flatten(0)), "1GiB", inplace=True, **FAST) for i in range(10)]
    for i, layer in enumerate(layers):
        layer(torch.randn(2, 4 + i)).sum().backward()
        assert len(ct.plans(layer)) == 1


def test_parts_share_the_budget_in_place() -> None:
    model, x = Broken(), torch.randn(16, 64)
    usual = copy.deepcopy(model)
    expected = trace(usual, usual, (x,))
    ct.compile(model, "1GiB", inplace=True, graph_breaks="split", **FAST)
    assert difference(trace(model, model, (x,)), expected) == ""
    assert len(ct.plans(model)) == 2


def _entry_point() -> None:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends", name="checkmate")
    if not found:
        pytest.skip("the package is run from its sources: nothing has installed its entry point")


def test_the_backend_has_a_name() -> None:
    _entry_point()
    model, inputs = make("perceptron")
    expected = trace(model, model, inputs)
    lines: list[str] = []
    options = {"budget": "70%", "time_limit": 2, "costs": "estimate", "progress": lines.append}
    compiled = torch.compile(model, backend="checkmate", options=options, dynamic=False)
    assert difference(trace(model, compiled, inputs), expected) == ""
    assert any("recomputed" in line and "overhead" in line for line in lines)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"options": {"budget": "70%", "time_limits": 2}}, "time_limits"),
        ({"options": {"budget": -3}}, "positive"),
        ({"options": {"budget": "1GiB", "graph_breaks": "split"}}, "sees a call as a whole"),
        ({"mode": "max-autotune"}, "max-autotune"),
    ],
)
def test_options_of_the_named_backend_are_checked(given: Any, says: str) -> None:
    _entry_point()
    with pytest.raises(Exception, match=says):
        torch.compile(nn.Linear(4, 4), backend="checkmate", **given)(torch.randn(2, 4))


def test_the_named_backend_without_options_takes_what_is_free() -> None:
    _entry_point()
    layer, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(2, 4)
    assert torch.equal(torch.compile(layer, backend="checkmate", dynamic=False)(x), layer(x))


def test_a_backend_takes_what_compile_takes() -> None:
    model, inputs = make("perceptron")
    optimizer = torch.optim.AdamW(model.parameters())
    made = ct.backend("70%", optimizer=optimizer, accumulate=True, **FAST)
    torch.compile(model, backend=made, dynamic=False)(*inputs)
    torch._dynamo.reset()
    compiled = ct.compile(model, "70%", optimizer=optimizer, accumulate=True, **FAST)
    compiled(*inputs)
    (plan,), (other,) = made.plans, ct.plans(compiled)
    assert plan.graph.fixed_bytes == other.graph.fixed_bytes > 3 * sum(p.numel() * 4 for p in model.parameters())
    assert plan.budget_bytes == other.budget_bytes


def test_a_backend_falls_back() -> None:
    model = Model(lambda m, x: m.layer(x[x[:, 0] > 0]).sum(), layer=nn.Linear(8, 8))
    x = torch.randn(4, 8)
    expected = trace(model, model, (x,))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), pytest.warns(RuntimeWarning, match="without a budget: .*depend on data"):
        found = trace(model, torch.compile(model, backend=ct.backend("1GiB", fallback="eager", **FAST), dynamic=False), (x,))
    assert difference(found, expected) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Exception, match=r"no schedule|fit"):
            torch.compile(make("perceptron")[0], backend=ct.backend("1MB", fallback="eager", **FAST), dynamic=False)(*make("perceptron")[1])


class _Next(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 20)

    def forward(self, tokens: Any, cache: list[Any], labels: Any = None) -> Any:
        cache.append(self.layer(self.embedding(tokens)).tanh())
        logits = self.head(torch.cat(cache, 1).mean(1))
        return logits if labels is None else nn.functional.cross_entropy(logits, labels)

    @torch.no_grad()
    def generate(self, count: int) -> list[int]:
        tokens, cache = [0], []
        for _ in range(count):
            tokens.append(int(self(torch.tensor([tokens[-1:]]), cache).argmax()))
        return tokens


def test_tokens_are_generated_between_training_steps() -> None:
    """Each has a cache that is longer than the last one's: more shapes than PyTorch compiles for."""
    torch.manual_seed(1)
    usual = _Next()
    model = ct.compile(copy.deepcopy(usual), "100%", inplace=True, **FAST)
    for _step in range(3):
        tokens, labels = torch.randint(20, (8, 12)), torch.randint(20, (8,))
        for each in (usual, model):
            each.zero_grad()
            each(tokens, [], labels).backward()
            for p in each.parameters():
                p.data.sub_(p.grad)
        assert model.generate(12) == usual.generate(12)
    assert difference([p.grad for p in model.parameters()], [p.grad for p in usual.parameters()]) == ""
    assert len(ct.plans(model)) == 1
