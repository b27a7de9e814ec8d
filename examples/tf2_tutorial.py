# SPDX-License-Identifier: Apache-2.0
"""A residual network on pictures like CIFAR's, trained within half of its memory: in a loop of one's own, and with Keras's `fit`.

Both trainings run once more without rematerialization, in the same order of operators; the weights must be equal, bit for bit.
With the folder of the CIFAR-10 archive (cifar-10-batches-py) as its argument it trains on those pictures instead.
"""

import pathlib
import pickle
import sys

import numpy as np
import tensorflow as tf
from keras import layers

import checkmate.tf2

PICTURES, BATCH, EPOCHS = 640, 128, 2


def pictures(folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """32 x 32 in three colours, and ten classes: CIFAR-10's first ones, or stripes of ten directions in noise."""
    if folder is not None:
        found = pickle.loads((pathlib.Path(folder) / "data_batch_1").read_bytes(), encoding="bytes")
        x = found[b"data"][:PICTURES].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) / 127.5 - 1
        return x.astype(np.float32), np.asarray(found[b"labels"][:PICTURES], np.int32)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, PICTURES).astype(np.int32)
    down, right = np.mgrid[:32, :32] / 5
    angle = (labels * np.pi / 10)[:, None, None]
    stripes = np.sin(down * np.cos(angle) + right * np.sin(angle))
    return (stripes[..., None] + 0.3 * generator.standard_normal((PICTURES, 32, 32, 3))).astype(np.float32), labels


def network() -> tf.keras.Model:
    """Three stages of residual blocks; the same weights each time."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(0)
    x = start = layers.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same")(x)
    for width, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        inner = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, stride, padding="same", use_bias=False)(x)))
        inner = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(inner))
        past = x if stride == 1 else layers.Conv2D(width, 1, stride)(x)
        x = layers.ReLU()(layers.Add()([inner, past]))
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(start, layers.Dense(10)(x))


def loss() -> tf.keras.losses.Loss:
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def by_hand(x: np.ndarray, y: np.ndarray, budget: str) -> tuple[tf.keras.Model, list[float], list[checkmate.tf2.Plan]]:
    model, optimizer = network(), tf.keras.optimizers.Adam(1e-3)
    spec, labels = tf.TensorSpec((BATCH, 32, 32, 3), tf.float32), tf.TensorSpec((BATCH,), tf.int32)
    train_iteration = checkmate.tf2.compile(model, loss(), optimizer, spec, labels, budget)
    losses = []
    for _ in range(EPOCHS):
        found = []
        for images, classes in tf.data.Dataset.from_tensor_slices((x, y)).shuffle(PICTURES, seed=1).batch(BATCH):
            _prediction, value = train_iteration(images, classes)
            found.append(float(value))
        losses.append(sum(found) / len(found))
    return model, losses, checkmate.tf2.plans(train_iteration)


def by_fit(x: np.ndarray, y: np.ndarray, budget: str) -> tuple[tf.keras.Model, list[float], list[checkmate.tf2.Plan]]:
    model = checkmate.tf2.keras(network(), budget)
    model.compile(optimizer="adam", loss=loss(), metrics=["accuracy"])
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_split=0.2, verbose=0)
    return model, history.history["loss"], checkmate.tf2.plans(model)


def main(folder: str | None = None) -> int:
    x, y = pictures(folder)
    good = True
    for train in (by_hand, by_fit):
        usual, _, _ = train(x, y, "100%")
        model, losses, plans = train(x, y, "50%")
        same = all(np.array_equal(a, b) for a, b in zip(model.get_weights(), usual.get_weights(), strict=True))
        good = good and same and losses[-1] < losses[0]
        print(f"{train.__name__}: loss of the epochs {', '.join(f'{value:.3f}' for value in losses)}; weights "
              f"{'bit for bit what they are without recomputation' if same else 'DIFFER'}")  # fmt: skip
        print(f"    {plans[0]}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
