# SPDX-License-Identifier: Apache-2.0
"""Models of tf.keras.applications at reduced resolution, and three of our own, with a batch each.

Resolution and batch are such that activations outweigh parameters and a step takes about a second on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers

CLASSES = 10
#: Resolution and batch.
APPLICATIONS = {
    "VGG19": (64, 64),
    "ResNet50": (96, 32),
    "MobileNet": (128, 16),
    "MobileNetV2": (128, 16),
    "DenseNet121": (96, 16),
    "EfficientNetB0": (128, 16),
    "InceptionV3": (139, 16),
    "Xception": (96, 24),
    "NASNetMobile": (128, 16),
    "ConvNeXtTiny": (64, 32),
}


@dataclass(frozen=True)
class Case:
    """A model, and the arguments of a step."""

    model: Any
    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]

    @property
    def loss(self) -> Any:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def make(name: str) -> Case:
    """The same weights and numbers in every process."""
    keras.utils.set_random_seed(1)
    if name in APPLICATIONS:
        return _application(name, *APPLICATIONS[name])
    return OTHERS[name]()


def _application(name: str, side: int, batch: int) -> Case:
    """Without its classifier, which in VGG19 alone has six times the parameters of the rest."""
    base = getattr(keras.applications, name)(weights=None, include_top=False, pooling="avg", input_shape=(side, side, 3))
    model = keras.Sequential([base, layers.Dense(CLASSES)], name=name)
    return Case(model, images(batch, side), labels(batch))


def images(batch: int, side: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(2).uniform(-1, 1, (batch, side, side, 3)).astype(np.float32)


def labels(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).integers(0, CLASSES, shape).astype(np.int32)


def conv_block(x: Any, width: int) -> Any:
    for _ in range(2):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return x


def _unet() -> Case:
    inputs = x = keras.Input((128, 128, 3))
    kept = []
    for width in (16, 32, 64):
        x = conv_block(x, width)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv_block(x, 128)
    for width in (64, 32, 16):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = conv_block(layers.Concatenate()([x, kept.pop()]), width)
    return Case(keras.Model(inputs, layers.Conv2D(CLASSES, 1)(x), name="unet"), images(8, 128), labels(8, 128, 128))


def _encoder() -> Case:
    """Pre-norm, with dropout."""
    words, length, width, batch = 2000, 128, 192, 16
    inputs = keras.Input((length,), dtype="int32")
    x = layers.Embedding(words, width)(inputs) + layers.Embedding(length, width)(np.arange(length))
    for _ in range(6):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, width // 4, dropout=0.1)(y, y)
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dropout(0.1)(layers.Dense(width)(y))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    tokens = np.random.default_rng(2).integers(0, words, (batch, length)).astype(np.int32)
    return Case(keras.Model(inputs, layers.Dense(CLASSES)(x), name="encoder"), tokens, labels(batch))


def _lstm(unroll: bool) -> Case:
    words, length, batch = 2000, 40, 128
    model = keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            layers.Embedding(words, 128),
            layers.LSTM(128, return_sequences=True, unroll=unroll),
            layers.LSTM(128, unroll=unroll),
            layers.Dense(CLASSES),
        ],
        name="lstm",
    )
    return Case(model, np.random.default_rng(2).integers(0, words, (batch, length)).astype(np.int32), labels(batch))


OTHERS: dict[str, Callable[[], Case]] = {
    "U-Net": _unet,
    "encoder": _encoder,
    "LSTM": lambda: _lstm(False),
    "LSTM, unrolled": lambda: _lstm(True),
}
