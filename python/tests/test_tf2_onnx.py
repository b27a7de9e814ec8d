# SPDX-License-Identifier: Apache-2.0
"""Keras models that are written as ONNX files, planned and trained by the program, which needs neither Keras nor TensorFlow."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
pytest.importorskip("tf2onnx", reason="tf2onnx, which Keras exports with, is not installed")

import numpy as np  # noqa: E402
from tensorflow.keras import layers  # noqa: E402

BUILT = pathlib.Path(__file__).parents[2] / "build" / "checkmate"
PROGRAM = os.environ.get("CHECKMATE_PROGRAM") or (str(BUILT) if BUILT.exists() else shutil.which("checkmate"))
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no program: build it, or set CHECKMATE_PROGRAM")


def checkmate(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([str(PROGRAM), *arguments, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def small() -> Any:
    tf.keras.utils.set_random_seed(1)
    x = start = tf.keras.Input((32, 32, 3))
    for width in (16, 16, 16, 16, 32, 32):
        x = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(x))
        x = layers.ReLU()(x)
    return tf.keras.Model(start, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)), name="small")


def export(model: Any, path: pathlib.Path) -> str:
    model.export(str(path), format="onnx", input_signature=[tf.keras.InputSpec(shape=(8, *model.input_shape[1:]), dtype=model.inputs[0].dtype)],
                 verbose=False)  # fmt: skip
    return str(path)


def test_a_model_is_planned_and_trained(tmp_path: pathlib.Path) -> None:
    file = export(small(), tmp_path / "small.onnx")
    plan = checkmate("solve", file, "--batch", "32", "--budget", "70%", "--time-limit", "5")
    assert plan["status"] in ("optimal", "feasible") and plan["peak_bytes"] <= plan["budget_bytes"] <= 0.7 * plan["baseline_peak_bytes"] + 1
    # Costs by formula: what is solved must not depend on how busy the machine is.
    common = (file, "--data", "synthetic", "--batch", "32", "--budget", "80%", "--costs", "flops", "--time-limit", "5")
    checked = checkmate("train", *common, "--check")
    assert checked["equal"] and checked["recomputations"] > 0
    trained = checkmate("train", *common, "--steps", "40", "--export", str(tmp_path / "trained.onnx"))
    assert trained["used_bytes"] <= trained["budget_bytes"]
    assert trained["mean_loss"] < trained["first_loss"]
    assert (tmp_path / "trained.onnx").stat().st_size > 1000


def test_its_first_loss_is_that_of_keras(tmp_path: pathlib.Path) -> None:
    """The program starts from the weights of the file, and computes what Keras does."""
    model = small()
    x = np.random.default_rng(1).uniform(-1, 1, (16, 32, 32, 3)).astype(np.float32)
    y = np.arange(16, dtype=np.int64) % 10
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "x.npy", x)
    np.save(data / "y.npy", y)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    expected = float(loss(y, model(x, training=False)))
    found = checkmate("train", export(model, tmp_path / "small.onnx"), "--data", str(data), "--batch", "16", "--steps", "1", "--costs", "flops")
    assert abs(found["first_loss"] - expected) < 1e-4 * expected, (found["first_loss"], expected)


def test_an_encoder_is_planned(tmp_path: pathlib.Path) -> None:
    start = tf.keras.Input((32,), dtype="int32")
    x = layers.Embedding(100, 32)(start)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 8, dropout=0.1)(y, y)
        y = layers.Dense(64, activation=lambda t: tf.keras.activations.gelu(t, approximate=True))(layers.LayerNormalization()(x))
        x = x + layers.Dropout(0.1)(layers.Dense(32)(y))
    model = tf.keras.Model(start, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    plan = checkmate("solve", export(model, tmp_path / "encoder.onnx"), "--budget", "60%", "--time-limit", "5")
    assert plan["peak_bytes"] <= plan["budget_bytes"] and plan["overhead"] < 0.2


def test_what_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    """tf2onnx has no operator for Keras's exact GELU."""
    start = tf.keras.Input((32,))
    model = tf.keras.Model(start, layers.Dense(4, activation="gelu", name="middle")(start))
    file = export(model, tmp_path / "gelu.onnx")
    done = subprocess.run([str(PROGRAM), "graph", file], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "gelu.onnx: operators that are not supported: Erfc" in done.stderr and "middle" in done.stderr
