# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own settings while a model is called or traced; the caller's are back afterwards."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..user_code import warn

#: How the methods that log are called, those that libraries add to Logger, such as `warning_once`, included.
_LOGS = ("debug", "info", "warn", "error", "exception", "critical", "fatal", "log", "isEnabledFor")


@contextlib.contextmanager
def during_call(shapes: int = 0, *, static: bool = True) -> Iterator[None]:
    """For one call of a compiled model. PyTorch's limit of shapes is at least `shapes`. Calls that log or warn are left out of what
    is traced, so that they end no graph, recurrent layers are traced, and graphs of distributed models are not cut at the borders
    of their gradients' buckets. Sizes are constants if `static`, as `torch.compile(dynamic=False)` has it, which sets that anew in
    every call; dynamic sizes that happen to be equal are not taken for one. The code of a graph's call does not time itself for
    PyTorch's profiler, which takes two more calls in each step. Gradients that a forward pass takes, as of an energy by positions, are
    traced with it. Some microseconds."""
    config: Any = torch._dynamo.config  # its own `patch` makes a class for every call
    wanted: dict[str, Any] = {"optimize_ddp": False, "allow_rnn": True, "record_runtime_overhead": False, "trace_autograd_ops": True,
                              "use_numpy_random_stream": True}  # fmt: skip  # else numpy's numbers come from PyTorch's generator
    if static:
        wanted |= {"automatic_dynamic_shapes": False, "assume_static_by_default": True}
    for limit in ("recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit", "accumulated_recompile_limit",
                  "accumulated_cache_size_limit"):  # fmt: skip
        wanted[limit] = max(shapes, getattr(config, limit, 0))
    name = "ignore_logging_functions" if hasattr(config, "ignore_logging_functions") else "ignore_logger_methods"  # before PyTorch 2.9
    # Libraries add methods to loggers when they are imported.
    known = tuple(id(value) for owner in (logging.Logger, logging.LoggerAdapter) for value in vars(owner).values())
    wanted[name] = _log_functions(known, len(logging.Logger.__subclasses__())) | getattr(config, name)
    before = {key: getattr(config, key) for key in wanted if hasattr(config, key)}
    sizes: Any = torch.fx.experimental._config
    duck = sizes.use_duck_shape
    try:
        sizes.use_duck_shape = False
        for key in before:
            setattr(config, key, wanted[key])
        yield
    finally:
        sizes.use_duck_shape = duck
        for key, value in before.items():
            setattr(config, key, value)


def only_while_compiling(run: Callable[..., Any], shapes: int = 0, *, static: bool = True,
                         around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext) -> bool:  # fmt: skip
    """Whether what torch.compile made of a function could be told to have the settings of `during_call` for as long as it
    compiles, and only then. `around`: what else is around that."""
    code, closure = getattr(run, "__code__", None), getattr(run, "__closure__", None) or ()
    cells = dict(zip(getattr(code, "co_freevars", ()), closure, strict=True)) if code is not None else {}
    if "callback" not in cells or not callable(cells["callback"].cell_contents):
        return False
    inner = cells["callback"].cell_contents

    def callback(*args: Any, **kwargs: Any) -> Any:
        with during_call(shapes, static=static), around():
            return inner(*args, **kwargs)

    vars(callback).update(vars(inner))  # among them what the compiled code is kept by
    cells["callback"].cell_contents = callback
    return True


@functools.lru_cache(1)
def _log_functions(*_known: object) -> frozenset[Callable[..., Any]]:
    owners: list[Any] = [logging, logging.Logger, logging.LoggerAdapter]
    for owner in owners:
        owners.extend(owner.__subclasses__() if isinstance(owner, type) else ())
    found = {value for owner in owners for name, value in vars(owner).items() if name.startswith(_LOGS) and callable(value)}
    return frozenset(found | {warnings.warn, warnings.warn_explicit})


def during_tracing(*, autocast_backward: bool) -> contextlib.AbstractContextManager[Any]:
    """While the joint graph is made: whether its backward pass is under the autocast of the forward pass. In eager mode it is
    not, as a rule, since `backward()` is called when that is over. And gradients of outputs are taken to come in the layout that the
    outputs have: PyTorch 2.7 and 2.8 can do so, but copy them into another unless told."""
    config = torch._functorch.config
    wanted: dict[str, object] = {}
    if hasattr(config, "guess_tangent_strides_as_outputs"):
        wanted["guess_tangent_strides_as_outputs"] = True
    if hasattr(config, "backward_pass_autocast"):
        wanted["backward_pass_autocast"] = "same_as_forward" if autocast_backward else "off"
    elif torch._C._is_any_autocast_enabled() and not autocast_backward:
        warn("PyTorch before 2.9 traces the backward pass under autocast too, so that gradients may differ from eager mode's in the last bits")
    return config.patch(wanted) if wanted else contextlib.nullcontext()


def watch_backward(outputs: object, *, autocast_backward: bool) -> None:
    """After a call under autocast: a warning if the backward pass is not as it was traced, under autocast or not."""
    if not torch._C._is_any_autocast_enabled():
        return

    def check(_gradients: object) -> None:
        if torch._C._is_any_autocast_enabled() != autocast_backward:
            warn(f"backward() is called {'after' if autocast_backward else 'under'} torch.autocast, but was planned with autocast_backward="
                 f"{autocast_backward}: gradients may differ from eager mode's in the last bits. Compile with autocast_backward="
                 f"{not autocast_backward}")  # fmt: skip

    for value in tree_leaves(outputs):
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            value.grad_fn.register_prehook(check)
