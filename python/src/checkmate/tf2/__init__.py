# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras models that train within a memory budget.

    train_iteration = checkmate.tf2.compile(model, loss, optimizer, input_spec, label_spec, budget="4GiB")
    prediction, loss = train_iteration(images, labels)

`compile` has the signature of the original Checkmate, and enforces the budget; `keras` is for `fit`, `function` for
your own training steps. Operators run one after another, in the order of a schedule, with TensorFlow's own kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import CheckmateError, InfeasibleError, UnsupportedError, framework_missing, framework_too_old

try:
    import tensorflow as _tensorflow
except ImportError as _error:
    raise framework_missing("tf2", "TensorFlow", "2.16", "pip install tensorflow, or tensorflow-cpu", _error) from _error
if (_old := framework_too_old("tf2", "TensorFlow", "2.16", "pip install --upgrade tensorflow", _tensorflow.__version__)) is not None:
    raise _old

from ..planning.frontier import Frontier
from . import keras_steps, tradeoff
from .function import Planned, PlannedFunction
from .planner import Options, Plan, trace

__all__ = ["CheckmateError", "Frontier", "InfeasibleError", "Plan", "Planned", "UnsupportedError", "compile", "explain", "function", "keras", "plans"]

Model = TypeVar("Model")


def compile(model: Any, loss: Any, optimizer: Any, input_spec: Any, label_spec: Any, budget: int | float | str = "auto", *,
            loss_weights: Any = None, **options: Any) -> Planned:  # fmt: skip
    """Returns a function of a batch and its labels that takes a training step and returns `(prediction, loss)`. It takes sample
    weights as an optional third argument.

    model: a keras.Model. loss, optimizer: Keras objects or names; a dict or a list of losses for several outputs, `loss_weights` for each.
    The loss is what `fit` computes. A loss function of your own gets all outputs of a model with several. input_spec, label_spec: tensors or
    tf.TensorSpecs of a batch, or nests of them. The step is planned here; batches of another shape are planned when they first occur.

    budget: bytes, "4GiB", "60%" of the step's peak without rematerialization, "60% of activations" or "60%act" of what that peak has beyond
    the bytes that are in memory in any case, "auto" for what the machine has free, or "min" for the least that is found.
    It counts variables, the optimizer's too, arguments, values, gradients and what kernels allocate.

    fixed_bytes: other memory in use during the step.  costs: "measure" (every operator separately, cached) or "estimate".
    time_limit: seconds for the solver.  gap: relative gap at which the search stops.  threads, seed, strategy: as in `checkmate.solve`.
    cache: keep plans and costs on disk.  progress: called with lines of text while it plans.

    InfeasibleError when nothing fits, UnsupportedError for what cannot be planned, KeyboardInterrupt on Ctrl-C.
    """
    settings = _options(budget, options)
    for name, spec in (("input_spec", input_spec), ("label_spec", label_spec)):
        for leaf in _tensorflow.nest.flatten(spec):
            if (what := _no_batch(leaf)) is not None:
                raise TypeError(f"{name} must be tensors or tf.TensorSpecs of a batch, such as tf.TensorSpec((32, 10)), not {what}")
    built = keras_steps.built(model, optimizer, input_spec) if hasattr(model, "built") else optimizer
    planned = Planned(keras_steps.step_of(model, loss, built, loss_weights), settings, getattr(model, "name", "the step"))
    planned.prepare(input_spec, label_spec)
    return planned


def keras(model: Model, budget: int | float | str = "auto", **options: Any) -> Model:
    """The model itself, whose `fit` runs planned steps from then on: call it before or after `model.compile`. Evaluation, prediction
    and saving are as before. `plans(model)` says what was planned. Options as in `compile`."""
    keras_steps.plan_fit(model, _options(budget, options))
    return model


def function(step: Callable[..., Any], budget: int | float | str = "auto", **options: Any) -> Planned:
    """Your own training step, such as one with tf.GradientTape and an optimizer, planned as a whole. It is called with the same
    arguments: tensors, nests of them, and Python values, for each of which it is planned again. It may be a method: @checkmate.tf2.function.
    Options as in `compile`."""
    if not callable(step):
        raise TypeError(f"step must be a function, not {type(step).__name__}")
    return PlannedFunction(step, _options(budget, options), getattr(step, "__name__", "the step"))


def explain(
    step: Callable[..., Any],
    *args: Any,
    budgets: int | str = 8,
    budget: int | float | str | None = None,
    plot: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    show: Callable[[str], None] | None = print,
    **options: Any,
) -> Frontier:
    """The frontier of memory against overhead of a step, printed line by line as it is found: `step` is a function, the result of
    `compile` or `function`, or a model that was given to `keras`, whose step has one argument, the batch: `explain(model, (x, y))`. `args`: its
    arguments, tensors or specs. The step is traced, not run.

    `budgets` points from the peak without rematerialization down to the memory floor, or "near-min": the least that is found to be
    enough and up to twice it, which shows what one more megabyte saves there. `plot` names an SVG file to draw the frontier
    in, `report` an HTML file for the plan for `budget`; without one, for the least memory at a tenth more computation at most.
    Other options as in `compile`. KeyboardInterrupt on Ctrl-C.
    """
    settings = _options("100%", options)
    step = getattr(step, "checkmate_planned", step)
    if hasattr(step, "train_step"):
        raise TypeError("explain needs a training step: what compile or function gave, a model that was given to keras, or its train_step, with a "
                        "batch as the argument: explain(model.train_step, (x, y))")  # fmt: skip
    planned = step if isinstance(step, Planned) else function(step, "100%", **options)
    traced = trace(planned.concrete(*args), settings, planned.name)
    return tradeoff.explain(traced, settings, budgets=budgets, budget=budget, plot=plot, report=report, show=show)


def plans(compiled: Any) -> list[Plan]:
    """The plans so far of the result of `compile` or `function`, or of a model given to `keras`."""
    planned = compiled if isinstance(compiled, Planned) else getattr(compiled, "checkmate_planned", None)
    if planned is None:
        raise TypeError("plans needs what compile or function gave, or a model that was given to keras")
    return list(planned.plans)


def _no_batch(leaf: Any) -> str | None:
    """What stands where a tensor or its spec is asked for."""
    if type(leaf) is int or isinstance(leaf, _tensorflow.TensorShape):
        return "a shape"
    kind, batch = type(leaf).__name__, isinstance(leaf, _tensorflow.TensorSpec) or _tensorflow.is_tensor(leaf)
    # Keras' placeholders say that they were arrays, and fail when they are to be made one.
    return (
        f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
        if not batch and hasattr(leaf, "shape") and (kind == "KerasTensor" or not hasattr(leaf, "__array__"))
        else None
    )


def _options(budget: int | float | str, options: dict[str, Any]) -> Options:
    try:
        return Options(budget=budget, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        known = ", ".join(name for name in Options.__dataclass_fields__ if name != "budget")
        unknown = ", ".join(sorted(set(options) - set(Options.__dataclass_fields__)))
        if moving := sorted(set(options) & {"offload", "offload_memory", "offload_speed"}):
            raise UnsupportedError(
                f"{moving[0]}= is an option of checkmate.torch: with TensorFlow tensors are computed again, not moved. Leave it out"
            ) from None
        raise TypeError(f"unknown option {unknown}; there are {known}") from None
