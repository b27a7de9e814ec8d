# SPDX-License-Identifier: Apache-2.0
"""From a traced step to the dataflow graph that is planned, and what a plan says of itself."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from tf2_models import FAST, make  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate.tf2 import lower, measure, program  # noqa: E402
from checkmate.tf2.planner import Options  # noqa: E402


def read(step: Any, *specs: Any) -> program.Program:
    return program.read(tf.function(step).get_concrete_function(*specs))


@pytest.fixture(scope="module")
def conv() -> program.Program:
    case = make("conv", batches=1)
    step = c2.function(lambda x, y: None, "100%")
    from checkmate.tf2 import keras_steps

    case.optimizer.build(case.model.trainable_variables)
    step = c2.Planned(keras_steps.step_of(case.model, case.loss, case.optimizer), Options(**FAST), "conv")
    return program.read(step.concrete(*case.batches[0]))


def test_shape_arithmetic_is_folded(conv: program.Program) -> None:
    kinds = {call.type for call in conv.calls}
    assert not kinds & {"Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "Identity", "StopGradient"}, kinds
    assert {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Rsqrt", "Relu"} <= kinds
    traced = len(conv.graph.get_operations())
    assert len(conv.calls) < 0.7 * traced, (len(conv.calls), traced)


def test_folded_values_are_what_tensorflow_computes() -> None:
    variable = tf.Variable(tf.ones((3, 5)))

    def step(x: Any) -> Any:
        count = tf.cast(tf.size(x), tf.float32)
        return tf.reshape(x * variable, tf.stack([tf.shape(x)[1], -1])), count / 4.0, tf.range(tf.rank(x)) + 7

    traced = read(step, tf.TensorSpec((3, 5)))
    assert [call.type for call in traced.calls] == ["ReadVariableOp", "Mul", "Reshape"]
    by_hand = [None, np.float32(15 / 4), np.array([7, 8])]
    for result, expected in zip(traced.results, by_hand, strict=True):
        assert (result.constant is None) == (expected is None)
        assert expected is None or np.array_equal(result.constant, expected)


def test_what_is_computed_twice_of_the_same_is_computed_once() -> None:
    """As Grappler does; where it is computed again is for the schedule to say. Random numbers and reads of variables stay apart."""
    variable = tf.Variable(tf.ones((4, 4)))

    def step(x: Any) -> Any:
        a, b = tf.nn.relu(x), tf.nn.relu(x)
        left, right = a * 2.0, b * 2.0
        c = tf.reduce_sum(left, 0) + tf.reduce_sum(right, 0)
        before = variable + 0.0
        variable.assign(x)
        drawn = tf.random.uniform((4,)), tf.random.uniform((4,))
        return c, tf.reduce_sum(right, 1), before, variable + 0.0, drawn, a

    traced = read(step, tf.TensorSpec((4, 4)))
    kinds = [call.type for call in traced.calls]
    assert (kinds.count("Relu"), kinds.count("Mul"), kinds.count("Sum"), kinds.count("RandomUniform"), kinds.count("ReadVariableOp")) == (
        1,
        1,
        2,
        2,
        2,
    )
    planned = c2.function(step, "100%", **FAST)
    x = tf.constant(np.random.default_rng(1).standard_normal((4, 4)), tf.float32)
    found = planned(x)
    a = np.maximum(x.numpy(), 0.0)
    assert np.array_equal(found[5], a) and np.allclose(found[0], 4.0 * a.sum(0)) and np.allclose(found[1], 2.0 * a.sum(1))
    assert np.array_equal(found[2], np.ones((4, 4))) and np.array_equal(found[3], x) and not np.array_equal(*found[4])


def test_results_that_are_constant_arguments_or_twice_the_same() -> None:
    def step(x: Any) -> Any:
        y = x + 1.0
        return x, y, tf.constant(3.0), y, tf.identity(y)

    planned = c2.function(step, "100%", **FAST)
    assert [float(v) for v in planned(tf.constant(1.0))] == [1.0, 2.0, 3.0, 2.0, 2.0]


def test_large_constants_are_inputs_that_are_counted() -> None:
    table = np.arange(1 << 16, dtype=np.float32)
    planned = c2.function(lambda x: tf.reduce_sum(x * tf.constant(table)), "100%", **FAST)
    assert float(planned(tf.ones(1 << 16))) == pytest.approx(float(table.sum()), rel=1e-5)
    (plan,) = c2.plans(planned)
    assert any(t.bytes == table.nbytes and "Const" in t.name for t in plan.graph.tensors)


def test_what_has_no_effect_is_not_computed() -> None:
    def step(x: Any) -> Any:
        tf.exp(x)
        return tf.sin(x)

    assert [call.type for call in read(step, tf.TensorSpec((4,))).calls] == ["Sin"]


def test_state_is_read_and_changed_once(conv: program.Program) -> None:
    assert all(call.once for call in conv.calls if call.assigns or call.type in ("ReadVariableOp", "ResourceApplyAdam"))
    for kind in ("Conv2D", "Relu", "Rsqrt"):
        found = [call for call in conv.calls if call.type == kind]
        assert found and not any(call.once for call in found), kind


def test_updates_do_not_wait_for_one_another(conv: program.Program) -> None:
    """The last layer's weights are updated before the gradients of the first are computed."""
    position = {call: i for i, call in enumerate(conv.calls)}
    updates = [call for call in conv.calls if call in conv.tail and call.assigns and any("dense" in v.name for v in call.inputs)]
    updates = updates or [call for call in conv.calls if call in conv.tail and call.assigns]
    last_gradient = max(position[call] for call in conv.calls if call.type == "Conv2DBackpropFilter")
    assert min(position[call] for call in updates) < last_gradient
    for call in conv.calls:  # and the order is one of the graph
        for value in call.inputs:
            makers = [position[other] for other in conv.calls if value in other.outputs]
            assert not makers or makers[0] < position[call]


def test_the_graph_counts_variables_arguments_and_slots(conv: program.Program) -> None:
    facts = measure.table(measure.Costs(measure=False), conv.calls)
    lowered = lower.lower(conv, facts, name="conv", fixed_bytes=1000)
    case = make("conv", batches=1)
    case.optimizer.build(case.model.trainable_variables)
    owned = sum(v.numpy().nbytes for v in [*case.model.variables, *case.optimizer.variables])
    given = sum(t.numpy().nbytes for t in case.batches[0])
    produced = {t for op in lowered.graph.ops for t in op.outputs}
    entering = sum(t.bytes for i, t in enumerate(lowered.graph.tensors) if i not in produced)
    assert entering == pytest.approx(owned + given, rel=0.01)
    assert lowered.graph.fixed_bytes >= 1000


def test_views_cost_nothing() -> None:
    """As measured."""
    variables = [tf.Variable(tf.random.stateless_normal((256, 256), (1, i)) / 16) for i in range(2)]

    def step(x: Any) -> Any:
        y = tf.reshape(x @ variables[0], (512, 512))
        return tf.reduce_sum(tf.reshape(tf.tanh(y), (1024, 256)) @ variables[1])

    traced = read(step, tf.TensorSpec((1024, 256)))
    facts = {call.type: found for call, found in measure.table(measure.Costs(), traced.calls).items()}
    assert facts["Reshape"].views == (0,) and facts["ReadVariableOp"].views == (0,)
    assert facts["MatMul"].views == (-1,) and facts["MatMul"].over == ()
    assert facts["Tanh"].views == (-1,)
    assert facts["MatMul"].how == "measured" and facts["MatMul"].nanoseconds > facts["Reshape"].nanoseconds


def test_layers_have_their_names(conv: program.Program) -> None:
    modules = {call.module for call in conv.calls}
    assert any(m.endswith("conv2d_1") or ".conv2d_1." in m + "." for m in modules), modules
    assert not any("gradient_tape" in m for m in modules)


def test_a_plan_says_what_it_is(tmp_path: pathlib.Path) -> None:
    case = make("penalties")
    lines: list[str] = []
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "60%", progress=lines.append, **FAST)
    (plan,) = c2.plans(step)
    text = str(plan)
    assert f"peak {plan.peak_bytes:,} of {plan.budget_bytes:,} bytes" in text and f"{len(plan.recomputed)} recomputed" in text
    assert repr(plan) == f"<Plan: {text}>" and lines[-1] == f"penalties: {text}"
    assert plan.overhead == pytest.approx(plan.cost / plan.baseline_cost - 1) and plan.overhead > 0
    assert plan.origin == "solver" and plan.bound is not None and plan.gap is not None and plan.bound <= plan.cost
    assert plan.floor_bytes <= plan.peak_bytes
    plan.report(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.startswith("<!doctype html>") and "dense_3" in page


def test_everything_public_is_documented() -> None:
    for name in c2.__all__:
        assert getattr(c2, name).__doc__, f"{name} has no documentation"
    for name in Options.__dataclass_fields__:
        assert f"{name}:" in c2.compile.__doc__ or f"{name}," in c2.compile.__doc__ or f" {name}" in c2.compile.__doc__, name


def test_what_is_written_to_be_computed_again_is_not_merged() -> None:
    """swish computes its sigmoid and the product in it again in the backward pass instead of keeping them."""
    variable = tf.Variable(tf.ones((4, 4)))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.nn.silu(x @ variable))
        return value, tape.gradient(value, variable)

    traced = read(step, tf.TensorSpec((4, 4)))
    products = [call for call in traced.calls if call.type == "Mul" and {v.name for v in call.inputs} == {"beta:0", "matmul:0"}]
    assert [call.type for call in traced.calls].count("Sigmoid") == 2 and len(products) == 3


def test_a_schedule_that_costs_too_much_is_searched_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the solver's time was too short."""
    from checkmate.tf2 import planner

    variables = [tf.Variable(tf.ones((256, 256))) for _ in range(6)]

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            for variable in variables:
                x = tf.tanh(x @ variable)
            value = tf.reduce_sum(x)
        return value, tape.gradient(value, variables)[0]

    seconds: list[float] = []
    solve = planner.solve

    def slow(*args: Any, **options: Any) -> Any:
        seconds.append(options["time_limit"])
        found = solve(*args, **options)
        if len(seconds) == 1:
            monkeypatch.setattr(type(found), "overhead", property(lambda self: 3.0 if self is found else 0.1))
            object.__setattr__(found, "status", "feasible")
        return found

    monkeypatch.setattr(planner, "solve", slow)
    planned = c2.function(step, "85%", costs="estimate", time_limit=1.0, cache=False)
    planned.prepare(tf.TensorSpec((2048, 256)))
    assert seconds == [1.0, 3.0]
