# SPDX-License-Identifier: Apache-2.0
"""The loss of `compile` is that of Keras' fit: masks, weights, labels of another rank, several outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
keras = pytest.importorskip("keras")

import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate.tf2 import keras_steps, losses, measure, program  # noqa: E402

FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 1, "cache": False}
NO_LOSS = ("deserialize", "get", "serialize", "categorical_generalized_cross_entropy")  # the last asks for a third argument
FUNCTIONS = sorted(name for name in dir(keras.losses) if name[0].islower() and name not in NO_LOSS and callable(getattr(keras.losses, name)))
CLASSES = sorted(name for name in dir(keras.losses) if isinstance(getattr(keras.losses, name), type) and name != "Loss")
RANDOM = np.random.default_rng(1)
ONE_HOT = np.eye(3, dtype="float32")[RANDOM.integers(0, 3, 8)]
X = RANDOM.standard_normal((8, 4)).astype("float32")
SEQUENCE = RANDOM.standard_normal((8, 6, 4)).astype("float32")
SEQUENCE[:, 4:] = 0
WEIGHTS = np.linspace(0.2, 3, 8).astype("float32")


def one() -> Any:
    return keras.Sequential([layers.Input((4,)), layers.Dense(3, "softmax")])


def masked() -> Any:
    return keras.Sequential([layers.Input((6, 4)), layers.Masking(), layers.TimeDistributed(layers.Dense(5, "tanh")), layers.Dense(3, "softmax")])


def column() -> Any:
    return keras.Sequential([layers.Input((4,)), layers.Dense(1, "sigmoid")])


def several(outputs: Callable[[Any], Any]) -> Callable[[], Any]:
    def make() -> Any:
        start = layers.Input((4,))
        x = layers.Dense(5, "tanh", activity_regularizer="l2")(start)
        return keras.Model(start, outputs([layers.Dense(1, name="p")(x), layers.Dense(3, name="q", kernel_regularizer="l1")(x)]))

    return make


def labels(name: str) -> Any:
    plain = name.lower().replace("_", "")
    return ONE_HOT.argmax(1).astype("int32") if plain.startswith(("sparse", "circle", "categoricalgeneralized")) else ONE_HOT


def by_fit(make: Callable[[], Any], loss: Any, x: Any, y: Any, weights: Any = None, **more: Any) -> tuple[float, list[Any]]:
    keras.utils.set_random_seed(1)
    model = make()
    model.compile(keras.optimizers.SGD(0.1), loss, run_eagerly=True, **more)
    history = model.fit(x, y, batch_size=len(x), sample_weight=weights, verbose=0, shuffle=False).history
    return history["loss"][0], model.get_weights()


def by_step(make: Callable[[], Any], loss: Any, x: Any, y: Any, weights: Any = None, **more: Any) -> tuple[float, list[Any]]:
    """What `compile` plans, run eagerly."""
    keras.utils.set_random_seed(1)
    model = make()
    x, y, weights = tf.nest.map_structure(tf.convert_to_tensor, (x, y, weights if weights is not None else []))
    given = () if isinstance(weights, list) and not weights else (weights,)
    _, value = keras_steps.step_of(model, loss, keras.optimizers.SGD(0.1), **more)(x, y, *given)
    assert value.shape == ()
    return float(value), model.get_weights()


def same(found: tuple[float, list[Any]], expected: tuple[float, list[Any]]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    ctc = keras.Sequential([layers.Input((6, 4)), layers.Dense(5)])
    return {"one": one(), "masked": masked(), "ctc": ctc}


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_every_loss_of_keras(name: str, models: dict[str, Any]) -> None:
    """By name, as a function or an object, with a mask, with weights."""
    what, plain = getattr(keras.losses, name), name.lower().replace("_", "")
    loss, y = what() if isinstance(what, type) else what, labels(name)
    many, of_each = np.repeat(y[:, None], 6, axis=1), np.repeat(WEIGHTS[:, None], 6, axis=1)
    by_name = loss if name.lower().startswith("categorical") and "eneralized" in name else name  # a name that Keras does not know
    cases = [("one", loss, X, y, None), ("one", by_name, X, y, None), ("one", loss, X, y, WEIGHTS)]
    if plain.startswith("ctc"):
        cases = [("ctc", loss, SEQUENCE, RANDOM.integers(1, 5, (8, 2)).astype("int32"), None)]
    elif not plain.startswith("circle"):
        cases += [("masked", loss, SEQUENCE, many, None), ("masked", loss, SEQUENCE, many, of_each)]
    found = []
    for of, loss, x, y, weights in cases:
        model = models[of]
        model.compile("sgd", loss, run_eagerly=True)
        expected = model.test_on_batch(x, y, weights)
        given = (tf.constant(y), model(x), None if weights is None else tf.constant(weights))
        found.append(float(losses.of(model, loss)(*given)))
        assert found[-1] == pytest.approx(float(expected), rel=1e-6, abs=1e-7)
    assert len(found) < 3 or plain.startswith(("dice", "tversky")) or found[0] == found[1] != found[2]


def test_ctc_is_planned() -> None:
    """It runs loops in the form of TensorFlow 1, of which only the definition is known."""
    y = RANDOM.integers(1, 5, (8, 2)).astype("int32")

    def trained(budget: str | None) -> list[bytes]:
        keras.utils.set_random_seed(1)
        model, optimizer = keras.Sequential([layers.Input((6, 4)), layers.Dense(5)]), keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        step = keras_steps.step_of(model, keras.losses.CTC(), optimizer)
        planned = step if budget is None else c2.function(step, budget, **FAST)
        found = [planned(tf.constant(SEQUENCE), tf.constant(y))[1].numpy().tobytes() for _ in range(2)]
        if budget is not None:
            loops = [call for call in program.read(planned.concrete(SEQUENCE, y)).calls if "While" in call.type]
            assert len(loops) == 2 and all(measure.estimate(call).workspace_bytes > sum(v.bytes for v in call.outputs) for call in loops)
        return [*found, *(v.numpy().tobytes() for v in model.variables)]

    assert trained("100%") == trained(None)


def test_what_is_masked_does_not_count() -> None:
    y = np.repeat(ONE_HOT[:, None], 6, axis=1)
    other = y.copy()
    other[:, 4:] = 7
    for loss in ("mse", keras.losses.huber, keras.losses.MeanAbsoluteError(), lambda a, b: keras.ops.mean(keras.ops.square(a - b), -1)):
        found = by_step(masked, loss, SEQUENCE, y)
        assert found[0] == by_step(masked, loss, SEQUENCE, other)[0]
        same(found, by_fit(masked, loss, SEQUENCE, y))


def test_labels_without_the_last_axis() -> None:
    """(8,) against (8, 1) is eight numbers, not sixty-four."""
    x, y = X, (np.arange(8) % 2).astype("float32")
    for loss in ("mse", "binary_crossentropy", keras.losses.Huber(), lambda a, b: keras.ops.square(a - b)):
        same(by_step(column, loss, x, y), by_fit(column, loss, x, y))
        assert by_step(column, loss, x, y)[0] == pytest.approx(by_step(column, loss, x, y[:, None])[0], rel=1e-6)


def test_weights_of_classes_are_weights_of_samples() -> None:
    x, y = X, labels("sparse")
    of_class = {0: 0.5, 1: 2.0, 2: 3.0}
    keras.utils.set_random_seed(1)
    model = one()
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", run_eagerly=True)
    loss = model.fit(x, y, batch_size=8, class_weight=of_class, verbose=0).history["loss"][0]
    weights = np.array([of_class[i] for i in y], "float32")
    same(by_step(one, "sparse_categorical_crossentropy", x, y, weights), (loss, model.get_weights()))


@pytest.mark.parametrize("outputs", [list, lambda both: dict(zip("pq", both, strict=True))])
@pytest.mark.parametrize("loss", [["mse", keras.losses.MeanAbsoluteError()], {"p": "mse", "q": keras.losses.huber}, "mse"])
def test_several_outputs(outputs: Callable[[Any], Any], loss: Any) -> None:
    x, p, q = (RANDOM.standard_normal((8, n)).astype("float32") for n in (4, 1, 3))
    make = several(outputs)
    y = outputs([p, q])
    if isinstance(loss, list) and isinstance(y, dict):
        loss = dict(zip("pq", loss, strict=True))  # which Keras asks for
    same(by_step(make, loss, x, y), by_fit(make, loss, x, y))
    if not isinstance(loss, str):
        of_loss = {"p": 2.0, "q": 0.5} if isinstance(loss, dict) else [2.0, 0.5]
        expected = by_fit(make, loss, x, y, loss_weights=of_loss)
        same(by_step(make, loss, x, y, loss_weights=of_loss), expected)


def test_planned_steps_have_that_loss() -> None:
    """Several outputs, whose losses Keras keeps count of, weights of samples, a mask."""
    p, q = (RANDOM.standard_normal((8, n)).astype("float32") for n in (1, 3))
    two = several(lambda both: dict(zip("pq", both, strict=True)))
    loss, y, weights = {"p": "mse", "q": "mae"}, {"p": p, "q": q}, {"p": 1.0, "q": 3.0}
    keras.utils.set_random_seed(1)
    model = two()
    step = c2.compile(model, loss, keras.optimizers.SGD(0.1), X, y, "100%", loss_weights=weights, **FAST)
    same((float(step(X, y)[1]), model.get_weights()), by_fit(two, loss, X, y, loss_weights=weights))
    step(X, y)
    many = np.repeat(ONE_HOT[:, None], 6, axis=1)
    for make, x, of_each, of_sample in ((one, X, ONE_HOT, WEIGHTS), (masked, SEQUENCE, many, np.repeat(WEIGHTS[:, None], 6, axis=1))):
        keras.utils.set_random_seed(1)
        model = make()
        step = c2.compile(model, "mse", keras.optimizers.SGD(0.1), x, of_each, "100%", **FAST)
        same((float(step(x, of_each, of_sample)[1]), model.get_weights()), by_fit(make, "mse", x, of_each, of_sample))
        assert len(c2.plans(step)) == 2  # with weights, and without


def test_a_planned_loss_adds_no_operators_of_its_own() -> None:
    x = tf.ones((8, 4))
    step = c2.compile(one(), "mse", keras.optimizers.SGD(0.1), x, tf.constant(ONE_HOT), "100%", **FAST)
    assert {v.variable for v in program.read(step.concrete(x, tf.constant(ONE_HOT))).inputs if v.is_resource} <= {4 * 3 * 4, 3 * 4, 4, 8}


@pytest.mark.parametrize(("loss", "text"), [
    ({"p": "mse"}, "there are losses for p; the model's outputs are without names$"),
    (["mse", "mse"], "2 losses in a list need as many outputs; the model gives 1$"),
    ("mse", r"the loss does not suit labels \(5, 3\), outputs \(8, 1\): "),
])  # fmt: skip
def test_what_does_not_fit_is_one_line(loss: Any, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{text}") as caught:
        c2.compile(column(), loss, "sgd", tf.ones((8, 4)), tf.constant(ONE_HOT[:5]), "100%", **FAST)
    assert len(str(caught.value).splitlines()) == 1
