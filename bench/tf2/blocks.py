# SPDX-License-Identifier: Apache-2.0
"""Networks as blocks, each a Keras model, so that a step can be written with tf.recompute_grad around each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cases
import keras
import numpy as np
import tensorflow as tf
from keras import layers

#: Runs a block on tensors.
Call = Callable[..., Any]


@dataclass(frozen=True)
class Network:
    """`forward` runs the blocks by the function it is given."""

    blocks: list[Any]
    forward: Callable[[Call, Any], Any]
    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]

    @property
    def variables(self) -> list[Any]:
        return [v for block in self.blocks for v in block.variables]

    @property
    def trained(self) -> list[Any]:
        return [v for block in self.blocks for v in block.trainable_variables]

    def step(self, optimizer: Any, *, recompute: bool) -> Callable[[Any, Any], Any]:
        """A training step as one writes it by hand; gives the loss."""
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def call(block: Any, *tensors: Any) -> Any:
            def run(*given: Any) -> Any:
                return block(given[0] if len(given) == 1 else list(given), training=True)

            return tf.recompute_grad(run)(*tensors) if recompute else run(*tensors)

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(y, self.forward(call, x))
            optimizer.apply_gradients(zip(tape.gradient(value, self.trained), self.trained, strict=True))
            return value

        return step


def make(name: str) -> Network:
    keras.utils.set_random_seed(1)
    return NETWORKS[name]()


def _block(build: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    inputs = [keras.Input(shape) for shape in shapes]
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], build(*inputs))


def _chain(blocks: list[Any]) -> Callable[[Call, Any], Any]:
    def forward(call: Call, x: Any) -> Any:
        for block in blocks:
            x = call(block, x)
        return x

    return forward


def _resnet() -> Network:
    def residual(width: int, stride: int) -> Callable[[Any], Any]:
        def build(x: Any) -> Any:
            y = layers.Conv2D(width, 3, stride, padding="same", use_bias=False)(x)
            y = layers.ReLU()(layers.BatchNormalization()(y))
            y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(y))
            if stride > 1 or x.shape[-1] != width:
                x = layers.BatchNormalization()(layers.Conv2D(width, 1, stride, use_bias=False)(x))
            return layers.ReLU()(layers.Add()([x, y]))

        return build

    side, channels = 64, 3
    blocks = []
    for width, stride in ((16, 1), (16, 1), (16, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1)):
        blocks.append(_block(residual(width, stride), (side, side, channels)))
        side, channels = side // stride, width
    blocks.append(_block(lambda x: layers.Dense(cases.CLASSES)(layers.GlobalAveragePooling2D()(x)), (side, side, channels)))
    return Network(blocks, _chain(blocks), cases.images(16, 64), cases.labels(16))


def _unet() -> Network:
    side, widths = 96, (16, 32, 64)
    down, up = [], []
    channels = 3
    for i, width in enumerate(widths):
        down.append(_block(lambda x, w=width: cases.conv_block(x, w), (side >> i, side >> i, channels)))
        channels = width
    bottom = _block(lambda x: cases.conv_block(x, 128), (side >> 3, side >> 3, channels))
    channels = 128
    for i in (2, 1, 0):

        def build(x: Any, kept: Any, width: int = widths[i]) -> Any:
            return cases.conv_block(layers.Concatenate()([layers.Conv2DTranspose(width, 2, strides=2)(x), kept]), width)

        up.append(_block(build, (side >> (i + 1), side >> (i + 1), channels), (side >> i, side >> i, widths[i])))
        channels = widths[i]
    head = _block(lambda x: layers.Conv2D(cases.CLASSES, 1)(x), (side, side, channels))

    def forward(call: Call, x: Any) -> Any:
        kept = []
        for block in down:
            x = call(block, x)
            kept.append(x)
            x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        x = call(bottom, x)
        for block in up:
            x = call(block, x, kept.pop())
        return call(head, x)

    return Network([*down, bottom, *up, head], forward, cases.images(8, side), cases.labels(8, side, side))


def _encoder() -> Network:
    """Without dropout, which tf.recompute_grad would draw anew."""
    words, length, width, batch = 2000, 128, 192, 16

    def embed(tokens: Any) -> Any:
        return layers.Embedding(words, width)(tokens)

    def block(x: Any) -> Any:
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, width // 4)(y, y)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        return layers.Add()([x, layers.Dense(width)(y)])

    def head(x: Any) -> Any:
        return layers.Dense(cases.CLASSES)(layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x)))

    tokens = keras.Input((length,), dtype="int32")
    first = keras.Model(tokens, embed(tokens))
    blocks = [_block(block, (length, width)) for _ in range(6)]
    last = _block(head, (length, width))

    def forward(call: Call, x: Any) -> Any:
        x = first(x, training=True)  # of integers there is no gradient
        for each in [*blocks, last]:
            x = call(each, x)
        return x

    x = np.random.default_rng(2).integers(0, words, (batch, length)).astype(np.int32)
    return Network([first, *blocks, last], forward, x, cases.labels(batch))


NETWORKS: dict[str, Callable[[], Network]] = {"ResNet": _resnet, "U-Net": _unet, "encoder": _encoder}
