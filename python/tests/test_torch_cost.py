# SPDX-License-Identifier: Apache-2.0
"""Measuring what a call costs takes not much longer than the call."""

from __future__ import annotations

import operator
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.cost import cost  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402


def call(target: Any, *shapes: tuple[int, ...]) -> fx.Node:
    """A node of `target` on tensors of these shapes."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = fx.Graph()
    with FakeTensorMode():
        values = [torch.empty(shape) for shape in shapes]
        result = target(*values)
    operands = [graph.placeholder(f"x{i}") for i in range(len(shapes))]
    node = graph.call_function(target, tuple(operands))
    for each, value in zip([*operands, node], [*values, result], strict=True):
        each.meta["val"] = value
    return node


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", ["mul.Tensor", "sub.Tensor", "div.Scalar", "pow.Scalar", "rsub.Scalar", "addcmul.default"])
def test_an_estimate_knows_what_numbers_take(number: str, dtype: Any) -> None:
    """As the allocator tells it, or a conversion's few bytes more."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    name, overload = number.split(".")
    target = getattr(getattr(torch.ops.aten, name), overload)
    real = torch.ones(512, dtype=dtype)
    arguments: list[Any] = {"pow": [2, "x"], "addcmul": ["x", "x", "x"]}.get(name, ["x", 2])

    def given(x: Any) -> list[Any]:
        return [x if a == "x" else a for a in arguments]

    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(target, tuple(given(x)))
    with FakeTensorMode():
        x.meta["val"] = torch.empty(512, dtype=dtype)
        node.meta["val"] = target(*given(x.meta["val"]))
    target(*given(real))
    taken = meter.allocated(lambda: target(*given(real)), torch.device("cpu")) - node.meta["val"].nbytes
    assert taken <= cost.estimate(node)[1] <= taken + 8


def test_a_long_call_runs_seldom_a_short_one_often(monkeypatch: pytest.MonkeyPatch) -> None:
    node = call(torch.ops.aten.add.Tensor, (1024,), (1024,))
    for seconds, expected in ((0.0, 22), (0.15, 3)):
        ran = []

        def slow(*args: Any, seconds: float = seconds, ran: list[int] = ran) -> Any:
            ran.append(1)
            time.sleep(seconds)
            return torch.add(*args)

        monkeypatch.setattr(node, "target", slow)
        nanoseconds, _workspace, out = cost._measured(node, 5)
        assert len(ran) <= expected
        assert nanoseconds >= seconds * 1e9
        assert out == 4096
    assert len(ran) < 7


def test_a_first_run_that_was_disturbed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may load a library, or wait for the processor, for longer than a call that runs once alone."""
    node = call(torch.ops.aten.add.Tensor, (1024,), (1024,))
    pauses = [2 * cost._ENOUGH]
    monkeypatch.setattr(node, "target", lambda *args: (time.sleep(pauses.pop() if pauses else 0), torch.add(*args))[1])
    assert cost._measured(node, 5)[0] < cost._ENOUGH * 1e9


def counted(node: fx.Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the call runs."""
    ran: list[int] = []
    target = node.target
    monkeypatch.setattr(node, "target", lambda *args: (ran.append(1), target(*args))[1])
    return ran


def test_runs_that_touch_new_memory_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    node = call(torch.ops.aten.add.Tensor, (1024,), (1024,))
    ran = counted(node, monkeypatch)
    asked = []

    def page_faults() -> int:
        """Grows in the first four runs, in each of which it is asked for twice."""
        asked.append(1)
        return min(len(asked), 8)

    monkeypatch.setattr(cost, "_page_faults", page_faults)
    cost._measured(node, 5)
    assert len(ran) == 2 + 4 + 5
    monkeypatch.setattr(cost, "_page_faults", iter(range(1000)).__next__)
    ran.clear()
    cost._measured(node, 5)
    assert len(ran) == 2 + 20, "some calls always touch new memory"


def test_a_slow_meter_leaves_time_for_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    node = call(torch.ops.aten.add.Tensor, (1024,), (1024,))
    ran = counted(node, monkeypatch)
    allocated = cost.meter.allocated
    monkeypatch.setattr(cost.meter, "allocated", lambda *args: (time.sleep(0.3), allocated(*args))[1])
    monkeypatch.setattr(cost, "_page_faults", lambda: 0)
    cost._measured(node, 5)
    assert len(ran) == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_batch_norm_in_mixed_precision_is_measured(dtype: Any) -> None:
    """Its backward pass allocates its first result twice. Tracing tells that its statistics are in half precision; they are not."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    forward, backward = torch.ops.aten._native_batch_norm_legit_functional.default, torch.ops.aten.native_batch_norm_backward.default
    graph = fx.Graph()

    def node(target: Any, *args: Any) -> fx.Node:
        made = graph.call_function(target, args) if target is not None else graph.placeholder("x")
        made.meta["val"] = args[0] if target is None else target(*fx.map_arg(args, lambda n: n.meta["val"]))
        return made

    with FakeTensorMode():
        x, weight, bias, mean, var = (node(None, torch.empty(8, 32, 16, 16, dtype=dtype)), *(node(None, torch.empty(32)) for _ in range(4)))
        norm = node(forward, x, weight, bias, mean, var, True, 0.1, 1e-5)
        saved = [node(torch.ops.aten.detach.default, node(operator.getitem, norm, i)) for i in (1, 2)]
        last = node(backward, x, x, weight, None, None, *saved, True, 1e-5, [True, True, True])
    with cost._outside_of_tracing():
        _nanoseconds, workspace, *outputs = cost._measured(last, 1)
    real = torch.ones(8, 32, 16, 16, dtype=dtype)
    given = (real, real, torch.ones(32), None, None, torch.zeros(32), torch.ones(32), True, 1e-5, [True, True, True])
    assert outputs == [t.nbytes for t in backward(*given)]
    assert workspace == meter.allocated(lambda: backward(*given), torch.device("cpu")) - sum(outputs) > 0


def test_operands_are_random_to_the_last_element() -> None:
    for shape in ((3,), (1 << 16,), ((1 << 16) * 2 + 5,)):
        x = cost._random(torch.empty(shape))
        assert x.abs().max() > 0
        assert bool((x[-3:] != 0).all())
        assert abs(x.mean()) < 1
        assert torch.isfinite(x).all()
    assert cost._random(torch.empty_strided((4, 4), (1, 4), dtype=torch.bfloat16)).stride() == (1, 4)
    assert cost._random(torch.empty(0)).numel() == 0


def test_a_profile_that_is_running_is_left_alone() -> None:
    def calls() -> None:
        torch.ones(8).exp()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with pytest.raises(ct.UnsupportedError, match="a profile is running"):
            meter.allocated(calls, torch.device("cpu"))
        calls()
    assert any(event.key == "aten::exp" for event in profile.key_averages())


@torch.library.custom_op("checkmate_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    if not bool((x > 0).all()):
        raise RuntimeError("an operand must be positive")
    return x.sqrt()


positive.register_fake(torch.empty_like)
positive.register_autograd(
    lambda ctx, grad: 0.5 * grad / ctx.saved_tensors[0], setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
)


def test_a_call_that_cannot_be_measured_is_named() -> None:
    """Nothing is counted of what it takes inside, so that a budget may be exceeded by it: that is said, once."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = positive(self.linear(x).exp())
            return positive(y + 1.0).sum()

    model, x = Model(), torch.randn(4, 16)
    expected = model(x)
    compiled = ct.compile(model, "100%", time_limit=1)
    with pytest.warns(RuntimeWarning, match=r"checkmate_tests\.positive.*its time is estimated, and no memory inside of it is counted") as seen:
        loss = compiled(x)
    loss.backward()
    assert torch.equal(loss, expected)
    assert len([w for w in seen if "is estimated" in str(w.message)]) == 1
