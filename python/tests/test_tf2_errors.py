# SPDX-License-Identifier: Apache-2.0
"""What cannot be planned says so in one exception that names the cause."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from keras import layers  # noqa: E402
from tf2_models import FAST, Case, make  # noqa: E402

import checkmate  # noqa: E402
import checkmate.tf2 as c2  # noqa: E402
from checkmate.tf2 import keras_steps, measure, planner  # noqa: E402


def small(**settings: Any) -> Any:
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(**({"optimizer": "sgd", "loss": "mse", "jit_compile": False} | settings))
    return model


def fit(model: Any, budget: str = "100%") -> None:
    c2.keras(model, budget, **FAST).fit(np.ones((8, 4), np.float32), np.ones((8, 1), np.float32), batch_size=8, verbose=0)


def compile_case(case: Case, budget: Any = "100%", **options: Any) -> c2.Planned:
    return c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], budget, **(FAST | options))


def test_a_budget_below_the_floor_names_one_that_works() -> None:
    case = make("penalties")
    lines: list[str] = []
    with pytest.raises(c2.InfeasibleError, match=r"works, with .* more computation at most; .* are proven too small") as caught:
        compile_case(case, "10%", progress=lines.append)
    error = caught.value
    assert error.proven and error.budget_bytes < error.largest_impossible < error.smallest_known
    assert f"budget={error.smallest_known:,} works" in str(error) and "\n" not in str(error)
    step = compile_case(case, error.smallest_known)
    (plan,) = c2.plans(step)
    assert plan.peak_bytes <= error.smallest_known
    step(*case.batches[0])
    with pytest.raises(c2.InfeasibleError):
        compile_case(case, error.largest_impossible)
    assert lines


def test_a_budget_that_an_error_names_works_where_no_search_finds_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make("penalties")
    with pytest.raises(c2.InfeasibleError) as caught:
        compile_case(case, "10%", cache=False)

    def nothing(_traced: Any, limit: int, *_more: Any) -> Any:
        raise c2.InfeasibleError("too late", proven=False, budget_bytes=limit, smallest_known=None, largest_impossible=0)

    monkeypatch.setattr(planner, "_solved", nothing)
    monkeypatch.setattr(planner, "_least", lambda traced: pytest.fail("what was named is known"))
    (plan,) = c2.plans(compile_case(case, caught.value.smallest_known, cache=False))
    assert plan.peak_bytes <= plan.budget_bytes == caught.value.smallest_known


def test_the_least_budget_is_what_the_error_names() -> None:
    case = make("penalties")
    least = c2.plans(compile_case(case, "min"))[0]
    with pytest.raises(c2.InfeasibleError) as caught:
        compile_case(case, least.floor_bytes - 1)
    assert caught.value.smallest_known == least.budget_bytes


@pytest.mark.parametrize("budget, kind, text", [("a lot", ValueError, "is no size"), (0, ValueError, "positive"), (-5, ValueError, "positive"),
                                                ("0%", ValueError, "positive"), (0.5, ValueError, '"50%"'), (None, TypeError, "budget must be"),
                                                (True, TypeError, "budget must be")])  # fmt: skip
def test_budgets_that_are_none(budget: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        c2.function(lambda x: x, budget)
    with pytest.raises(kind, match=text):
        c2.keras(small(), budget)


def test_options_that_are_none() -> None:
    with pytest.raises(TypeError, match=r"unknown option colour; there are .*time_limit"):
        c2.function(lambda x: x, "100%", colour="red")
    with pytest.raises(c2.UnsupportedError, match=r"offload= is an option of checkmate.torch"):
        c2.function(lambda x: x, "100%", offload="red")
    with pytest.raises(ValueError, match='costs must be "measure" or "estimate"'):
        c2.keras(small(), costs="guess")
    with pytest.raises(ValueError, match="fixed_bytes must not be negative"):
        c2.function(lambda x: x, fixed_bytes=-1)


def test_what_is_no_model_and_no_function() -> None:
    x = tf.ones((2, 2))
    with pytest.raises(TypeError, match=r"model must be a keras.Model, not function; .* checkmate.tf2.function"):
        c2.compile(lambda x: x, "mse", "sgd", x, x)
    with pytest.raises(TypeError, match=r"model must be a keras.Model, not str"):
        c2.keras("model")
    with pytest.raises(TypeError, match="step must be a function, not int"):
        c2.function(3)
    with pytest.raises(TypeError, match="plans needs what compile or function gave"):
        c2.plans(small())
    with pytest.raises(TypeError, match="needs a loss, as a Keras object"):
        c2.compile(small(), None, "sgd", tf.ones((2, 4)), tf.ones((2, 1)), "100%", **FAST)


def test_specs_without_a_size() -> None:
    labels = tf.TensorSpec((8, 1))
    with pytest.raises(c2.UnsupportedError, match=r"shape \(None, 4\) is not fixed: give the shape of a batch"):
        c2.compile(small(), "mse", "sgd", tf.TensorSpec((None, 4)), labels, "100%", **FAST)
    with pytest.raises(c2.UnsupportedError, match=r"<unknown> is not fixed"):
        c2.compile(small(), "mse", "sgd", tf.TensorSpec((8, 4)), tf.TensorSpec(None), "100%", **FAST)


def test_specs_that_do_not_fit_the_model() -> None:
    with pytest.raises(ValueError, match=r"(?s)expected axis -1 of input shape to have value 4.*|.*[Ii]ncompatible"):
        c2.compile(small(), "mse", "sgd", tf.TensorSpec((8, 5)), tf.TensorSpec((8, 1)), "100%", **FAST)


def test_a_model_that_cannot_be_built() -> None:
    class Broken(tf.keras.Model):
        def call(self, x: Any) -> Any:
            raise RuntimeError("no such layer")

    with pytest.raises(ValueError, match=r"the model is not built and does not build itself of input_spec: RuntimeError: "):
        c2.compile(Broken(), "mse", "sgd", tf.ones((8, 4)), tf.ones((8, 1)), "100%", **FAST)


def test_a_model_that_was_not_compiled() -> None:
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    with pytest.raises(ValueError, match=r"compile\(\)"):
        fit(model)


def test_ragged_and_sparse_tensors() -> None:
    planned = c2.function(lambda x: x, "100%", **FAST)
    ragged = tf.ragged.constant([[1.0], [1.0, 2.0]])
    with pytest.raises(c2.UnsupportedError, match=r"RaggedTensors have no fixed size and cannot be planned: pad them, or make them dense"):
        planned(ragged)
    with pytest.raises(c2.UnsupportedError, match=r"SparseTensors have no fixed size"):
        planned(tf.sparse.eye(3))
    with pytest.raises(c2.UnsupportedError, match=r"RaggedTensors have no fixed size"):
        planned({"a": [tf.ones(3), ragged]})
    assert c2.plans(planned) == []


STEPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: tf.boolean_mask(x, x > 0.5), "which is not known when the step is planned"),
    (lambda x: tf.where(x > 0.5) + 1, "which is not known when the step is planned"),
]


@pytest.mark.parametrize("step, text", STEPS)
def test_sizes_that_depend_on_data(step: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(c2.UnsupportedError, match=text):
        c2.function(step, "100%", **FAST)(tf.ones((4, 4)))


def test_a_planned_step_inside_of_a_function() -> None:
    planned = c2.function(lambda x: x * 2, "100%", **FAST)
    assert float(planned(tf.constant(2.0))) == 4.0
    with pytest.raises(c2.UnsupportedError, match=r"not from within another tf\.function"):
        tf.function(lambda x: planned(x), autograph=False)(tf.constant(2.0))

    @tf.function
    def outer(x: Any) -> Any:
        return planned(x)

    with pytest.raises(c2.UnsupportedError, match=r"not from within another tf\.function"):
        outer(tf.constant(2.0))


def test_xla_is_refused() -> None:
    with pytest.raises(c2.UnsupportedError, match=r"jit_compile=True: XLA .* compile with jit_compile=False"):
        fit(small(jit_compile=True))
    with pytest.raises(c2.UnsupportedError, match=r"jit_compile=True: XLA .* leave it out"):
        c2.function(tf.function(lambda x: x * 2, jit_compile=True), "100%", **FAST)


def test_where_keras_chooses_xla_by_itself_fit_runs_without(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """As it does where there is a GPU."""
    monkeypatch.setattr(keras_steps, "keras_chooses_xla", lambda: True)
    model = small(jit_compile=True)
    with caplog.at_level("INFO", "checkmate.tf2"):
        fit(model)
    assert "without XLA" in caplog.text and len(c2.plans(model)) == 1
    assert model.jit_compile, "evaluation and prediction are as before"


def test_running_eagerly_is_refused() -> None:
    with pytest.raises(c2.UnsupportedError, match="run_eagerly=True runs no graph"):
        fit(small(run_eagerly=True))


def test_exceptions_of_the_step_are_its_own() -> None:
    def step(x: Any) -> Any:
        raise KeyError("the caller's")

    with pytest.raises(KeyError, match="the caller's"):
        c2.function(step, "100%", **FAST)(tf.ones(3))


def test_errors_while_running_reach_the_caller() -> None:
    """And the step still runs afterwards."""
    planned = c2.function(lambda x: (tf.debugging.assert_positive(x), tf.sqrt(x))[1], "100%", **FAST)
    assert np.allclose(planned(tf.constant([4.0])), 2.0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        planned(tf.constant([-4.0]))
    assert np.allclose(planned(tf.constant([9.0])), 3.0)


def test_ctrl_c_ends_planning() -> None:
    def interrupt(line: str) -> None:
        if "without rematerialization" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_case(make("penalties"), "60%", progress=interrupt)


def text_model(unroll: bool) -> Any:
    tf.keras.utils.set_random_seed(1)
    start = layers.Input((12,), dtype="int32")
    x = layers.LSTM(32, return_sequences=True, unroll=unroll)(layers.Embedding(50, 32)(start))
    return tf.keras.Model(start, layers.Dense(50)(layers.Dense(256, "relu")(layers.GRU(32, unroll=unroll)(x))))


def test_recurrent_layers_are_refused_by_name_unless_they_are_unrolled() -> None:
    """A Keras LSTM is a loop over lists of tensors."""
    words = tf.constant(np.random.default_rng(1).integers(0, 50, (16, 12)), tf.int32)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with pytest.raises(c2.UnsupportedError, match=r"lstm.* list.* whose bytes are not known.* unroll=True"):
        c2.compile(text_model(False), loss, "sgd", words, words[:, 0], "100%", **FAST)
    train = c2.compile(text_model(True), loss, "sgd", words, words[:, 0], "100%", **FAST)
    assert float(train(words, words[:, 0])[1]) > float(train(words, words[:, 0])[1])


def test_an_update_of_unknown_size_is_refused_by_name() -> None:
    model = tf.keras.Sequential([layers.Input((12,), dtype="int32"), layers.Embedding(50, 16), layers.Flatten(), layers.Dense(1)])
    words = tf.ones((4, 12), tf.int32)
    with pytest.raises(c2.UnsupportedError, match=r"rm_sprop.* not known .*embedding.*; Adam and SGD"):
        c2.compile(model, "mse", "rmsprop", words, tf.ones((4, 1)), "100%", **FAST)


def test_shapes_are_no_specs() -> None:
    with pytest.raises(TypeError, match=r"^input_spec must be tensors or tf.TensorSpecs of a batch, .* not a shape$"):
        c2.compile(small(), "mse", "sgd", (8, 4), (8, 1), "100%", **FAST)
    for spec, what in ((tf.TensorShape((8, 4)), "a shape"), (tf.keras.KerasTensor((8, 4)), "a KerasTensor"),
                       (tf.keras.InputSpec(shape=(8, 4)), "an InputSpec")):  # fmt: skip
        with pytest.raises(TypeError, match=f"^input_spec must be tensors or tf.TensorSpecs of a batch, .* not {what}$"):
            c2.compile(small(), "mse", "sgd", spec, tf.ones((8, 1)), "100%", **FAST)


def test_losses_that_do_not_fit_the_outputs() -> None:
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    with pytest.raises(ValueError, match="2 losses in a list need as many outputs"):
        c2.compile(model, ["mse", "mse"], "sgd", tf.ones((2, 4)), tf.ones((2, 1)), "100%", **FAST)
    with pytest.raises(ValueError, match="there are losses for p; the model's outputs are without names"):
        c2.compile(model, {"p": "mse"}, "sgd", tf.ones((2, 4)), tf.ones((2, 1)), "100%", **FAST)


def test_explain_of_a_model_says_what_it_needs() -> None:
    model = small()
    with pytest.raises(TypeError, match=r"explain needs a training step.*explain\(model\.train_step, \(x, y\)\)"):
        c2.explain(model, (tf.ones((2, 4)), tf.ones((2, 1))), show=None)
    found = c2.explain(c2.keras(model, "100%", **FAST), (tf.ones((2, 4)), tf.ones((2, 1))), budgets=1, show=None)
    assert found.solutions


def test_what_writes_over_its_operand_is_refused() -> None:
    with pytest.raises(c2.UnsupportedError, match=r"InplaceUpdate\) writes over its operand"):
        c2.function(lambda x: tf.raw_ops.InplaceUpdate(x=tf.tanh(x), i=[1], v=tf.zeros((1, 4))), "100%", **FAST)(tf.ones((4, 4)))


def test_python_within_a_step_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def step(x: Any) -> Any:
        tf.py_function(lambda a: None, [x], [])
        return x * 2.0

    with caplog.at_level("WARNING", "checkmate.tf2"):
        c2.function(step, "100%", **FAST)(tf.ones((4, 4)))
    assert "runs Python: what that allocates is not counted" in caplog.text


def test_several_replicas_are_refused() -> None:
    """On two virtual devices, which have to be set before TensorFlow starts."""
    code = """
import numpy as np, tensorflow as tf
import checkmate.tf2 as c2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
for devices in (["CPU:0", "CPU:1"],):
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        for train in (lambda: c2.keras(model, "100%", costs="estimate").fit(x, y, verbose=0),
                      lambda: c2.function(lambda x: x * 2, "100%", costs="estimate")(tf.constant(x))):
            try:
                train()
                print("trained")
            except c2.UnsupportedError as error:
                print("refused:", error)
"""
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("trained", "refused"))]
    assert len(lines) == 2 and all("tf.distribute strategy" in line and "cannot be planned" in line for line in lines), done.stdout


def test_an_allocator_that_does_not_count_is_named() -> None:
    """TensorFlow's own on a CPU, unless oneDNN's stands in for it."""
    code = """
import tensorflow as tf
import checkmate.tf2 as c2
for costs in ("measure", "estimate"):
    try:
        print("planned", len(c2.function(lambda x: x * 2, "100%", costs=costs).prepare(tf.TensorSpec((512, 512))).graph.ops))
    except c2.UnsupportedError as error:
        print("refused:", error)
"""
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    environment.pop("TF_CPU_ALLOCATOR_USE_BFC", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("planned", "refused"))]
    assert lines[1] == "planned 1" and "does not count" in lines[0] and "TF_CPU_ALLOCATOR_USE_BFC=1" in lines[0], done.stdout


def test_without_tensorflow_the_import_says_what_to_install() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tensorflow":
            raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
sys.meta_path.insert(0, Refuse())
import checkmate.tf2
"""
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: checkmate.tf2 needs TensorFlow 2.16 or newer: pip install tensorflow, or tensorflow-cpu"


def test_another_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    monkeypatch.setattr(tf.keras.config, "backend", lambda: "jax")
    for refused in (lambda: c2.keras(model, "100%"), lambda: c2.compile(model, "mse", "sgd", tf.ones((2, 4)), tf.ones((2, 1)), "100%")):
        with pytest.raises(c2.UnsupportedError, match=r"^Keras runs on jax here: .*KERAS_BACKEND=tensorflow"):
            refused()


def test_a_strategys_model_is_refused_by_compile() -> None:
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    with pytest.raises(c2.UnsupportedError, match=r"^a model made under a tf.distribute strategy \(MirroredStrategy\) cannot be planned"):
        c2.compile(model, "mse", "sgd", tf.ones((2, 4)), tf.ones((2, 1)), "100%", **FAST)


def test_an_allocator_that_does_not_count_names_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_is_counted", lambda *_: False)
    with pytest.raises(c2.UnsupportedError, match=r"TF_ENABLE_ONEDNN_OPTS=1 .*TF_CPU_ALLOCATOR_USE_BFC=1, or .*estimate"):
        measure.counted_from.__wrapped__("CPU:0")
