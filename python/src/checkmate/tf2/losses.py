# SPDX-License-Identifier: Apache-2.0
"""The loss of a step, as Keras computes it in `fit`: masks, weights, labels of another rank, several outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras as keras_library
import tensorflow as tf

LossOf = Callable[[Any, Any, Any], tf.Tensor]


def of(model: Any, loss: Any, weights: Any = None) -> LossOf:
    """The loss as a function of labels, predictions and sample weights (or None), including losses of the model's layers. `weights`: of each
    of several losses, as in `model.compile`. A custom function gets the model's outputs; Keras does not support one for several outputs."""
    named = [keras_library.losses.get(one) for one in tf.nest.flatten(loss)]
    if not any(one is not None for one in named):
        raise TypeError("compile needs a loss, as a Keras object or by name, or a dict or a list of them")
    compiled = _compiled(model, loss, weights)

    def value(y: Any, prediction: Any, sample_weight: Any) -> tf.Tensor:
        if tf.nest.is_nested(prediction) and _is_own(loss):
            if sample_weight is not None or weights is not None:
                raise _as_it_is(ValueError("weights need a loss for each output, not a function of all of them"))
            found = tf.reduce_mean(loss(y, prediction))
            return tf.add_n([found, *(tf.cast(tf.reduce_sum(more), found.dtype) for more in model.losses)])
        _require_names(loss, prediction, getattr(model, "output_names", None))
        try:
            return compiled.compute_loss(y=y, y_pred=prediction, sample_weight=sample_weight)
        except (KeyError, ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            shapes = ", ".join(f"{what} {_shapes(of_what)}" for what, of_what in (("labels", y), ("outputs", prediction)))
            raise _as_it_is(ValueError(f"the loss does not suit {shapes}: {type(error).__name__}: {first_line(error)}")) from error

    return value


def _compiled(model: Any, loss: Any, weights: Any) -> Any:
    """A model without layers that computes the loss of this one, whose compile() may never have been called."""

    class Compiled(keras_library.Model):  # type: ignore[misc]
        @property
        def losses(self) -> Any:
            return model.losses

    if hasattr(model, "output_names"):
        Compiled.output_names = model.output_names
    compiled = Compiled()
    compiled.compile(optimizer=None, loss=loss, loss_weights=weights, jit_compile=False)
    return compiled


def _is_own(loss: Any) -> bool:
    """Whether it is a custom function, not one of Keras'."""
    return callable(loss) and not isinstance(loss, (keras_library.losses.Loss, type)) and not getattr(loss, "__module__", "").startswith("keras.")


def _require_names(loss: Any, prediction: Any, names: Any) -> None:
    given = len(tf.nest.flatten(prediction))
    if isinstance(loss, (list, tuple)) and len(loss) != given:
        raise _as_it_is(ValueError(f"{len(loss)} losses in a list need as many outputs; the model gives {given}"))
    if isinstance(loss, dict):
        known = list(prediction) if isinstance(prediction, dict) else list(names or [])
        have = ", ".join(map(str, known)) or "without names"
        if missing := sorted(set(loss) - set(known)):
            raise _as_it_is(ValueError(f"there are losses for {', '.join(missing)}; the model's outputs are {have}"))


def _shapes(value: Any) -> str:
    return ", ".join(str(tuple(t.shape)) for t in tf.nest.flatten(value) if hasattr(t, "shape")) or "none"


def _as_it_is(error: ValueError) -> ValueError:
    """An error message that AutoGraph, through which it passes, does not expand with all its calls."""
    error.ag_pass_through = True  # type: ignore[attr-defined]
    return error


def first_line(error: Exception) -> str:
    """The text without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", next(iter(str(error).splitlines()), ""))
