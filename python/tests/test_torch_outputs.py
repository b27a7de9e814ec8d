# SPDX-License-Identifier: Apache-2.0
"""Models that return more than their loss: only what is differentiated costs anything, and everything is as in eager mode."""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class Named(NamedTuple):
    loss: Any
    logits: Any
    cache: Any


@dataclasses.dataclass
class Fields:
    logits: Any
    loss: Any = None
    cache: Any = None


class Ordered(OrderedDict[str, Any]):
    """As the outputs of Hugging Face's models: a dict whose keys are attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


SHAPES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tuple": lambda loss, logits, cache: (loss, logits, cache),
    "last": lambda loss, logits, cache: [logits, *cache, loss],
    "dict": lambda loss, logits, cache: {"logits": logits, "loss": loss, "cache": cache},
    "named": lambda loss, logits, cache: Named(loss, logits, cache),
    "fields": lambda loss, logits, cache: Fields(logits, loss, cache),
    "ordered": lambda loss, logits, cache: Ordered(loss=loss, logits=logits, cache=cache),
}


class Head(nn.Module):
    """A small body, and a vocabulary that most bytes belong to."""

    def __init__(self, output: Callable[[Any, Any, Any], Any], vocabulary: int = 2000) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 32), nn.Tanh())
        self.head = nn.Linear(32, vocabulary, bias=False)
        self.output = output

    def forward(self, x: Any, labels: Any) -> Any:
        first = self.body[:2](x)
        hidden = self.body[2:](first)
        logits = self.head(hidden)
        return self.output(functional.cross_entropy(logits, labels), logits, (first, hidden))


def made(output: Callable[[Any, Any, Any], Any]) -> tuple[nn.Module, tuple[Any, Any]]:
    torch.manual_seed(0)
    return Head(output), (torch.randn(256, 32), torch.randint(0, 2000, (256,)))


def plain(outputs: Any) -> Any:
    return vars(outputs) if isinstance(outputs, Fields) else dict(outputs) if isinstance(outputs, Ordered) else outputs


def outcome(model: nn.Module, run: Callable[..., Any], inputs: Any, back: Callable[[Any], None]) -> list[Any]:
    return trace(model, lambda *given: plain(run(*given)), inputs, back)


def scalar(outputs: Any) -> None:
    """The backward pass of the only scalar, which is the loss."""
    next(t for t in torch.utils._pytree.tree_leaves(plain(outputs)) if isinstance(t, torch.Tensor) and t.dim() == 0).backward()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_only_the_loss_costs_anything(shape: str) -> None:
    alone, inputs = made(lambda loss, logits, cache: loss)
    least = ct.compile(alone, "100%", **FAST)
    least(*inputs).backward()
    torch._dynamo.reset()
    model, inputs = made(SHAPES[shape])
    compiled = ct.compile(model, "100%", **FAST)
    assert difference(outcome(model, compiled, inputs, scalar), outcome(model, model, inputs, scalar)) == ""
    (plan,) = ct.plans(compiled)
    assert len(plan.detached) == 3
    assert "logits" in plan.detached
    assert "not differentiated: " in str(plan)
    # The caller holds the outputs until the step is over: that is all they cost.
    outputs = 4 * 256 * (2000 + 2 * 32)
    assert plan.baseline_peak_bytes <= ct.plans(least)[0].baseline_peak_bytes + outputs
    held: list[Any] = []

    def eager() -> None:
        held[:] = [model(*inputs)]
        scalar(held[0])

    assert plan.peak_bytes <= meter.peak_bytes(eager, model, inputs) + 64


def test_no_schedule_makes_an_output_after_the_caller_has_it() -> None:
    model, inputs = made(SHAPES["tuple"])
    graph = ct.explain(model, inputs, budgets=1, show=None, **FAST).graph
    boundary = next(op for op in graph.ops if op.name == "boundary")
    kept = {op.outputs[0] for op in graph.ops if op.name.endswith(".keep")}
    assert len(kept) == 4
    assert kept <= set(boundary.inputs)


@pytest.mark.parametrize("shape", ["tuple", "fields"])
def test_explain_plans_what_compile_does(shape: str) -> None:
    model, inputs = made(SHAPES[shape])
    frontier = ct.explain(model, inputs, budgets=1, show=None, **FAST)
    compiled = ct.compile(model, "100%", **FAST)
    scalar(compiled(*inputs))
    assert frontier.baseline_peak_bytes == ct.plans(compiled)[0].baseline_peak_bytes


def test_outputs_are_as_in_eager_mode() -> None:
    model, inputs = made(SHAPES["dict"])
    compiled = ct.compile(model, "100%", **FAST)
    ours, theirs = compiled(*inputs), model(*inputs)
    assert type(ours) is type(theirs) and list(ours) == list(theirs)
    assert ours["logits"].requires_grad and not ours["logits"].is_leaf
    ours["logits"].add_(1)  # as far as autograd is concerned
    assert ours["logits"].detach().argmax(-1).shape == (256,)
    with torch.no_grad():
        assert not compiled(*inputs)["logits"].requires_grad


def test_a_parameter_behind_an_output_that_is_not_differentiated_has_no_gradient() -> None:
    def forward(self: Any, x: Any) -> Any:
        hidden = self.first(x).tanh()
        return {"loss": hidden.square().mean(), "other": self.second(hidden)}

    model, x = Model(forward, first=nn.Linear(8, 8), second=nn.Linear(8, 8)), torch.randn(4, 8)
    compiled = ct.compile(model, "100%", **FAST)
    compiled(x)["loss"].backward()
    assert model.second.weight.grad is None
    assert model.first.weight.grad is not None


def test_what_is_differentiated_after_all_says_so() -> None:
    model, inputs = made(SHAPES["tuple"])
    compiled = ct.compile(model, "100%", **FAST)
    loss, logits, _cache = compiled(*inputs)
    with pytest.raises(ct.UnsupportedError, match=r"'logits' \(.*test_torch_outputs\.py:\d+\) is differentiated.*loss=\"all\""):
        (loss + logits.square().mean()).backward()
    # A gradient of zeros, or none, asks for nothing.
    loss, logits, _cache = compiled(*inputs)
    (loss + 0.0 * logits.sum()).backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled(*inputs)[0].backward()
    assert all(a.shape == p.grad.shape for a, p in zip(found, model.parameters(), strict=True))


def both(outputs: Any) -> None:
    loss, logits, cache = outputs
    (loss + logits.square().mean() + 0.1 * cache[1].sum()).backward()


@pytest.mark.parametrize("loss", ["all", lambda output: (output[0], output[1], output[2][1])])
def test_the_user_says_what_is_differentiated(loss: Any) -> None:
    model, inputs = made(SHAPES["tuple"])
    compiled = ct.compile(model, "100%", loss=loss, **FAST)
    assert difference(trace(model, compiled, inputs, both), trace(model, model, inputs, both)) == ""
    assert len(ct.plans(compiled)[0].detached) == (0 if loss == "all" else 1)


@pytest.mark.parametrize(("shape", "loss"), [("tuple", 1), ("tuple", -2), ("dict", "logits"), ("fields", "logits")])
def test_an_output_by_name_or_position(shape: str, loss: Any) -> None:
    model, inputs = made(SHAPES[shape])

    def back(outputs: Any) -> None:
        logits = outputs[loss] if isinstance(loss, int) else plain(outputs)["logits"]
        functional.mse_loss(logits, torch.zeros_like(logits)).backward()

    compiled = ct.compile(model, "100%", loss=loss, **FAST)
    assert difference(outcome(model, compiled, inputs, back), outcome(model, model, inputs, back)) == ""
    assert "logits" not in ct.plans(compiled)[0].detached
    assert len(ct.plans(compiled)[0].detached) == 3


def test_a_scalar_that_does_not_train_all_is_not_the_loss() -> None:
    """An auxiliary loss in addition to what the caller computes the loss of; a temperature with two embeddings."""

    def forward(self: Any, x: Any) -> Any:
        hidden = self.first(x).tanh()
        return self.second(hidden), hidden.square().mean()

    def back(outputs: Any) -> None:
        (outputs[0].square().mean() + 0.1 * outputs[1]).backward()

    model, x = Model(forward, first=nn.Linear(8, 8), second=nn.Linear(8, 8)), torch.randn(4, 8)
    compiled = ct.compile(model, "100%", **FAST)
    assert difference(trace(model, compiled, (x,), back), trace(model, model, (x,), back)) == ""
    assert ct.plans(compiled)[0].detached == []


def test_what_an_assignment_brings_in_counts() -> None:
    def forward(self: Any, x: Any) -> Any:
        hidden = self.first(x).tanh()
        out = torch.zeros(4, 8)
        out[:, :4] = self.second(hidden)[:, :4]
        return out, hidden.square().mean()

    model, x = Model(forward, first=nn.Linear(8, 8), second=nn.Linear(8, 8)), torch.randn(4, 8)
    compiled = ct.compile(model, "100%", **FAST)
    compiled(x)[0].sum().backward()
    assert ct.plans(compiled)[0].detached == []
    assert model.second.weight.grad is not None


def test_wrong_words_for_the_loss() -> None:
    model, inputs = made(SHAPES["dict"])
    for wrong in ("lss", 0, lambda output: output["loss"] * 2):
        torch._dynamo.reset()
        with pytest.raises(ValueError, match="returns no such tensor"):
            ct.compile(model, "100%", loss=wrong, **FAST)(*inputs)
    for wrong in (1.5, True, ["loss"]):
        with pytest.raises(TypeError, match="loss must be"):
            ct.compile(model, "100%", loss=wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="loss must be"):
            ct.explain(model, inputs, loss=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="split"):
        ct.compile(model, "1GiB", graph_breaks="split", loss="loss")


def test_more_models_of_a_class_than_pytorch_compiles_one_for() -> None:
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    with torch._dynamo.config.patch({limit: 2}):
        for _ in range(4):
            model, inputs = made(SHAPES["tuple"])
            scalar(ct.compile(model, "100%", **FAST)(*inputs))


class Classifier(torch.nn.Module):
    """Its logits are its largest tensor, and only their loss needs them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(32, 32), torch.nn.Linear(32, 2000)

    def forward(self, x: Any, target: Any) -> dict[str, Any]:
        logits = self.head(self.body(x).tanh())
        return {"loss": torch.nn.functional.cross_entropy(logits, target), "logits": logits}


def test_outputs_that_the_loop_drops_are_not_counted() -> None:
    model, inputs = Classifier(), (torch.randn(256, 32), torch.randint(0, 2000, (256,)))
    logits = 256 * 2000 * 4
    peaks = {}
    for keep in (True, False):
        torch._dynamo.reset()
        compiled = ct.compile(model, "100%", keep_outputs=keep, **FAST)
        compiled(*inputs)["loss"].backward()
        (plan,) = ct.plans(compiled)
        peaks[keep] = plan.baseline_peak_bytes
        held: list[Any] = []

        def step(compiled: Any = compiled, held: list[Any] = held, keep: bool = keep) -> None:
            found = compiled(*inputs)
            loss = found["loss"]
            held[:] = [found] if keep else []
            del found
            loss.backward()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.zero_grad(set_to_none=True)
            assert meter.peak_bytes(step, model, inputs) <= plan.peak_bytes <= plan.budget_bytes
    assert 0.9 * logits <= peaks[True] - peaks[False] <= logits
    model.zero_grad(set_to_none=True)
    with pytest.warns(RuntimeWarning, match=rf"{logits:,} bytes that the model returned with its loss are still held"):
        found = compiled(*inputs)
        found["loss"].backward()
    del found
    model.zero_grad(set_to_none=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(*inputs)["loss"].backward()


def test_what_keeping_outputs_takes_is_explained() -> None:
    model, inputs = Classifier(), (torch.randn(256, 32), torch.randint(0, 2000, (256,)))
    note = "2.05 MB of each of these are what the model returns in addition to its loss"
    assert any(line.startswith(note) for line in ct.explain(model, inputs, budgets=1, show=None, **FAST).notes)
    assert not any(note in line for line in ct.explain(model, inputs, budgets=1, show=None, keep_outputs=False, **FAST).notes)
    for wrong, kind in (({"keep_outputs": 0}, TypeError), ({"keep_outputs": False, "graph_breaks": "split"}, ValueError),
                        ({"keep_outputs": False, "in_flight": 2}, ValueError)):  # fmt: skip
        with pytest.raises(kind, match="keep_outputs"):
            ct.compile(model, "1GB", **wrong)
