# SPDX-License-Identifier: Apache-2.0
"""One test for each fault of checkmate.tf2 that a user could have met."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow")
keras = pytest.importorskip("keras", reason="needs Keras")

import numpy as np  # noqa: E402

import checkmate.tf2 as checkmate_tf  # noqa: E402
from checkmate.tf2 import measure  # noqa: E402

FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 1}


def test_a_model_compiled_again_trains_with_what_it_was_compiled_with() -> None:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    checkmate_tf.keras(model, "1GB", **FAST)
    x, y = np.ones((2, 4), "float32"), np.ones((2, 1), "float32")
    model.fit(x, y, verbose=0)
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(0.0), "mae")
    model.fit(x, y, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert len(checkmate_tf.plans(model)) == 1


def test_a_model_that_was_fit_before_is_planned_from_then_on() -> None:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((2, 4), "float32"), np.ones((2, 1), "float32")
    model.fit(x, y, verbose=0)
    checkmate_tf.keras(model, "1GB", **FAST)
    model.fit(x, y, verbose=0)
    assert len(checkmate_tf.plans(model)) == 1


def test_a_step_given_as_tf_function_is_planned_by_operators() -> None:
    step = checkmate_tf.function(tf.function(lambda x: tf.tanh(x) + tf.exp(x)), "1GB", **FAST)
    step(tf.ones([8]))
    assert {op.name.split("/")[-1] for op in step.plans[0].graph.ops} >= {"Tanh", "Exp"}
    with pytest.raises(checkmate_tf.UnsupportedError, match="jit_compile"):
        checkmate_tf.function(tf.function(tf.tanh, jit_compile=True), "1GB")


def test_gradients_of_tf_gradients_are_backward_operators() -> None:
    weights = [tf.Variable(tf.eye(8)) for _ in range(3)]

    def step(x: Any) -> Any:
        h = x
        for w in weights:
            h = tf.tanh(h @ w)
        for w, gradient in zip(weights, tf.gradients(tf.reduce_sum(h), weights), strict=True):
            w.assign_sub(gradient)

    planned = checkmate_tf.function(step, "1GB", **FAST)
    planned(tf.ones([4, 8]))
    assert sum(op.kind == "backward" for op in planned.plans[0].graph.ops) >= 6


def test_strings_assertions_and_prints(tmp_path: pathlib.Path) -> None:
    written = tmp_path / "printed"

    def step(x: Any, names: Any) -> Any:
        tf.debugging.assert_less(tf.reduce_max(x), 3.0, message="too large")
        tf.print("sum", tf.reduce_sum(x), output_stream=f"file://{written}")
        return tf.strings.join([names, "!"])

    planned = checkmate_tf.function(step, "1GB", **FAST)
    assert planned(tf.ones([2]), tf.constant(["a", "b"])).numpy().tolist() == [b"a!", b"b!"]
    assert written.read_text() == "sum 2\n"
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        planned(5 * tf.ones([2]), tf.constant(["a", "b"]))


def test_control_edges_hold_through_an_identity() -> None:
    counter, seen = tf.Variable(1.0), []

    def see(value: Any) -> Any:
        seen.append(float(counter.numpy()))
        return value

    def step(x: Any) -> Any:
        total = tf.reduce_sum(tf.exp(x))
        shown = tf.numpy_function(see, [total], tf.float32)
        shown.set_shape([])
        with tf.control_dependencies([tf.identity(shown)]):
            counter.assign_add(1.0)
        return total

    planned = checkmate_tf.function(step, "1GB", **FAST)
    planned(tf.ones([2]))
    planned(tf.ones([2]))
    assert seen == [1.0, 2.0]


def test_steps_are_planned_while_functions_run_eagerly() -> None:
    tf.config.run_functions_eagerly(True)
    try:
        planned = checkmate_tf.function(lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, 2]) + 1.0, "1GB", **FAST)
        assert planned(tf.zeros([3, 4])).shape == (6, 2)
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("harm", [{"over": [[1]]}, {"over": "ab"}, {"views": 3}, {"views": [7]}, {"over": [[9, 9]]}, {"nanoseconds": 10**30}])
def test_damaged_costs_are_measured_again(harm: dict[str, Any], tmp_path: pathlib.Path) -> None:
    def step(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x))

    checkmate_tf.function(step, "1GB", time_limit=1).prepare(tf.TensorSpec([256, 256]))
    (path,) = tmp_path.rglob("costs.json")
    records = json.loads(path.read_text())
    assert records and all(measure.is_record(record) for record in records.values())
    path.write_text(json.dumps({key: {**record, **harm} for key, record in records.items()}))
    checkmate_tf.function(step, "1GB", time_limit=1).prepare(tf.TensorSpec([256, 256]))
    damaged = json.loads(path.read_text())
    assert all(measure.is_record(record) for record in damaged.values()) or "views" in harm or "over" in harm


def test_costs_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = measure._settings()
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2_TEST")
    assert measure._settings() != before
