# SPDX-License-Identifier: Apache-2.0
"""Small Keras models whose activations are larger than their weights, and training steps whose every trace is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from keras import layers

import checkmate.tf2 as c2

#: Options for tests of what is not the solver.
FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 2}


@dataclass
class Case:
    """A model that is not trained yet, and batches for it."""

    model: Any
    loss: Any
    optimizer: Any
    batches: list[tuple[Any, Any]]


def images(count: int, side: int, channels: int, batches: int) -> list[Any]:
    generator = np.random.default_rng(5)
    return [tf.constant(generator.standard_normal((count, side, side, channels)), tf.float32) for _ in range(batches)]


def classes(count: int, number: int, batches: int) -> list[Any]:
    generator = np.random.default_rng(6)
    return [tf.constant(generator.integers(0, number, count), tf.int32) for _ in range(batches)]


def conv(batches: int = 3, depth: int = 6, count: int = 16) -> Case:
    """Convolutions, batch normalizations, ReLU and dropout."""
    x = start = layers.Input((32, 32, 3))
    for i in range(depth):
        x = layers.Conv2D(16, 3, padding="same", use_bias=i % 2 == 0)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(layers.Dropout(0.2)(x)))
    model = tf.keras.Model(start, layers.Dense(10)(x), name="conv")
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    pairs = zip(images(count, 32, 3, batches), classes(count, 10, batches), strict=True)
    return Case(model, loss, tf.keras.optimizers.Adam(0.01), list(pairs))


def unet(batches: int = 3, count: int = 16) -> Case:
    """Two levels, joined by concatenation."""

    def block(x: Any, width: int) -> Any:
        return layers.Activation("gelu")(layers.GroupNormalization(4)(layers.Conv2D(width, 3, padding="same")(x)))

    start = layers.Input((32, 32, 3))
    first = block(start, 8)
    second = block(layers.MaxPooling2D()(first), 16)
    x = block(layers.MaxPooling2D()(second), 32)
    x = block(layers.Concatenate()([layers.Conv2DTranspose(16, 2, 2)(x), second]), 16)
    x = block(layers.Concatenate()([layers.UpSampling2D()(x), first]), 8)
    model = tf.keras.Model(start, layers.Conv2D(3, 1)(x), name="unet")
    inputs = images(count, 32, 3, batches)
    return Case(model, "mse", tf.keras.optimizers.SGD(0.05, momentum=0.9), [(x, tf.tanh(x)) for x in inputs])


def grouped(batches: int = 3, count: int = 16) -> Case:
    """Convolutions in groups, which Keras has XLA compile, as in ConvNeXt."""
    x = start = layers.Input((16, 16, 16))
    for _ in range(3):
        y = layers.LayerNormalization()(layers.Conv2D(16, 5, padding="same", groups=16)(x))
        x = layers.Add()([x, layers.Dense(16)(layers.Dense(64, activation="gelu")(y))])
    model = tf.keras.Model(start, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)), name="grouped")
    return Case(model, "mse", tf.keras.optimizers.SGD(0.05), [(x, x[:, 0, 0, :3]) for x in images(count, 16, 16, batches)])


class Noise(layers.Layer):
    """Adds the same numbers each time, which TensorFlow would compute once and keep."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def call(self, x: Any) -> Any:
        return x + 0.01 * tf.random.stateless_normal((24, *x.shape[1:]), (self.number, 1))


def noisy(batches: int = 3) -> Case:
    x = start = layers.Input((48, 64))
    for i in range(5):
        x = Noise(i)(layers.Dense(64, "tanh")(x))
    model = tf.keras.Model(start, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)), name="noisy")
    generator = np.random.default_rng(8)
    pairs = [tuple(tf.constant(generator.standard_normal(shape), tf.float32) for shape in ((24, 48, 64), (24, 3))) for _ in range(batches)]
    return Case(model, "mse", tf.keras.optimizers.SGD(0.05), pairs)


class Places(layers.Layer):
    """Adds what is learned of each place."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer="uniform", name="table")

    def call(self, x: Any) -> Any:
        return x + self.table


def transformer(batches: int = 3, count: int = 24) -> Case:
    """An encoder: embeddings of words and places, attention, dropout."""
    vocabulary, length, width = 64, 48, 32
    words = layers.Input((length,), dtype="int32")
    x = Places()(layers.Embedding(vocabulary, width)(words))
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, width // 4, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(attended)]))
        inner = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(inner)]))
    model = tf.keras.Model(words, layers.Dense(vocabulary)(x), name="transformer")
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    generator = np.random.default_rng(7)
    tokens = [tf.constant(generator.integers(0, vocabulary, (count, length)), tf.int32) for _ in range(batches)]
    return Case(model, loss, tf.keras.optimizers.AdamW(1e-3), [(t, tf.roll(t, -1, 1)) for t in tokens])


@tf.keras.utils.register_keras_serializable("checkmate_tests")
class Penalty(layers.Layer):
    """Adds a share of its input's squares to the loss."""

    def __init__(self, rate: float = 0.1, **settings: Any) -> None:
        super().__init__(**settings)
        self.rate = rate

    def call(self, x: Any) -> Any:
        self.add_loss(self.rate * tf.reduce_mean(tf.square(x)))
        return x

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"rate": self.rate}


def penalties(batches: int = 3) -> Case:
    """A perceptron whose loss has parts of its own."""
    x = start = layers.Input((128,))
    for i in range(8):
        x = layers.Dense(128, "tanh", kernel_regularizer="l2" if i % 2 else None, activity_regularizer="l2" if i == 3 else None)(x)
        x = Penalty()(x) if i % 3 == 0 else x
    model = tf.keras.Model(start, layers.Dense(1)(x), name="penalties")
    generator = np.random.default_rng(8)
    inputs = [tf.constant(generator.standard_normal((2048, 128)), tf.float32) for _ in range(batches)]
    return Case(model, "mse", tf.keras.optimizers.RMSprop(1e-3), [(x, tf.reduce_mean(x, 1, keepdims=True)) for x in inputs])


def wide(batches: int = 3) -> Case:
    """Variables that are larger than all else."""
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(1024, "relu"), layers.Dense(1024, "relu"), layers.Dense(10)])
    generator = np.random.default_rng(9)
    inputs = [tf.constant(generator.standard_normal((16, 64)), tf.float32) for _ in range(batches)]
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Case(model, loss, tf.keras.optimizers.SGD(0.01, momentum=0.9), list(zip(inputs, classes(16, 10, batches), strict=True)))


#: Those that fit half of what they take without rematerialization.
CASES: dict[str, Callable[..., Case]] = {f.__name__: f for f in (conv, unet, grouped, noisy, transformer, penalties)}
ALL = CASES | {"wide": wide}


def make(name: str, **settings: Any) -> Case:
    """The same weights and random numbers each time."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(3)
    return ALL[name](**settings)


def values(*owners: Any) -> dict[str, Any]:
    """All variables of models and optimizers: weights, moving statistics, seeds, slots, the number of updates."""
    found = {}
    for i, owner in enumerate(owners):
        for variable in owner.variables:
            found[f"{i}:{variable.path}"] = variable.numpy()
    return found


def train(case: Case, budget: int | str, **options: Any) -> tuple[dict[str, Any], c2.Plan]:
    """All predictions, losses and then variables of a training within a budget, and its first plan."""
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], budget, **(FAST | options))
    return trained(case, step), c2.plans(step)[0]


def train_eagerly(case: Case) -> dict[str, Any]:
    """The same without tf.function, written down once more."""
    case.model.compile(None, case.loss)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            prediction = case.model(x, training=True)
            loss = case.model.compute_loss(x, y, prediction)
        case.optimizer.apply(tape.gradient(loss, case.model.trainable_variables), case.model.trainable_variables)
        return prediction, loss

    return trained(case, step)


def trained(case: Case, step: Callable[..., Any]) -> dict[str, Any]:
    found = {}
    for i, batch in enumerate(case.batches):
        prediction, loss = step(*batch)
        found[f"prediction {i}"], found[f"loss {i}"] = prediction.numpy(), loss.numpy()
    return found | values(case.model, case.optimizer)


def difference(found: dict[str, Any], expected: dict[str, Any], skip: Iterable[str] = ()) -> str:
    """What differs first, bit by bit; empty when nothing does."""
    if found.keys() != expected.keys():
        return f"there are {sorted(found)}, not {sorted(expected)}"
    for name, value in found.items():
        other = expected[name]
        if name not in skip and (value.dtype != other.dtype or value.shape != other.shape or value.tobytes() != other.tobytes()):
            far = np.max(np.abs(np.asarray(value, np.float64) - np.asarray(other, np.float64))) if value.shape == other.shape else "the shapes"
            return f"{name}: they differ by {far}"
    return ""
