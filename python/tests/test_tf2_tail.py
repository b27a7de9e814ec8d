# SPDX-License-Identifier: Apache-2.0
"""Where updates run, and what oneDNN keeps for pooling."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
keras = pytest.importorskip("keras")

import checkmate.tf2  # noqa: E402
from checkmate.tf2 import program  # noqa: E402


def traced(model: keras.Model, optimizer: keras.optimizers.Optimizer, x: tf.Tensor) -> program.Program:
    optimizer.build(model.trainable_variables)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return program.read(checkmate.tf2.function(step, costs="estimate").concrete(x))


@pytest.mark.parametrize("make", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_updates_do_not_wait_for_the_last_gradient(make: type) -> None:
    model = keras.Sequential([keras.Input((32,)), *(keras.layers.Dense(32, use_bias=False) for _ in range(5))])
    calls = traced(model, make(), tf.ones((4, 32))).calls
    last = max(i for i, call in enumerate(calls) if call.is_backward)
    handles = {id(v) for v in (call.inputs[0] for call in calls[:last] if call.assigns and call.inputs[0].variable == 32 * 32 * 4)}
    assert len(handles) >= 4  # all kernels but the one whose gradient is the last


def test_places_of_maxima_are_counted() -> None:
    from tensorflow.python.util import _pywrap_util_port

    if not _pywrap_util_port.IsMklEnabled():
        pytest.skip("oneDNN is off")
    model = keras.Sequential(
        [keras.Input((8, 8, 4)), keras.layers.Conv2D(4, 3, padding="same"), keras.layers.MaxPooling2D(), keras.layers.Conv2D(4, 3)]
    )
    calls = traced(model, keras.optimizers.SGD(), tf.ones((2, 8, 8, 4))).calls
    (pooling,) = (call for call in calls if call.type == "MaxPool")
    assert pooling.outputs[0].bytes == 2 * 4 * 4 * 4 * (4 + 1)
