# SPDX-License-Identifier: Apache-2.0
"""`checkmate.tf2.compile`: training steps within a budget are those without, bit for bit."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from keras import layers  # noqa: E402
from tf2_models import CASES, FAST, Case, difference, images, make, train, train_eagerly, values  # noqa: E402

import checkmate  # noqa: E402
import checkmate.tf2  # noqa: E402
import checkmate.tf2 as c2  # noqa: E402

HERE = pathlib.Path(__file__).parent


def test_the_originals_program() -> None:
    """As users of the original wrote it, on synthetic data whose last batch is smaller."""
    tf.keras.utils.set_random_seed(1)
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 136)
    pictures = (generator.standard_normal((136, 32, 32, 3)) + 2.0 * labels[:, None, None, None]).astype(np.float32)
    train_ds = tf.data.Dataset.from_tensor_slices((pictures, labels)).batch(72)
    sample_input = next(iter(train_ds))
    loss = tf.keras.losses.SparseCategoricalCrossentropy()
    optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)

    model = tf.keras.applications.vgg19.VGG19(weights=None, include_top=False, pooling="avg", input_shape=(32, 32, 3))
    model = tf.keras.Sequential([model, layers.Dense(2, activation="softmax")])
    train_iteration_fn = checkmate.tf2.compile(model, loss, optimizer,
        input_spec=sample_input[0], label_spec=sample_input[1], budget="80%", **FAST)  # fmt: skip
    assert optimizer.iterations == 0, "planning must not train"
    losses = []
    for _ in range(3):
        for image, label in train_ds:
            prediction, value = train_iteration_fn(image, label)
            assert prediction.shape == (len(label), 2) and value.shape == ()
            losses.append(float(value))
    assert sum(losses[-2:]) < sum(losses[:2]), losses
    assert optimizer.iterations == 6
    first, last = checkmate.tf2.plans(train_iteration_fn)
    assert first.recomputed and first.peak_bytes <= first.budget_bytes < first.baseline_peak_bytes
    assert last.peak_bytes <= first.budget_bytes, "the smaller batch has the same budget"


@pytest.mark.parametrize("name", CASES)
def test_within_a_budget_training_is_the_same(name: str) -> None:
    whole, plan = train(make(name), "100%")
    assert not plan.recomputed and plan.peak_bytes <= plan.baseline_peak_bytes
    found, plan = train(make(name), "50%")
    assert plan.recomputed and plan.peak_bytes <= plan.budget_bytes <= plan.baseline_peak_bytes / 2
    assert difference(found, whole) == ""
    assert difference(found, train_eagerly(make(name))) == ""
    assert np.any(whole["prediction 0"] != whole["prediction 1"])


def test_what_is_compared_has_state() -> None:
    names = " ".join(values(make("conv").model))
    assert "moving_variance" in names and "seed" in names


def test_updates_happen_once_a_step() -> None:
    """Moving statistics follow their formula, though the normalization is computed again."""
    case = make("conv")
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "50%", **FAST)
    (plan,) = c2.plans(step)
    assert any("batch_normalization" in name for name in plan.recomputed)
    first = next(layer for layer in case.model.layers if isinstance(layer, layers.BatchNormalization))
    before = first.moving_mean.numpy().copy()
    seen = tf.keras.Model(case.model.inputs, first.input)(case.batches[0][0])
    step(*case.batches[0])
    expected = before * first.momentum + np.mean(seen, (0, 1, 2)) * (1 - first.momentum)
    np.testing.assert_allclose(first.moving_mean.numpy(), expected, rtol=1e-4, atol=1e-6)
    assert case.optimizer.iterations == 1
    step(*case.batches[1])
    assert case.optimizer.iterations == 2


def test_several_inputs_and_outputs_by_spec() -> None:
    """A model that is planned before there is any data; inputs and labels by name."""

    def two_sided() -> Case:
        tf.keras.backend.clear_session()
        tf.keras.utils.set_random_seed(2)
        left, right = layers.Input((64,), name="left"), layers.Input((64,), name="right")
        x = layers.Concatenate()([left, right])
        for _ in range(6):
            x = layers.Dense(256, "gelu")(x)
        model = tf.keras.Model({"left": left, "right": right}, {"sum": layers.Dense(1)(x), "all": x})
        generator = np.random.default_rng(2)
        x = {side: tf.constant(generator.standard_normal((1024, 64)), tf.float32) for side in ("left", "right")}
        y = tf.reduce_sum(x["left"], 1, keepdims=True)
        return Case(model, lambda y, p: tf.square(p["sum"] - y) + tf.reduce_mean(tf.square(p["all"])), tf.keras.optimizers.SGD(0.01), [(x, y)] * 3)

    found = []
    for budget in ("100%", "60%"):
        case = two_sided()
        specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), case.batches[0])
        step = c2.compile(case.model, case.loss, case.optimizer, specs[0], specs[1], budget, **FAST)
        results = [step(*batch) for batch in case.batches]
        assert len(c2.plans(step)) == 1, "the batch is what the specs said"
        prediction, _ = results[0]
        assert set(prediction) == {"sum", "all"} and prediction["all"].shape == (1024, 256)
        found.append({str(i): t.numpy() for i, t in enumerate(tf.nest.flatten(results))} | values(case.model, case.optimizer))
    assert difference(found[1], found[0]) == ""


def test_a_shape_is_planned_once_and_a_smaller_batch_has_the_same_budget() -> None:
    case = make("penalties")
    lines: list[str] = []
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "60%", progress=lines.append, **FAST)
    said = len(lines)
    assert said
    x, y = case.batches[0]
    for size in (2048, 96, 2048, 96):
        prediction, _ = step(x[:size], y[:size])
        assert prediction.shape == (size, 1)
    whole, small = c2.plans(step)
    assert not small.recomputed, "what has room needs nothing again"
    assert small.budget_bytes == whole.budget_bytes
    assert len(lines) > said


def test_losses_and_optimizers_by_name() -> None:
    case = make("penalties")
    step = c2.compile(case.model, "mae", "adam", *case.batches[0], "80%", **FAST)
    losses = [float(step(*case.batches[0])[1]) for _ in range(4)]
    assert losses[-1] < losses[0]


def test_a_model_without_shapes_is_built_of_the_spec() -> None:
    x = tf.ones((1024, 256))

    class Own(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = [layers.Dense(256, "relu") for _ in range(5)]
            self.last = [layers.BatchNormalization(), layers.Dropout(0.1)]

        def call(self, x: Any, training: bool = False) -> Any:
            x = x["first"] + x["second"][0]
            for layer in self.inner:
                x = layer(x)
            return self.last[1](self.last[0](x, training=training), training=training)

    own: tuple[Any, Any] = Own(), {"first": x, "second": [x]}
    for model, inputs in ((tf.keras.Sequential([layers.Dense(256, "relu") for _ in range(6)]), x), own):
        assert not model.built
        step = c2.compile(model, "mse", "sgd", inputs, x, "90%", **FAST)
        assert model.built and len(model.trainable_variables) == 12
        assert all(np.all(v.numpy() == 0) for v in model.non_trainable_variables if "moving_mean" in v.path), "planning runs nothing"
        assert step(inputs, x)[0].shape == (1024, 256)


def test_numpy_arrays_are_tensors() -> None:
    case = make("penalties")
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "80%", **FAST)
    x, y = case.batches[0]
    step(x.numpy(), y.numpy())
    assert len(c2.plans(step)) == 1


def test_a_schedule_in_atrained_model() -> None:
    """Learning rates by schedule, clipping, weight decay and averages belong to the update."""

    def case() -> Case:
        found = make("penalties")
        rate = tf.keras.optimizers.schedules.CosineDecay(1e-2, 10)
        found.optimizer = tf.keras.optimizers.AdamW(rate, clipnorm=1.0, use_ema=True, ema_overwrite_frequency=2)
        return found

    whole, _ = train(case(), "100%")
    found, plan = train(case(), "60%")
    assert plan.recomputed and difference(found, whole) == ""


def test_checkpoints_see_nothing_of_it(tmp_path: Any) -> None:
    """A training that is stopped and goes on ends where one that was not stopped does."""
    whole, _ = train(make("penalties", batches=4), "60%")
    case = make("penalties", batches=4)
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "60%", **FAST)
    for batch in case.batches[:2]:
        step(*batch)
    path = tf.train.Checkpoint(model=case.model, optimizer=case.optimizer).save(str(tmp_path / "state"))
    case = make("penalties", batches=4)
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "60%", **FAST)
    tf.train.Checkpoint(model=case.model, optimizer=case.optimizer).restore(path).assert_consumed()
    for batch in case.batches[2:]:
        step(*batch)
    assert difference(values(case.model, case.optimizer), {k: v for k, v in whole.items() if not k.startswith(("prediction", "loss"))}) == ""


def test_weights_given_later_are_what_runs() -> None:
    case = make("penalties")
    step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "60%", **FAST)
    case.model.set_weights([np.zeros_like(w) for w in case.model.get_weights()])
    prediction, _ = step(*case.batches[0])
    assert not np.any(prediction.numpy())


def test_images_are_not_all_the_same() -> None:
    a, b = images(2, 8, 3, 2)
    assert np.any(a.numpy() != b.numpy())


def test_without_merged_operators_it_is_tf_function_bit_for_bit() -> None:
    """What else differs from a plain tf.function is Grappler's work, and oneDNN's."""
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                                "PYTHONPATH": os.pathsep.join([str(pathlib.Path(c2.__file__).parents[2]), str(HERE)])}  # fmt: skip
    code = """
import tensorflow as tf
from checkmate.tf2 import keras_steps
from tf2_models import trained, difference, make, train
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
tf.config.threading.set_inter_op_parallelism_threads(1)
for name in ("conv", "unet", "transformer", "grouped"):
    case = make(name)
    case.optimizer.build(case.model.trainable_variables)
    plain = trained(case, tf.function(keras_steps.step_of(case.model, case.loss, case.optimizer)))
    planned, plan = train(make(name), "60%")
    print(name, len(plan.recomputed) > 0, difference(planned, plain) or "the same")
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if " True " in line or " False " in line]
    assert lines == [f"{name} True the same" for name in ("conv", "unet", "transformer", "grouped")], done.stdout


@pytest.mark.parametrize("kind", ("names", "places"))
def test_a_loss_for_each_output(kind: str) -> None:
    """As Keras adds them up."""

    def model() -> Any:
        tf.keras.utils.set_random_seed(1)
        start = layers.Input((16,))
        hidden = layers.Dense(32, "relu")(start)
        outputs = [layers.Dense(1, name="p")(hidden), layers.Dense(3, name="q")(hidden)]
        return tf.keras.Model(start, dict(zip("pq", outputs, strict=True)) if kind == "names" else outputs)

    x, p, q = (tf.random.stateless_normal((8, n), (1, n)) for n in (16, 1, 3))
    y, loss = ({"p": p, "q": q}, {"p": "mse", "q": "mae"}) if kind == "names" else ([p, q], ["mse", "mae"])
    step = c2.compile(model(), loss, "sgd", x, y, "100%", costs="estimate")
    found = [float(step(x, y)[1]) for _ in range(3)]
    plain = model()
    plain.compile("sgd", loss)
    expected = [float(np.asarray(plain.train_on_batch(x, y)).ravel()[0]) for _ in range(3)]
    assert np.allclose(found, expected, rtol=1e-5)
