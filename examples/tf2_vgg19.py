# SPDX-License-Identifier: Apache-2.0
"""VGG19 trained within 60 % of the memory it takes: the program that users of the original Checkmate wrote.

Small pictures and a synthetic data set, so that it runs everywhere. The last batch is smaller than the others; it is planned when
it comes, and has the same budget.
"""

import sys

import numpy as np
import tensorflow as tf

import checkmate.tf2

PICTURES, BATCH, SIDE, CLASSES = 80, 48, 48, 4


def data() -> tf.data.Dataset:
    """Pictures whose brightness says what they show."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, PICTURES)
    pictures = generator.standard_normal((PICTURES, SIDE, SIDE, 3)) + labels[:, None, None, None]
    return tf.data.Dataset.from_tensor_slices((pictures.astype(np.float32), labels)).batch(BATCH)


def main(epochs: int = 2) -> int:
    tf.keras.utils.set_random_seed(0)
    train_ds = data()
    sample_input = next(iter(train_ds))
    model = tf.keras.applications.vgg19.VGG19(weights=None, include_top=False, pooling="avg", input_shape=(SIDE, SIDE, 3))
    model = tf.keras.Sequential([model, tf.keras.layers.Dense(CLASSES, activation="softmax")])
    loss = tf.keras.losses.SparseCategoricalCrossentropy()
    optimizer = tf.keras.optimizers.SGD(0.01)

    train_iteration_fn = checkmate.tf2.compile(model, loss, optimizer, input_spec=sample_input[0], label_spec=sample_input[1], budget="60%")
    for epoch in range(epochs):
        for image, label in train_ds:
            prediction, value = train_iteration_fn(image, label)
            right = np.mean(np.argmax(prediction, 1) == label)
            print(f"epoch {epoch}: {len(label)} pictures, loss {float(value):.4f}, {100 * right:.0f} % right")

    for plan in checkmate.tf2.plans(train_iteration_fn):
        print(f"plan: {plan}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
