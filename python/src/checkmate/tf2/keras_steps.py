# SPDX-License-Identifier: Apache-2.0
"""Training steps of Keras models: a function with the original Checkmate's signature, and `model.fit`."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras as keras_library
import tensorflow as tf

from ..errors import UnsupportedError
from . import losses
from .function import Planned
from .planner import Options

log = logging.getLogger("checkmate.tf2")


def step_of(model: Any, loss: Any, optimizer: Any, loss_weights: Any = None) -> Callable[..., tuple[Any, tf.Tensor]]:
    """Forward pass in training mode, loss including the model's own losses, gradients, update. Returns the prediction and the loss."""
    if not isinstance(model, keras_library.Model):
        raise TypeError(f"model must be a keras.Model, not {type(model).__name__}; for other steps there is checkmate.tf2.function")
    loss_of = losses.of(model, loss, loss_weights)
    optimizer = keras_library.optimizers.get(optimizer)
    if optimizer is None:
        raise TypeError("compile needs an optimizer, as a Keras object or by name")

    def train_iteration(x: Any, y: Any, sample_weight: Any = None) -> tuple[Any, tf.Tensor]:
        with tf.GradientTape() as tape:
            prediction = model(x, training=True)
            value = loss_of(y, prediction, sample_weight)
            scaled = optimizer.scale_loss(value)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
        return prediction, value

    return train_iteration


def built(model: Any, optimizer: Any, input_spec: Any) -> Any:
    """Makes the variables of model and optimizer, which a plan counts. Returns the optimizer."""
    if isinstance(model, keras_library.Model):
        _require_tensorflow()
        _require_one_replica(model)
    if not model.built:
        try:
            shapes = tf.nest.map_structure(lambda t: keras_library.KerasTensor(tuple(t.shape), dtype=t.dtype.name), input_spec)
            model(shapes, training=True)  # of tensors without data: nothing runs
        except Exception as error:
            raise ValueError(
                f"the model is not built and does not build itself of input_spec: {type(error).__name__}: {losses.first_line(error)}"
            ) from error
    optimizer = keras_library.optimizers.get(optimizer)
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    return optimizer


def plan_fit(model: Any, options: Options) -> Planned:
    """Makes `model.fit` run planned steps. The model's own `train_step` is planned, so that metrics, sample weights and
    custom steps work; its loop runs in Python, one call a step."""
    if not isinstance(model, keras_library.Model):
        raise TypeError(f"model must be a keras.Model, not {type(model).__name__}")
    _require_tensorflow()
    planned = Planned(lambda data: model.train_step(data), options, model.name)

    def one_execution(iterator: Iterator[Any]) -> Any:
        logs = planned(next(iterator))
        for _ in range(model.steps_per_execution - 1):
            try:
                data = next(iterator)
            except StopIteration:
                break
            logs = planned(data)
        return logs

    def make_train_function(force: bool = False) -> Any:
        if model.train_function is None or force:
            _require_plain(model)
            _count_batches_alike(model)
            planned.forget()  # a model that is compiled again has another step
            model.train_function = one_execution
        return model.train_function

    model.train_function = None  # one that fit made before would stay
    object.__setattr__(model, "make_train_function", make_train_function)
    object.__setattr__(model, "checkmate_planned", planned)
    return planned


def _count_batches_alike(model: Any) -> None:
    """For several outputs, Keras logs the mean of each loss. It traces `fit` for batches of any size, so batches are not weighted by their
    number of samples; with a known size, as here, they would be."""
    compiled = getattr(model, "_compile_loss", None)
    if compiled is None:
        return

    def alike() -> None:
        for metric in compiled.metrics:
            metric.update_state = functools.partial(_without_weight, metric.update_state)

    def build(y_true: Any, y_pred: Any) -> None:
        type(compiled).build(compiled, y_true, y_pred)
        alike()

    alike()
    compiled.build = build


def _without_weight(update: Callable[..., Any], values: Any, sample_weight: Any = None) -> Any:
    return update(values)


def keras_chooses_xla() -> bool:
    """Whether jit_compile may be True by default."""
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())


def _require_plain(model: Any) -> None:
    if model.optimizer is not None and model.built and not model.optimizer.built and type(model).train_step is keras_library.Model.train_step:
        model.optimizer.build(model.trainable_variables)  # a step of one's own may have another one, and leave Keras' default alone
    if model.run_eagerly:
        raise UnsupportedError("run_eagerly=True runs no graph, so there is nothing to plan")
    if model.jit_compile and not keras_chooses_xla():
        raise UnsupportedError("jit_compile=True: XLA orders operators as it likes and the budget would not hold; compile with jit_compile=False")
    if model.jit_compile:
        log.info("%s: planned steps run without XLA, which orders operators as it likes (jit_compile)", model.name)
    _require_one_replica(model)


def _require_tensorflow() -> None:
    if (backend := keras_library.config.backend()) != "tensorflow":
        raise UnsupportedError(f"Keras runs on {backend} here: start the program with KERAS_BACKEND=tensorflow in the environment")


def _require_one_replica(model: Any) -> None:
    strategy = model.distribute_strategy
    if strategy is not None and (strategy.num_replicas_in_sync > 1 or not isinstance(strategy, type(tf.distribute.get_strategy()))):
        raise UnsupportedError(f"a model made under a tf.distribute strategy ({type(strategy).__name__}) cannot be planned: make it without")
