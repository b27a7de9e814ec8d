# SPDX-License-Identifier: Apache-2.0
"""verify=True: the first step compared with eager mode and PyTorch's tracing, by source, and nothing left behind."""

from __future__ import annotations

import copy
import pathlib
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from models import Untraceable, make  # noqa: E402
from steps import FAST  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import partition  # noqa: E402
from checkmate.torch.plan import verify  # noqa: E402


class Counting(torch.nn.Module):
    """Statistics, dropout and Python's own state, all of which a step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 16)
        )
        self.head = torch.nn.Linear(16, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.head(self.net(x) + x).square().mean()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def after_a_step(model: torch.nn.Module, call: Any, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(7)
    loss = call(x)
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters()), *(b.clone() for b in model.buffers()), torch.get_rng_state(), torch.rand(2)]


@pytest.mark.parametrize("options", [{}, {"inplace": True}, {"random": "keep"}])
def test_a_verified_step_leaves_what_one_step_leaves(options: dict[str, Any]) -> None:
    model, x = Counting(), torch.randn(64, 16)
    twin = copy.deepcopy(model)
    compiled = ct.compile(model, "75%", verify=True, **options, **FAST)
    state = random.getstate()
    with torch.no_grad():
        assert not ct.plans(compiled), "nothing is verified before there is something to differentiate"
    for mine, theirs in zip(after_a_step(model, compiled, x), after_a_step(twin, twin, x), strict=True):
        assert torch.equal(mine, theirs)
    assert random.getstate() == state
    assert int(model.seen) == int(model.net[1].num_batches_tracked) == 1
    (plan,) = ct.plans(compiled)
    assert plan.verification is not None
    assert not plan.verification.differences
    assert plan.verification.values == 1 + 8 + 4, "the loss, gradients, and buffers of the norm and the counter"
    assert "eager mode's, bit for bit" in str(plan)
    model.zero_grad()
    assert after_a_step(model, compiled, x)[0] != 0
    assert int(model.seen) == 2, "only the first step is run several ways"


@pytest.mark.parametrize("how", ["closure", "method"])
def test_modules_of_a_function_are_put_back(how: str) -> None:
    model, x = Counting(), torch.randn(64, 16)
    twin = copy.deepcopy(model)
    run = model.forward if how == "method" else lambda x: model(x)
    compiled = ct.compile(run, "75%", verify=True, **FAST)
    for mine, theirs in zip(after_a_step(model, compiled, x), after_a_step(twin, twin, x), strict=True):
        assert torch.equal(mine, theirs)
    assert int(model.seen) == 1
    verification = ct.plans(compiled)[0].verification
    assert verification is not None
    assert verification.values == 1 + 8 + 4


def test_python_state_is_put_back() -> None:
    model = torch.nn.Linear(4, 4)
    model.calls, model.log, model.names = 0, [1], {"a": 1}
    state = verify._State(model, (), {})
    model.calls, model.extra = 5, 1
    model.log.append(2)
    model.names["b"] = 2
    kept = model.log
    state.restore()
    assert (model.calls, model.log, model.names) == (0, [1], {"a": 1})
    assert model.log is kept
    assert not hasattr(model, "extra")


def test_an_unverified_plan_says_nothing() -> None:
    compiled = ct.compile(Counting(), "75%", **FAST)
    compiled(torch.randn(64, 16))
    assert ct.plans(compiled)[0].verification is None
    assert "verified" not in str(ct.plans(compiled)[0])


@pytest.mark.parametrize("source", ["Dynamo", "AOTAutograd"])
def test_what_tracing_changes_is_reported_by_source(source: str) -> None:
    """A model that computes something else when Dynamo, or AOTAutograd, looks at it."""
    torch.compiler.allow_in_graph(scaled)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            if source == "Dynamo" and torch.compiler.is_dynamo_compiling():
                x = x * 1.5
            if source == "AOTAutograd":
                x = scaled(x)
            return self.second(x).square().mean()

    model, x = Model(), torch.randn(8, 16)
    compiled = ct.compile(model, "100%", verify=True, **FAST)
    with pytest.warns(RuntimeWarning, match=f"by {source}"):
        loss = compiled(x)
    loss.backward()
    found = ct.plans(compiled)[0].verification
    assert found is not None
    assert found.differences == found.by(source)
    assert {d.what for d in found.differences} >= {"output 0", "gradient of first.weight"}
    assert all(d.largest > 0 and d.scale > 0 for d in found.differences)
    assert source in str(found)
    assert torch.equal(loss.detach(), torch.compile(model, backend="aot_eager")(x).detach()), "the plan computes what PyTorch's tracing does"


def scaled(x: torch.Tensor) -> torch.Tensor:
    """In Dynamo's graph as it is; AOTAutograd traces what it does with functional tensors."""
    functional = isinstance(x, torch._subclasses.functional_tensor.FunctionalTensor)
    return x * (1.5 if functional else 1.0)


def scaled_by(split: Any, factor: float) -> Any:
    """`split`, whose backward graph scales what the first matrix product gives."""

    def broken(joint: Any, schedule: Any) -> Any:
        halves = split(joint, schedule)
        graph = halves.backward.graph
        node = next(node for node in graph.nodes if node.target is torch.ops.aten.mm.default)
        with graph.inserting_after(node):
            new = graph.call_function(torch.ops.aten.mul.Scalar, (node, factor))
        with node.meta["val"].fake_mode:
            new.meta = {**node.meta, "val": torch.empty_like(node.meta["val"])}
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        return halves

    return broken


def test_a_wrong_plan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule whose graphs compute something else is never taken for PyTorch's doing."""
    monkeypatch.setattr(partition, "split", scaled_by(partition.split, 1.25))
    model, x = Counting(), torch.randn(64, 16)
    before = copy.deepcopy(model.state_dict())
    compiled = ct.compile(model, "75%", verify=True, **FAST)
    torch.manual_seed(3)
    generator = torch.get_rng_state()
    with pytest.raises(ct.VerificationError, match=r"bug of checkmate's.* by ours"):
        compiled(x)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_callers_graph_is_left_alone() -> None:
    """What the caller computed the arguments from is differentiated once, by the caller; the plan is the one that was verified."""
    model, embed = Counting(), torch.nn.Linear(8, 16)
    given = torch.randn(64, 8)
    compiled = ct.compile(model, "75%", verify=True, **FAST)
    compiled(embed(given)).backward()
    assert embed.weight.grad is not None
    assert len(ct.plans(compiled)) == 1
    assert ct.plans(compiled)[0].verification.values == 1 + 8 + 1 + 4, "the gradient of the argument, too"


def test_a_backend_verifies_each_graph() -> None:
    model, x = Counting(), torch.randn(64, 16)
    twin = copy.deepcopy(model)
    made = ct.backend("75%", verify=True, **FAST)
    compiled = torch.compile(model, backend=made, dynamic=False)
    for mine, theirs in zip(after_a_step(model, compiled, x), after_a_step(twin, twin, x), strict=True):
        assert torch.equal(mine, theirs)
    (plan,) = made.plans
    assert plan.verification is not None
    assert not plan.verification.differences
    assert plan.verification.values >= 1 + 8 + 4, "outputs of the graph, gradients, and what the graph changes"
    assert int(model.seen) == 1


def test_a_wrong_graph_of_a_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "split", scaled_by(partition.split, 1.25))
    with pytest.raises(ct.VerificationError, match=r"by ours.*weight"):
        torch.compile(Counting(), backend=ct.backend("75%", verify=True, **FAST), dynamic=False)(torch.randn(64, 16))


def test_autocast_is_that_of_the_step() -> None:
    model, x = Counting(), torch.randn(64, 16)
    compiled = ct.compile(model, "90%", verify=True, **FAST)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = compiled(x)
    loss.backward()
    assert not ct.plans(compiled)[0].verification.differences


def test_memory_of_a_verified_step() -> None:
    """As documented: that of eager mode, a copy of the buffers, and of two ways the outputs, gradients and buffers. The next
    step is within the budget again."""
    model, inputs = make("perceptron")

    def step(run: Any) -> None:
        run(*inputs).backward()

    eager = physical.allocator_peak(lambda: step(model))
    model.zero_grad(set_to_none=True)
    ct.compile(model, "60%", time_limit=2)(*inputs)  # measures costs, and what kernels allocate, for the next one
    torch._dynamo.reset()
    compiled = ct.compile(model, "60%", verify=True, time_limit=2)
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    given = sum(t.numel() * t.element_size() for t in [*inputs, *model.buffers()])
    first = physical.allocator_peak(lambda: step(compiled))
    model.zero_grad(set_to_none=True)
    second = physical.allocator_peak(lambda: step(compiled))
    (plan,) = ct.plans(compiled)
    assert eager > plan.budget_bytes - physical.held_bytes(model, inputs), "else this shows nothing"
    assert eager <= first <= eager + 3 * (gradients + given) + 1_000_000
    assert physical.held_bytes(model, inputs) + second <= plan.budget_bytes


def test_what_cannot_be_verified_is_said() -> None:
    with pytest.raises(ValueError, match='compiler="eager"'):
        ct.compile(Counting(), "75%", verify=True, compiler="inductor")
    with pytest.raises(TypeError, match="verify must be"):
        ct.compile(Counting(), "75%", verify="yes")
    compiled = ct.compile(Untraceable(), "75%", verify=True, fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        compiled(torch.randn(4, 8))
    assert not ct.plans(compiled)
