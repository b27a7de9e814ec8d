# SPDX-License-Identifier: Apache-2.0
"""Updates of large variables in blocks of rows: the bits of the whole, in less memory, and no variable lost."""

from __future__ import annotations

from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
keras = pytest.importorskip("keras")

import numpy as np  # noqa: E402
from tf2_models import difference, make, train, train_eagerly  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate import Schedule  # noqa: E402
from checkmate.tf2 import blocks, measure, planner, run  # noqa: E402

SHAPE = (520, 1024)  # whose last block has fewer rows
MAKE = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "Adam, clipped": lambda: keras.optimizers.Adam(0.1, amsgrad=True, weight_decay=0.1, clipnorm=1.0),
    "Adam, all clipped": lambda: keras.optimizers.Adam(0.1, global_clipnorm=1.0, use_ema=True),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
    "Lion": lambda: keras.optimizers.Lion(0.1),
}


def special(seed: int, dtype: str = "float32") -> Any:
    """Numbers as they are, with some that kernels treat apart."""
    found = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, -3e38, 1e-20], np.float32)
    places = np.random.default_rng(seed + 1).integers(0, found.size, 4000)
    found.reshape(-1)[places] = odd[np.arange(4000) % len(odd)]
    return tf.cast(found, dtype)


def step_of(optimizer: Any, variable: Any) -> Any:
    optimizer.build([variable])

    def step(gradient: Any, more: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(variable.value * gradient + more)
        optimizer.apply_gradients([(tape.gradient(value, variable.value), variable)])
        return value

    return step


def traced(optimizer: Any, variable: Any, gradient: Any) -> planner.Traced:
    step = c2.function(step_of(optimizer, variable), "100%", costs="estimate", time_limit=1)
    return planner.trace(step.concrete(gradient, gradient), step.options, "step")


def after(name: str, in_blocks: bool, dtype: str) -> tuple[list[bytes], int]:
    """Variables after three steps, and how many operators ran in blocks."""
    variable, optimizer = keras.Variable(special(1, dtype), dtype=dtype), MAKE[name]()
    gradient = special(3, dtype) if "clipped" not in name else tf.random.stateless_normal(SHAPE, (1, 2))  # of which a norm can be taken
    found = traced(optimizer, variable, gradient)
    for owned in optimizer.variables:
        if owned.shape == SHAPE:
            owned.assign(tf.abs(special(5, dtype)))
    schedule = Schedule.baseline(found.graph)
    lowered = found.lowered
    sequence = lowered.sequence(schedule, () if in_blocks else lowered.blocks)
    program = lowered.program
    run_step = run.build(program, sequence, [v.spec for v in program.inputs[:2]])
    for _ in range(3):
        with run.as_written():
            run_step(gradient, gradient)
    return [v.numpy().tobytes() for v in (variable, *optimizer.variables)], len(lowered.blocks)


@pytest.mark.parametrize("name", MAKE)
def test_the_bits_of_the_whole(name: str) -> None:
    whole, count = after(name, in_blocks=False, dtype="float32")
    assert count > 0 and after(name, in_blocks=True, dtype="float32")[0] == whole


def test_a_model_trains_as_in_eager_mode() -> None:
    found, plan = train(make("wide"), "86%")
    assert plan.peak_bytes < plan.baseline_peak_bytes - 4 * 1024 * 1024 / 2  # no second copy of the largest variable
    assert difference(found, train_eagerly(make("wide"))) == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_bits_of_other_types(dtype: str) -> None:
    whole, count = after("momentum", in_blocks=False, dtype=dtype)
    assert count > 0 and after("momentum", in_blocks=True, dtype=dtype)[0] == whole


@pytest.mark.parametrize("kind", sorted(blocks._ELEMENTWISE))
def test_operators_give_the_same_bits_by_blocks(kind: str) -> None:
    a, b = special(1), special(2)
    one = {"Sqrt", "Square", "Neg", "Abs", "Sign"}
    op = getattr(tf.raw_ops, kind)
    names = ("x", "y") if kind not in one else ("x",)
    whole = op(**dict(zip(names, (a, b), strict=False))).numpy()
    for begin in range(0, SHAPE[0], 64):
        part = op(**dict(zip(names, (a[begin : begin + 64], b[begin : begin + 64]), strict=False)))
        assert part.numpy().tobytes() == whole[begin : begin + 64].tobytes()


def test_what_was_read_before_stays_as_it_was() -> None:
    """No referenced tensor is overwritten: its holder keeps the old numbers."""
    variable, gradient = keras.Variable(special(1)), special(3)
    found = traced(MAKE["momentum"](), variable, gradient)
    sequence = found.lowered.sequence(Schedule.baseline(found.graph))
    assert {"ResourceGather", "ResourceScatterAdd", "DisableCopyOnRead"} <= {call.type for call in sequence}
    step = run.build(found.lowered.program, sequence, [v.spec for v in found.lowered.program.inputs[:2]])
    held = tf.raw_ops.ReadVariableOp(resource=variable.value.handle, dtype=tf.float32)
    before = held.numpy().tobytes()
    with run.as_written():
        step(gradient, gradient)
    assert held.numpy().tobytes() == before != variable.numpy().tobytes()


def is_copied(variable: Any) -> bool:
    """Whether reading the variable takes memory."""
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    held = [tf.raw_ops.ReadVariableOp(resource=variable.value.handle, dtype=tf.float32) for _ in range(4)]
    more = tf.config.experimental.get_memory_info("CPU:0")["current"] - before
    return bool(more > len(held) // 2 * variable.numpy().nbytes)


def test_a_step_that_fails_between_blocks_loses_nothing() -> None:
    variable, optimizer = keras.Variable(special(1)), MAKE["momentum"]()
    optimizer.build([variable])

    def step(gradient: Any, bad: Any) -> Any:
        optimizer.apply_gradients([(gradient + 0.0, variable)])
        tf.raw_ops.Assert(condition=tf.reduce_sum(bad) <= 0.0, data=[bad])
        return tf.reduce_sum(bad)

    made = c2.function(step, "100%", costs="estimate", time_limit=1)
    gradient, fails = special(3), tf.ones(4)
    found = planner.trace(made.concrete(gradient, fails), made.options, "step")
    calls, written = found.lowered.sequence(Schedule.baseline(found.graph)), set(found.lowered.program.calls)
    inside = [c for c in calls if c not in written]
    (asserting,) = (c for c in calls if c.type == "Assert")
    inside.insert(1 + next(i for i, c in enumerate(inside) if c.type == "ResourceScatterAdd"), asserting)
    run_step = run.build(found.lowered.program, [*(c for c in calls if c not in inside), *inside], [v.spec for v in found.lowered.program.inputs[:2]])
    old, rows = variable.numpy(), blocks._rows(found.lowered.program.inputs[0])
    with run.as_written(), pytest.raises(tf.errors.InvalidArgumentError):
        run_step(gradient, fails)
    assert variable.numpy()[rows:].tobytes() == old[rows:].tobytes() and variable.numpy()[:rows].tobytes() != old[:rows].tobytes()
    if measure.counted_from():
        assert not is_copied(variable) and not is_copied(optimizer.variables[-1])
        tf.raw_ops.ResourceScatterAdd(resource=variable.value.handle, indices=[0], updates=tf.zeros((1, SHAPE[1])))
        assert is_copied(variable)  # what the test would see


def test_small_rows_and_small_variables_stay_whole() -> None:
    for shape in ((64, 64), (2**20,), (2**16, 15), (1, 2**20)):
        variable = keras.Variable(tf.zeros(shape))
        assert not traced(MAKE["momentum"](), variable, tf.zeros(shape)).lowered.blocks
