# SPDX-License-Identifier: Apache-2.0
"""Models and training loops as people write them, small: what loops.py tries.

Each makes a `Loop` anew, with the same numbers every time. `fit` trains a compiled model by `fit`; `step` calls a function of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

RANDOM = np.random.default_rng


@dataclass
class Loop:
    """`model` to be trained by `fit` of `data` with `options`, or `step`, called with each of `batches`. `variables`: those of a step."""

    model: Any = None
    data: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    step: Callable[..., Any] | None = None
    batches: list[tuple[Any, ...]] = field(default_factory=list)
    variables: list[Any] = field(default_factory=list)


CASES: dict[str, Callable[[], Loop]] = {}


def case(name: str) -> Callable[[Callable[[], Loop]], Callable[[], Loop]]:
    def add(make: Callable[[], Loop]) -> Callable[[], Loop]:
        CASES[name] = make
        return make

    return add


def pictures(count: int, side: int = 32) -> Any:
    return RANDOM(2).standard_normal((count, side, side, 3)).astype("float32")


def classes(*shape: int, number: int = 10) -> Any:
    return RANDOM(3).integers(0, number, shape).astype("int32")


def fit(model: Any, x: Any, y: Any, loss: Any = None, optimizer: Any = None, compiled: dict[str, Any] | None = None, **options: Any) -> Loop:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if loss is None else loss
    model.compile(optimizer or keras.optimizers.SGD(0.01, momentum=0.9), loss, **(compiled or {}))
    return Loop(model, (x, y), {"batch_size": 8, "shuffle": False, "verbose": 0, **options})


def convolutions(dropout: float = 0.2) -> Any:
    inputs = x = keras.Input((32, 32, 3))
    for width in (16, 32):
        for _ in range(2):
            x = L.ReLU()(L.BatchNormalization()(L.Conv2D(width, 3, padding="same", use_bias=False)(x)))
        x = L.MaxPooling2D()(x)
    x = L.Dropout(dropout, seed=7)(L.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, L.Dense(10)(x), name="convolutions")


def application(name: str, side: int) -> Callable[[], Loop]:
    def make() -> Loop:
        base = getattr(keras.applications, name)(weights=None, include_top=False, pooling="avg", input_shape=(side, side, 3))
        return fit(keras.Sequential([base, L.Dense(10)], name=name), pictures(8, side), classes(8), batch_size=4)

    return make


@case("convolutions, batch norms, dropout with a seed, fit")
def _() -> Loop:
    return fit(convolutions(), pictures(24), classes(24))


@case("fit with callbacks: a schedule, early stopping, best weights")
def _() -> Loop:
    callbacks = [keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch)), keras.callbacks.EarlyStopping("loss", patience=1),
                 keras.callbacks.ReduceLROnPlateau("loss", patience=0)]  # fmt: skip
    return fit(convolutions(), pictures(16), classes(16), epochs=2, callbacks=callbacks)


@case("fit with validation, metrics and a smaller last batch")
def _() -> Loop:
    return fit(convolutions(0.0), pictures(20), classes(20), compiled={"metrics": ["accuracy"]}, validation_data=(pictures(8), classes(8)))


@case("fit, mixed_float16 with a scaled loss")
def _() -> Loop:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return fit(convolutions(), pictures(16), classes(16), optimizer=keras.optimizers.Adam(1e-3))
    finally:
        keras.mixed_precision.set_global_policy("float32")


@case("fit, mixed_bfloat16")
def _() -> Loop:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        return fit(convolutions(), pictures(16), classes(16))
    finally:
        keras.mixed_precision.set_global_policy("float32")


@case("fit, the optimizer accumulates gradients of 2 steps")
def _() -> Loop:
    return fit(convolutions(), pictures(32), classes(32), optimizer=keras.optimizers.AdamW(1e-3, gradient_accumulation_steps=2))


@case("fit, moving averages of weights, clipped gradients")
def _() -> Loop:
    return fit(convolutions(), pictures(16), classes(16), optimizer=keras.optimizers.Adam(1e-3, clipnorm=0.5, use_ema=True))


@case("fit with weights of classes")
def _() -> Loop:
    return fit(convolutions(), pictures(16), classes(16), class_weight={i: 1.0 + i for i in range(10)})


@case("fit, steps_per_execution=2")
def _() -> Loop:
    return fit(convolutions(), pictures(24), classes(24), compiled={"steps_per_execution": 2})


@case("several outputs with losses and weights by name, a smaller last batch, fit")
def _() -> Loop:
    inputs = keras.Input((64,))
    x = L.Dense(256, "gelu")(L.Dense(256, "gelu")(inputs))
    model = keras.Model(inputs, {"kind": L.Dense(10, name="kind")(x), "size": L.Dense(1, name="size")(x)})
    loss = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    y = {"kind": classes(300), "size": RANDOM(4).standard_normal((300, 1)).astype("float32")}
    return fit(model, RANDOM(2).standard_normal((300, 64)).astype("float32"), y, loss, batch_size=128,
               compiled={"loss_weights": {"kind": 1.0, "size": 0.5}, "metrics": {"size": ["mae"]}})  # fmt: skip


@case("embedding with a mask, LSTM unrolled, fit")
def _() -> Loop:
    model = keras.Sequential([keras.Input((12,), dtype="int32"), L.Embedding(200, 64, mask_zero=True), L.LSTM(64, unroll=True), L.Dense(10)])
    return fit(model, classes(32, 12, number=200), classes(32), batch_size=16, optimizer=keras.optimizers.Adam(1e-3))


@case("bidirectional GRU unrolled, recurrent dropout, fit")
def _() -> Loop:
    cell = L.GRU(48, unroll=True, recurrent_dropout=0.1, seed=3)
    model = keras.Sequential([keras.Input((8, 32)), L.Bidirectional(cell), L.Dense(10)])
    return fit(model, RANDOM(2).standard_normal((64, 8, 32)).astype("float32"), classes(64), batch_size=32)


@case("LSTM as a loop, fit")
def _() -> Loop:
    model = keras.Sequential([keras.Input((12, 32)), L.LSTM(32), L.Dense(10)])
    return fit(model, RANDOM(2).standard_normal((16, 12, 32)).astype("float32"), classes(16))


class Block(L.Layer):  # type: ignore[misc]
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.norms = [L.LayerNormalization(), L.LayerNormalization()]
        self.attention = L.MultiHeadAttention(heads, width // heads, dropout=0.1, seed=1)
        self.wide, self.narrow, self.dropout = L.Dense(4 * width, "gelu"), L.Dense(width), L.Dropout(0.1, seed=2)

    def call(self, x: Any, training: bool = False) -> Any:
        y = self.norms[0](x)
        x = x + self.attention(y, y, use_causal_mask=self.causal, training=training)
        return x + self.dropout(self.narrow(self.wide(self.norms[1](x))), training=training)


class Language(keras.Model):  # type: ignore[misc]
    """Of the kind of GPT, with the embedding's weights as those of the logits."""

    def __init__(self, words: int = 300, length: int = 32, width: int = 64) -> None:
        super().__init__()
        self.length, self.words = length, L.Embedding(words, width)
        self.places = L.Embedding(length, width)
        self.blocks, self.norm = [Block(width, 4, True) for _ in range(3)], L.LayerNormalization()

    def call(self, tokens: Any, training: bool = False) -> Any:
        x = self.words(tokens) + self.places(tf.range(self.length))
        for block in self.blocks:
            x = block(x, training=training)
        return tf.matmul(self.norm(x), self.words.embeddings, transpose_b=True)


@case("GPT of one's own (subclassed, causal mask, tied weights), fit")
def _() -> Loop:
    tokens = classes(16, 33, number=300)
    return fit(Language(), tokens[:, :-1], tokens[:, 1:], optimizer=keras.optimizers.AdamW(1e-3))


@case("vision transformer, fit")
def _() -> Loop:
    inputs = keras.Input((32, 32, 3))
    x = L.Reshape((64, 64))(L.Conv2D(64, 4, strides=4)(inputs))
    for _ in range(3):
        x = Block(64, 4, False)(x)
    return fit(keras.Model(inputs, L.Dense(10)(L.GlobalAveragePooling1D()(x))), pictures(16), classes(16), optimizer=keras.optimizers.Adam(1e-3))


@case("encoder and decoder with cross attention and padding masks, fit")
def _() -> Loop:
    source, target = keras.Input((20,), dtype="int32", name="source"), keras.Input((16,), dtype="int32", name="target")
    a, b = L.Embedding(200, 64, mask_zero=True)(source), L.Embedding(200, 64, mask_zero=True)(target)
    a = L.LayerNormalization()(a + L.MultiHeadAttention(4, 16)(a, a))
    b = L.LayerNormalization()(b + L.MultiHeadAttention(4, 16)(b, b, use_causal_mask=True))
    b = L.LayerNormalization()(b + L.MultiHeadAttention(4, 16)(b, a))
    model = keras.Model([source, target], L.Dense(200)(L.Dense(128, "relu")(b)))
    return fit(model, [classes(16, 20, number=200), classes(16, 16, number=200)], classes(16, 16, number=200))


@case("MLP-Mixer, fit")
def _() -> Loop:
    inputs = keras.Input((32, 32, 3))
    x = L.Reshape((64, 64))(L.Conv2D(64, 4, strides=4)(inputs))
    for _ in range(3):
        y = L.Permute((2, 1))(L.LayerNormalization()(x))
        x = x + L.Permute((2, 1))(L.Dense(64)(L.Dense(128, "gelu")(y)))
        x = x + L.Dense(64)(L.Dense(256, "gelu")(L.LayerNormalization()(x)))
    return fit(keras.Model(inputs, L.Dense(10)(L.GlobalAveragePooling1D()(x))), pictures(16), classes(16))


@case("U-Net with transposed convolutions, loss of each pixel, fit")
def _() -> Loop:
    inputs = keras.Input((32, 32, 3))
    a = L.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    b = L.Conv2D(32, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    x = L.Concatenate()([L.Conv2DTranspose(16, 2, strides=2)(b), a])
    return fit(keras.Model(inputs, L.Conv2D(10, 1)(L.Conv2D(16, 3, padding="same", activation="relu")(x))), pictures(16), classes(16, 32, 32))


class Autoencoder(keras.Model):  # type: ignore[misc]
    """Variational, with a train_step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = keras.Sequential([L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(64)])
        self.decode = keras.Sequential([L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(784)])
        self.seeds = keras.random.SeedGenerator(5)

    def train_step(self, data: Any) -> Any:
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            mean, log = tf.split(self.encode(x), 2, axis=-1)
            z = mean + tf.exp(0.5 * log) * keras.random.normal(tf.shape(mean), seed=self.seeds)
            loss = tf.reduce_mean(tf.square(self.decode(z) - x)) - 0.01 * tf.reduce_mean(1 + log - mean**2 - tf.exp(log))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True))
        return {"loss": loss}

    def call(self, x: Any) -> Any:
        return self.decode(tf.split(self.encode(x), 2, axis=-1)[0])


@case("variational autoencoder, a train_step of its own with random numbers, fit")
def _() -> Loop:
    model = Autoencoder()
    model(np.zeros((1, 784), "float32"))
    model.compile(keras.optimizers.Adam(1e-3))
    return Loop(model, (RANDOM(2).standard_normal((256, 784)).astype("float32"), None), {"batch_size": 128, "shuffle": False, "verbose": 0})


def own(model: Any, optimizer: Any, step: Callable[..., Any], *batches: tuple[Any, ...], more: tuple[Any, ...] = ()) -> Loop:
    optimizer.build(model.trainable_variables)
    variables = [*model.variables, *optimizer.variables, *more]
    return Loop(step=step, batches=[tuple(tf.nest.map_structure(tf.constant, b)) for b in batches], variables=variables)


SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@case("a loop of one's own: tape, gradients clipped by their norm, Adam")
def _() -> Loop:
    model, optimizer = convolutions(), keras.optimizers.Adam(1e-3)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = SPARSE(y, model(x, training=True))
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, norm

    return own(model, optimizer, step, (pictures(16), classes(16)), (pictures(16) + 1, classes(16)))


@case("a loop of one's own: gradients accumulated in variables over two halves of a batch")
def _() -> Loop:
    model, optimizer = convolutions(), keras.optimizers.SGD(0.1)
    sums = [tf.Variable(tf.zeros_like(v)) for v in model.trainable_variables]

    def step(x: Any, y: Any) -> Any:
        total = 0.0
        for part in range(2):
            with tf.GradientTape() as tape:
                loss = SPARSE(y[8 * part : 8 * part + 8], model(x[8 * part : 8 * part + 8], training=True)) / 2
            for v, g in zip(sums, tape.gradient(loss, model.trainable_variables), strict=True):
                v.assign_add(g)
            total += loss
        optimizer.apply_gradients([(v.read_value(), w) for v, w in zip(sums, model.trainable_variables, strict=True)])
        for v in sums:
            v.assign(tf.zeros_like(v))
        return total

    return own(model, optimizer, step, (pictures(16), classes(16)), (pictures(16) + 1, classes(16)), more=tuple(sums))


@case("a GAN: two models, two optimizers, two tapes in one step")
def _() -> Loop:
    make = keras.Sequential([keras.Input((32,)), L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(784)])
    judge = keras.Sequential([keras.Input((784,)), L.Dense(512), L.LeakyReLU(), L.Dense(512), L.LeakyReLU(), L.Dense(1)])
    first, second = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
    second.build(make.trainable_variables)

    def step(real: Any, noise: Any) -> Any:
        with tf.GradientTape() as tape:
            wrong = tf.reduce_mean(tf.nn.softplus(judge(make(noise)))) + tf.reduce_mean(tf.nn.softplus(-judge(real)))
        first.apply_gradients(zip(tape.gradient(wrong, judge.trainable_variables), judge.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(-judge(make(noise))))
        second.apply_gradients(zip(tape.gradient(loss, make.trainable_variables), make.trainable_variables, strict=True))
        return wrong, loss

    batch = RANDOM(2).standard_normal((128, 784)).astype("float32"), RANDOM(3).standard_normal((128, 32)).astype("float32")
    return own(judge, first, step, batch, batch, more=(*make.variables, *second.variables))


@case("contrastive loss of two views (SimCLR)")
def _() -> Loop:
    model, optimizer = convolutions(0.0), keras.optimizers.SGD(0.1)

    def step(one: Any, two: Any) -> Any:
        with tf.GradientTape() as tape:
            z = tf.math.l2_normalize(model(tf.concat([one, two], 0), training=True), axis=1)
            near = tf.matmul(z, z, transpose_b=True) / 0.1 - 1e9 * tf.eye(32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.concat([tf.range(16, 32), tf.range(16)], 0), near))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    return own(model, optimizer, step, (pictures(16), pictures(16) + 0.1), (pictures(16), pictures(16) - 0.1))


@case("graph network: gather along edges, sums by segments")
def _() -> Loop:
    layers, optimizer = keras.Sequential([keras.Input((32,)), L.Dense(128, "relu"), L.Dense(32)]), keras.optimizers.Adam(1e-3)
    ends = classes(2, 4000, number=500)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for _ in range(3):
                h = h + tf.math.unsorted_segment_sum(layers(tf.gather(h, ends[0])), ends[1], 500) / 8.0
            loss = tf.reduce_mean(tf.square(h - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, layers.trainable_variables), layers.trainable_variables, strict=True))
        return loss

    x = RANDOM(2).standard_normal((500, 32)).astype("float32")
    return own(layers, optimizer, step, (x, x[::-1].copy()), (x, x[::-1].copy()))


@case("WaveNet: gated dilated causal convolutions with skips, fit")
def _() -> Loop:
    inputs = keras.Input((128, 1))
    x, skips = L.Conv1D(32, 1)(inputs), []
    for rate in (1, 2, 4, 8):
        y = L.Conv1D(32, 2, padding="causal", dilation_rate=rate, activation="tanh")(x)
        y = y * L.Conv1D(32, 2, padding="causal", dilation_rate=rate, activation="sigmoid")(x)
        y = L.Conv1D(32, 1)(y)
        skips.append(y)
        x = x + y
    model = keras.Model(inputs, L.Conv1D(64, 1)(L.ReLU()(L.Add()(skips))))
    return fit(model, RANDOM(2).standard_normal((16, 128, 1)).astype("float32"), classes(16, 128, number=64))


@case("recommender: embeddings of several columns, their products, fit of a dict of inputs")
def _() -> Loop:
    wide = keras.Input((13,), name="wide")
    ids = [keras.Input((1,), dtype="int64", name=f"c{i}") for i in range(4)]
    rows = [L.Flatten()(L.Embedding(1000, 32)(i)) for i in ids]
    pairs = [L.Dot(1)([a, b]) for k, a in enumerate(rows) for b in rows[:k]]
    x = L.Dense(128, "relu")(L.Concatenate()([L.Dense(32, "relu")(wide), *rows, *pairs]))
    model = keras.Model({"wide": wide} | {i.name: i for i in ids}, L.Dense(1, "sigmoid")(x))
    data = {"wide": RANDOM(2).standard_normal((512, 13)).astype("float32")} | {f"c{i}": classes(512, 1, number=1000).astype("int64") for i in range(4)}
    return fit(model, data, classes(512, number=2).astype("float32"), "binary_crossentropy", keras.optimizers.Adagrad(0.01), batch_size=256)


@case("denoising diffusion: random times and noise in the step, moving average of weights")
def _() -> Loop:
    inputs, times = keras.Input((32, 32, 3)), keras.Input((1,))
    x = L.Conv2D(32, 3, padding="same", activation="swish")(inputs) + L.Reshape((1, 1, 32))(L.Dense(32)(times))
    model = keras.Model([inputs, times], L.Conv2D(3, 3, padding="same")(L.GroupNormalization(8)(L.Conv2D(32, 3, padding="same")(x))))
    optimizer, seeds = keras.optimizers.Adam(1e-3), keras.random.SeedGenerator(9)
    mean = [tf.Variable(v) for v in model.trainable_variables]

    def step(pictures: Any) -> Any:
        time = keras.random.uniform((16, 1), seed=seeds)
        noise = keras.random.normal((16, 32, 32, 3), seed=seeds)
        share = tf.reshape(time, (16, 1, 1, 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model([tf.sqrt(1 - share) * pictures + tf.sqrt(share) * noise, time], training=True) - noise))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        for m, v in zip(mean, model.trainable_variables, strict=True):
            m.assign(0.99 * m + 0.01 * v)
        return loss

    return own(model, optimizer, step, (pictures(16),), (pictures(16),), more=(*mean, seeds.state))


@case("deep Q-learning: a target network, double Q, Huber loss")
def _() -> Loop:
    def network() -> Any:
        return keras.Sequential([keras.Input((64,)), L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(6)])

    online, target, optimizer = network(), network(), keras.optimizers.Adam(1e-3)

    def step(state: Any, action: Any, reward: Any, later: Any) -> Any:
        best = tf.argmax(online(later), axis=1)
        goal = reward + 0.99 * tf.gather(target(later), best, batch_dims=1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.huber(goal[:, None], tf.gather(online(state), action, batch_dims=1)[:, None]))
        optimizer.apply_gradients(zip(tape.gradient(loss, online.trainable_variables), online.trainable_variables, strict=True))
        return loss

    def batch(seed: int) -> tuple[Any, ...]:
        r = RANDOM(seed)
        return (r.standard_normal((256, 64)).astype("float32"), r.integers(0, 6, 256).astype("int32"), r.standard_normal(256).astype("float32"),
                r.standard_normal((256, 64)).astype("float32"))  # fmt: skip

    return own(online, optimizer, step, batch(1), batch(2), more=tuple(target.variables))


@case("policy and value in one loss (PPO), entropy, advantage normalized")
def _() -> Loop:
    inputs = keras.Input((64,))
    x = L.Dense(512, "tanh")(L.Dense(512, "tanh")(inputs))
    model, optimizer = keras.Model(inputs, [L.Dense(8)(x), L.Dense(1)(x)]), keras.optimizers.Adam(3e-4, clipnorm=0.5)

    def step(state: Any, action: Any, old: Any, gain: Any) -> Any:
        with tf.GradientTape() as tape:
            logits, value = model(state)
            log = -tf.nn.sparse_softmax_cross_entropy_with_logits(action, logits)
            ratio = tf.exp(log - old)
            better = (gain - tf.reduce_mean(gain)) / (tf.math.reduce_std(gain) + 1e-8)
            loss = -tf.reduce_mean(tf.minimum(ratio * better, tf.clip_by_value(ratio, 0.8, 1.2) * better))
            loss += 0.5 * tf.reduce_mean(tf.square(value[:, 0] - gain)) + 0.01 * tf.reduce_mean(tf.reduce_sum(tf.nn.softmax(logits) * logits, 1))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    r = RANDOM(1)
    batch = (r.standard_normal((256, 64)).astype("float32"), r.integers(0, 8, 256).astype("int32"), -r.uniform(1, 3, 256).astype("float32"),
             r.standard_normal(256).astype("float32"))  # fmt: skip
    return own(model, optimizer, step, batch, batch)


@case("second derivatives: a penalty on the gradient of the input (WGAN-GP)")
def _() -> Loop:
    model, optimizer = keras.Sequential([keras.Input((256,)), L.Dense(512, "softplus"), L.Dense(512, "softplus"), L.Dense(1)]), keras.optimizers.Adam(1e-4)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = model(x)
            slope = tf.norm(inner.gradient(score, x), axis=1)
            loss = tf.reduce_mean(score) + 10.0 * tf.reduce_mean(tf.square(slope - 1.0))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    x = RANDOM(2).standard_normal((128, 256)).astype("float32")
    return own(model, optimizer, step, (x,), (x + 1,))


@case("CTC loss, fit")
def _() -> Loop:
    model = keras.Sequential([keras.Input((50, 13)), L.Dense(64, "relu"), L.Dense(12)])
    return fit(model, RANDOM(2).standard_normal((16, 50, 13)).astype("float32"), 1 + classes(16, 6), keras.losses.CTC())


@case("ragged ids, a loop of one's own")
def _() -> Loop:
    model, optimizer = keras.Sequential([keras.Input((32,)), L.Dense(10)]), keras.optimizers.SGD(0.1)
    words = tf.Variable(RANDOM(1).standard_normal((100, 32)).astype("float32"))

    def step(ids: Any) -> Any:
        return tf.reduce_sum(model(tf.reduce_mean(tf.gather(words, ids), axis=1)))

    loop = own(model, optimizer, step)
    loop.batches = [(tf.ragged.constant([[1, 2], [3]]),)] * 2
    return loop


@case("fit with run_eagerly=True")
def _() -> Loop:
    return fit(convolutions(), pictures(16), classes(16), compiled={"run_eagerly": True})


@case("fit with jit_compile=True")
def _() -> Loop:
    return fit(convolutions(), pictures(16), classes(16), compiled={"jit_compile": True})

@case("ConvLSTM unrolled over frames, fit")
def _() -> Loop:
    inputs = keras.Input((4, 16, 16, 3))
    x = L.ConvLSTM2D(8, 3, padding="same", return_sequences=True, unroll=True)(inputs)
    frames, later = (RANDOM(seed).standard_normal((16, 4, 16, 16, 3)).astype("float32") for seed in (2, 3))
    return fit(keras.Model(inputs, L.Conv3D(3, 3, padding="same")(L.BatchNormalization()(x))), frames, later, "mse")


@case("sequence to sequence: GRUs unrolled, additive attention, masks, fit")
def _() -> Loop:
    source, target = keras.Input((8,), dtype="int32"), keras.Input((6,), dtype="int32")
    states = L.GRU(48, return_sequences=True, unroll=True)(L.Embedding(200, 48, mask_zero=True)(source))
    x = L.GRU(48, return_sequences=True, unroll=True)(L.Embedding(200, 48, mask_zero=True)(target))
    x = L.Concatenate()([x, L.AdditiveAttention()([x, states])])
    model = keras.Model([source, target], L.Dense(200)(x))
    return fit(model, [classes(64, 8, number=200), classes(64, 6, number=200)], classes(64, 6, number=200), batch_size=32,
               optimizer=keras.optimizers.Adam(1e-3))  # fmt: skip


@case("two encoders, a contrastive loss with a learned temperature (CLIP), clipped weights")
def _() -> Loop:
    image = convolutions(0.0)
    words = keras.Input((12,), dtype="int32")
    text = L.Dense(10)(L.GlobalAveragePooling1D()(L.Embedding(100, 64)(words)))
    both, optimizer = keras.Model([image.input, words], [image.output, text]), keras.optimizers.AdamW(1e-3)
    scale = keras.Variable(2.0, name="scale")

    def step(pictures: Any, texts: Any) -> Any:
        with tf.GradientTape() as tape:
            a, b = (tf.math.l2_normalize(z, axis=1) for z in both([pictures, texts], training=True))
            near = tf.exp(scale) * tf.matmul(a, b, transpose_b=True)
            loss = 0.5 * (SPARSE(tf.range(16), near) + SPARSE(tf.range(16), tf.transpose(near)))
        variables = [*both.trainable_variables, scale]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        scale.assign(tf.clip_by_value(scale, 0.0, 4.6))
        return loss, near

    optimizer.build([*both.trainable_variables, scale])
    batches = [(tf.constant(pictures(16)), tf.constant(classes(16, 12, number=100)))] * 2
    return Loop(step=step, batches=batches, variables=[*both.variables, *optimizer.variables, scale])


@case("sharpness-aware minimization: weights moved, a second gradient there, moved back")
def _() -> Loop:
    model, optimizer = convolutions(0.0), keras.optimizers.SGD(0.05, momentum=0.9)

    def gradients(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = SPARSE(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        loss, first = gradients(x, y)
        moves = [0.05 * g / (tf.linalg.global_norm(first) + 1e-12) for g in first]
        for v, move in zip(model.trainable_variables, moves, strict=True):
            v.assign_add(move)
        there, second = gradients(x, y)
        for v, move in zip(model.trainable_variables, moves, strict=True):
            v.assign_sub(move)
        optimizer.apply_gradients(zip(second, model.trainable_variables, strict=True))
        return loss, there

    return own(model, optimizer, step, (pictures(16), classes(16)), (pictures(16) + 1, classes(16)))


class Distiller(keras.Model):  # type: ignore[misc]
    """A student of a frozen teacher, with a train_step of its own and metrics of its own."""

    def __init__(self, student: Any, teacher: Any) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher
        teacher.trainable = False
        self.far = keras.metrics.Mean(name="far")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.student(x, training=training)

    def train_step(self, data: Any) -> Any:
        x, y = data
        soft = tf.nn.softmax(self.teacher(x, training=False) / 3.0)
        with tf.GradientTape() as tape:
            logits = self.student(x, training=True)
            far = keras.losses.KLDivergence()(soft, tf.nn.softmax(logits / 3.0))
            loss = self.optimizer.scale_loss(self.compute_loss(x, y, logits) + 9.0 * far)
        self.optimizer.apply(tape.gradient(loss, self.student.trainable_variables), self.student.trainable_variables)
        self.far.update_state(far)
        return self.compute_metrics(x, y, logits) | {"far": self.far.result()}


@case("distillation: a frozen teacher, a train_step with metrics of its own, spectral normalization, mixed_float16, fit")
def _() -> Loop:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        student = keras.Sequential([keras.Input((32, 32, 3)), L.SpectralNormalization(L.Conv2D(16, 3, padding="same", activation="relu")),
                                    L.MaxPooling2D(), L.Conv2D(16, 3, activation="relu"), L.GlobalMaxPooling2D(), L.Dense(10, dtype="float32")])  # fmt: skip
        model = Distiller(student, convolutions())
        model(np.zeros((1, 32, 32, 3), "float32"))
        optimizer = keras.optimizers.Adam(1e-3, gradient_accumulation_steps=2)
        return fit(model, pictures(16), classes(16), optimizer=optimizer, compiled={"metrics": ["accuracy"]})
    finally:
        keras.mixed_precision.set_global_policy("float32")


for _name, _side in {"VGG16": 32, "ResNet50": 32, "MobileNetV2": 32, "EfficientNetB0": 32, "Xception": 71, "ConvNeXtTiny": 32}.items():
    CASES[f"keras.applications.{_name}, fit"] = application(_name, _side)
