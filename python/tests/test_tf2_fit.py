# SPDX-License-Identifier: Apache-2.0
"""`checkmate.tf2.keras`: `model.fit` with all that belongs to it, in planned steps."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from keras import layers  # noqa: E402
from tf2_models import FAST, Penalty, difference, values  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402

SAMPLES, BATCH = 512, 256


def data(samples: int = SAMPLES) -> tuple[Any, Any]:
    generator = np.random.default_rng(1)
    x = generator.standard_normal((samples, 8, 8, 3)).astype(np.float32)
    return x, (x.mean((1, 2, 3)) > 0).astype(np.int32)


def make(kind: type[Any] | None = None) -> Any:
    """Convolutions, batch normalization and dropout; the same weights each time."""
    policy = tf.keras.config.dtype_policy()
    tf.keras.backend.clear_session()  # which also forgets the policy
    tf.keras.config.set_dtype_policy(policy)
    tf.keras.utils.set_random_seed(1)
    x = start = layers.Input((8, 8, 3))
    for _ in range(4):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same", kernel_regularizer="l2")(x)))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return (kind or tf.keras.Model)(start, layers.Dense(2, dtype="float32")(x))


def compiled(model: Any, **settings: Any) -> Any:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(**({"optimizer": tf.keras.optimizers.Adam(0.01), "loss": loss, "metrics": ["accuracy"], "jit_compile": False} | settings))
    return model


def state(model: Any, history: Any) -> dict[str, Any]:
    logs = {f"{key} of epoch {i}": np.float64(value) for key, found in history.history.items() for i, value in enumerate(found)}
    return logs | values(model, model.optimizer)


def fitted(
    budget: str | None, settings: dict[str, Any] | None = None, kind: type[Any] | None = None, samples: int = SAMPLES, **fit: Any
) -> tuple[dict[str, Any], Any]:
    """History and variables of two epochs, and the model. Without a budget they are Keras's own."""
    model = make(kind)
    if budget is not None:
        c2.keras(model, budget, **FAST)
    compiled(model, **(settings or {}))
    x, y = data(samples)
    history = model.fit(x, y, **({"batch_size": BATCH, "epochs": 2, "verbose": 0, "shuffle": True} | fit))
    return state(model, history), model


def check(share: str = "60%", usual: bool = True, **arguments: Any) -> tuple[dict[str, Any], Any]:
    """Within the budget everything is bit for bit what it is without, and, but for rounding, what plain fit gives."""
    whole, model = fitted("100%", **arguments)
    assert not any(p.recomputed for p in c2.plans(model))
    found, model = fitted(share, **arguments)
    assert any(p.recomputed for p in c2.plans(model))
    assert difference(found, whole) == ""
    if usual:
        plain, _ = fitted(None, **arguments)
        assert plain.keys() == found.keys()
        for name, value in plain.items():
            if "accuracy" not in name and not name.endswith("/bias"):  # a bias before a normalization learns from rounding errors alone
                np.testing.assert_allclose(np.asarray(found[name], np.float64), np.asarray(value, np.float64), rtol=0.05, atol=0.02, err_msg=name)
    return found, model


def test_fit_with_callbacks_validation_and_metrics(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "best.weights.h5"
    seen: list[tuple[str, int]] = []

    class Recorder(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            assert set(logs) >= {"loss", "accuracy"}
            seen.append(("batch", batch))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            assert set(logs) == {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"}
            seen.append(("epoch", epoch))

    def callbacks() -> list[Any]:
        return [
            tf.keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True),
            tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
            Recorder(),
        ]

    found, model = fitted("60%", callbacks=callbacks(), validation_split=0.5)
    assert seen == [("batch", 0), ("epoch", 0), ("batch", 0), ("epoch", 1)]
    whole, _ = fitted("100%", callbacks=callbacks()[:2], validation_split=0.5)
    assert difference(found, whole) == ""
    assert model.optimizer.iterations == 2 and np.isclose(model.optimizer.learning_rate, 0.005)
    weights = model.get_weights()
    model.load_weights(str(path))
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), weights, strict=True))


def test_fit_is_keras_own() -> None:
    found, model = check(samples=SAMPLES + 48)
    assert len(c2.plans(model)) == 2, "one plan for the batch and one for the last, smaller one, in both epochs"
    assert model.optimizer.iterations == 6
    first = next(found[name] for name in found if name.startswith("loss of epoch 0"))
    last = next(found[name] for name in found if name.startswith("loss of epoch 1"))
    assert last < first


@pytest.mark.parametrize("steps", (2, 4))
def test_several_steps_an_execution(steps: int) -> None:
    """As many calls of callbacks as Keras makes, and every batch is trained on."""
    calls: list[int] = []
    callback = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: calls.append(batch))
    found, model = fitted("60%", {"steps_per_execution": steps}, callbacks=[callback])
    ours = list(calls)
    calls.clear()
    single, _ = fitted("60%")
    assert model.optimizer.iterations == 4 and difference(found, single) == ""
    fitted(None, {"steps_per_execution": steps}, callbacks=[callback])
    assert ours == calls


@pytest.mark.parametrize("policy", ("mixed_bfloat16", "mixed_float16"))
def test_mixed_precision(policy: str) -> None:
    before = tf.keras.config.dtype_policy()
    tf.keras.config.set_dtype_policy(policy)
    try:
        found, model = check("70%", usual=False)
        assert model.layers[1].compute_dtype == policy.removeprefix("mixed_") and model.layers[1].kernel.dtype == "float32"
        scaled = isinstance(model.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
        assert scaled == (policy == "mixed_float16")
        assert all(np.all(np.isfinite(np.asarray(v, np.float64))) for v in found.values())
        plain, _ = fitted(None)
        assert abs(plain["loss of epoch 1"] - found["loss of epoch 1"]) < 0.05
    finally:
        tf.keras.config.set_dtype_policy(before)


def test_a_loss_that_overflows_skips_its_update() -> None:
    """What LossScaleOptimizer does then happens in planned steps, too."""
    model = make()
    scaler = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), initial_scale=1e38)
    compiled(c2.keras(model, "80%", **FAST), optimizer=scaler, loss=lambda y, p: tf.reduce_sum(tf.square(p), -1) * 1e6)
    before = [v.numpy() for v in model.trainable_variables]
    x, y = data()
    model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)
    assert all(np.array_equal(a, v.numpy()) for a, v in zip(before, model.trainable_variables, strict=True))
    assert scaler.inner_optimizer.iterations == 0 and float(scaler.dynamic_scale) == pytest.approx(0.5e38)


class OwnStep(tf.keras.Model):
    """A second loss, and clipped gradients."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            prediction = self(x, training=True)
            loss = self.compute_loss(x, y, prediction) + 0.1 * tf.reduce_mean(tf.square(prediction))
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, self.trainable_variables), 1.0)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss, "norm": norm}


def test_a_train_step_of_ones_own() -> None:
    found, _ = check(kind=OwnStep, settings={"metrics": None})
    assert {"loss of epoch 1", "norm of epoch 1"} <= found.keys()


@pytest.mark.parametrize("late", (False, True))
def test_losses_of_several_outputs_are_logged_as_keras_does(late: bool) -> None:
    """Also where the last batch is smaller, and where the model was fit before."""
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal((40, n)).astype(np.float32) for n in (8, 1))
    y[32:] += 3

    def logs(planned: bool) -> Any:
        tf.keras.utils.set_random_seed(1)
        hidden = layers.Dense(8, "relu")(start := layers.Input((8,)))
        model = tf.keras.Model(start, {name: layers.Dense(1, name=name)(hidden) for name in "pq"})
        model.compile("sgd", {"p": "mse", "q": "mae"}, metrics={"p": ["mae"]}, jit_compile=False)
        if late:
            model.fit(x, {"p": y, "q": y}, batch_size=16, shuffle=False, verbose=0)
        if planned:
            c2.keras(model, "100%", **FAST)
        return model.fit(x, {"p": y, "q": y}, batch_size=16, shuffle=False, verbose=0, epochs=2, validation_split=0.1).history

    found, expected = logs(True), logs(False)
    assert found.keys() == expected.keys() >= {"p_loss", "q_loss", "p_mae", "val_p_loss"}
    for name, numbers in expected.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-5, err_msg=name)


class TwoOptimizers(tf.keras.Model):
    """Whose compile() leaves Keras' default optimizer in place, which nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layers.Dense(256, "relu"), layers.Dense(1)

    def build(self, shape: Any) -> None:
        self.first.build(shape)
        self.second.build((None, 256))

    def compile(self) -> None:
        super().compile()
        self.own = [tf.keras.optimizers.SGD(1e-3), tf.keras.optimizers.SGD(2e-3)]

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))

    def train_step(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x)))
        layers_of = [self.first.trainable_weights, self.second.trainable_weights]
        for optimizer, weights, gradients in zip(self.own, layers_of, tape.gradient(loss, layers_of), strict=True):
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"error": loss}


def test_an_optimizer_that_nothing_uses_has_no_variables() -> None:
    model = TwoOptimizers()
    model.build((None, 64))
    model.compile()
    c2.keras(model, "100%", **FAST)
    losses = model.fit(tf.ones((64, 64)), batch_size=32, epochs=2, verbose=0).history["error"]
    assert losses[1] < losses[0]
    assert not model.optimizer.built and all(optimizer.built for optimizer in model.own)


def test_weights_of_samples_and_classes() -> None:
    weights = np.linspace(0.1, 2.0, SAMPLES).astype(np.float32)
    weighted, _ = check(sample_weight=weights)
    by_class, _ = fitted("60%", class_weight={0: 0.5, 1: 2.0})
    plain, _ = fitted("60%")
    assert len({float(f["loss of epoch 0"]) for f in (weighted, by_class, plain)}) == 3


def test_models_are_saved_as_before(tmp_path: pathlib.Path) -> None:
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(128, "relu"), Penalty(), layers.Dense(2)])
    compiled(c2.keras(model, "90%", **FAST))
    x = np.random.default_rng(1).standard_normal((2048, 64)).astype(np.float32)
    model.fit(x, (x[:, 0] > 0).astype(np.int32), batch_size=1024, verbose=0)
    model.save(tmp_path / "model.keras")
    back = tf.keras.models.load_model(tmp_path / "model.keras")
    assert not hasattr(back, "checkmate_planned")
    both = zip(back.variables + back.optimizer.variables, model.variables + model.optimizer.variables, strict=True)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in both)
    assert np.array_equal(back.predict(x, verbose=0), model.predict(x, verbose=0))
    assert "planned" not in model.to_json()
    copy = tf.keras.models.clone_model(model)
    assert not hasattr(copy, "checkmate_planned")


def test_evaluation_and_prediction_are_not_planned() -> None:
    _, model = fitted("60%")
    before = len(c2.plans(model))
    x, y = data()
    assert model.predict(x[:7], verbose=0).shape == (7, 2)
    assert set(model.evaluate(x, y, verbose=0, return_dict=True)) == {"loss", "accuracy"}
    assert len(c2.plans(model)) == before


@pytest.mark.parametrize("late", (False, True))
def test_before_and_after_compile(late: bool) -> None:
    model = make()
    if late:
        c2.keras(compiled(model), "70%", **FAST)
    else:
        compiled(c2.keras(model, "70%", **FAST))
    x, y = data()
    model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)
    (plan,) = c2.plans(model)
    assert plan.peak_bytes <= plan.budget_bytes < plan.baseline_peak_bytes


def test_a_model_compiled_again_trains_with_its_new_optimizer() -> None:
    _, model = fitted("70%")
    compiled(model, optimizer=tf.keras.optimizers.SGD(0.0))
    before = [v.numpy() for v in model.trainable_variables]
    x, y = data()
    model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)
    assert model.optimizer.iterations == 1
    assert all(np.array_equal(a, v.numpy()) for a, v in zip(before, model.trainable_variables, strict=True))


def test_train_on_batch() -> None:
    found: list[list[Any]] = []
    for budget in ("100%", "60%"):
        model = compiled(c2.keras(make(), budget, **FAST))
        x, y = data()
        found.append([model.train_on_batch(x[:BATCH], y[:BATCH]) for _ in range(2)])
        assert len(c2.plans(model)) == 1 and model.optimizer.iterations == 2
    assert found[0] == found[1]


def test_frozen_layers_stay_and_cost_no_gradients() -> None:
    def frozen(budget: str) -> tuple[Any, c2.Plan]:
        model = make()
        for layer in model.layers[:7]:
            layer.trainable = False
        compiled(c2.keras(model, budget, **FAST))
        before = model.layers[1].kernel.numpy()
        x, y = data()
        model.fit(x[:BATCH], y[:BATCH], batch_size=BATCH, verbose=0)
        assert np.array_equal(before, model.layers[1].kernel.numpy())
        return values(model, model.optimizer), c2.plans(model)[0]

    found, plan = frozen("80%")
    whole, _ = frozen("100%")
    assert difference(found, whole) == ""
    _, model = fitted("100%")
    assert plan.baseline_peak_bytes < c2.plans(model)[0].baseline_peak_bytes


def test_data_of_all_kinds() -> None:
    x, y = data()

    def batches() -> Any:
        for _ in range(2):
            yield x[:BATCH], y[:BATCH]

    kinds: list[Callable[[], Any]] = [batches, lambda: tf.data.Dataset.from_tensor_slices((x[:BATCH], y[:BATCH])).repeat(2).batch(BATCH)]
    found = []
    for kind in kinds:
        model = compiled(c2.keras(make(), "80%", **FAST))
        history = model.fit(kind(), steps_per_epoch=2, epochs=1, verbose=0)
        found.append(state(model, history))
        assert len(c2.plans(model)) == 1
    assert difference(found[0], found[1]) == ""
