# SPDX-License-Identifier: Apache-2.0
"""What is said to be proven is proven of the budget, the graph and the schedules that it is said of."""

from __future__ import annotations

from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
keras = pytest.importorskip("keras")

from keras import layers  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate import Schedule  # noqa: E402
from checkmate.tf2 import planner  # noqa: E402


def traced(optimizer: Any, wide: int = 512) -> planner.Traced:
    """A step whose largest tensors are a variable and what its update makes of it."""
    model = keras.Sequential([layers.Input((64,)), layers.Dense(wide, activation="relu"), layers.Dense(wide), layers.Dense(2)])
    optimizer.build(model.trainable_variables)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    options = planner.Options("100%", time_limit=2, cache=False)
    return planner.trace(c2.function(step).concrete(tf.ones((4, 64))), options, "step")


@pytest.mark.parametrize("make", [lambda: keras.optimizers.SGD(0.1), lambda: keras.optimizers.SGD(0.1, momentum=0.9),
                                  lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1), lambda: keras.optimizers.Adam(0.1),
                                  lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
                                  lambda: keras.optimizers.Lion(0.1)])  # fmt: skip
def test_the_graph_counts_what_an_update_takes(make: Any) -> None:
    step = traced(make())
    baseline = Schedule.baseline(step.graph)
    assert baseline.simulate(step.graph).peak_bytes == step.peak(baseline)
