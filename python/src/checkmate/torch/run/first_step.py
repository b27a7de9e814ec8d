# SPDX-License-Identifier: Apache-2.0
"""When a compiled model's step is verified, and what becomes of the finding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import fx

from .. import failures, user_code
from ..options import Options
from ..plan.result import Plan
from ..plan.verify import Verification, Verifier
from ..rewrite import strides
from ..trace import settings as torchs
from . import is_compiling

log = logging.getLogger("checkmate.torch")


def check(verify: object, compiler: str) -> None:
    """TypeError or ValueError for what cannot be asked for."""
    if not isinstance(verify, bool):
        raise TypeError(f"verify must be True or False, not {verify!r}")
    if verify and compiler != "eager":
        raise ValueError('verify=True needs compiler="eager": generated code is not bit for bit what PyTorch\'s kernels compute')


def _tell(made: Verification) -> None:
    tracing = made.by("Dynamo") + made.by("AOTAutograd")
    if tracing or not made.deterministic:
        user_code.warn(f'verified: {made}. The plan computes what PyTorch\'s tracing does, as torch.compile(backend="aot_eager") would')
    else:
        log.info("verified: %s", made)


class Made(Protocol):
    """What `compile` or `backend` made of a model."""

    options: Options
    model: object
    plans: list[Plan]

    def unplanned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The model through the tracing that plans have, without one."""


class _FellBackError(Exception):
    """The model runs as it is, since it cannot be planned."""


class FirstStep:
    """Verifies the first call that may be differentiated of what `compile` made."""

    def __init__(self, made: Made, ours: Callable[..., Any], original: Callable[..., Any], guard: failures.Guard, *, whole: bool) -> None:
        self.made, self.guard = made, guard

        def run(*args: Any, **kwargs: Any) -> Any:
            found = ours(*args, **kwargs)
            if guard.fell_back:
                raise _FellBackError
            return found

        self.verifier: Verifier | None = Verifier(run, original, made.model, whole=whole, autocast_backward=made.options.autocast_backward)
        if whole:
            self.verifier.unplanned = made.unplanned(original)

    def __call__(self, args: Any, kwargs: Any) -> None:
        if self.verifier is None or not torch.is_grad_enabled():
            return
        verifier, before = self.verifier, len(self.made.plans)
        with (
            torchs.during_call(static=self.made.options.dynamic is not True),
            torchs.during_tracing(autocast_backward=self.made.options.autocast_backward),
            strides.as_kernels_have_them(),  # else PyTorch's own backend fails where the plan does not
        ):
            try:
                found = verifier(args, kwargs)
            except _FellBackError:
                self.verifier = None  # there is no plan
                return
        self.verifier = None
        self.made.plans[before:] = [replace(plan, verification=found) for plan in self.made.plans[before:]]
        _tell(found)


def first_run(made: Made, module: fx.GraphModule, inputs: list[Any], plan: Callable[..., Any]) -> Callable[..., Any]:
    """A graph as planned, verified when it first runs. What Dynamo made of the model is not seen."""
    original = fx.GraphModule(module, is_compiling.copied(module.graph))
    before, placeholders = len(made.plans), [node.name for node in module.graph.nodes if node.op == "placeholder"]
    run = plan(module, inputs)
    verifier: Verifier | None = Verifier(run, original, None, whole=True, autocast_backward=made.options.autocast_backward)
    if len(made.plans) == before:
        return run  # nothing to differentiate
    assert verifier is not None
    verifier.begins_with_dynamo, verifier.unplanned = False, made.unplanned(original)
    verifier.names = lambda args: [name for name, value in zip(placeholders, args, strict=True) if isinstance(value, torch.Tensor)]

    def call(*args: Any) -> Any:
        nonlocal verifier
        if verifier is not None and torch.is_grad_enabled():
            with (
                torchs.during_call(static=made.options.dynamic is not True),
                torchs.during_tracing(autocast_backward=made.options.autocast_backward),
                strides.as_kernels_have_them(),
            ):
                found = verifier(args, {})
            verifier = None
            made.plans[before] = replace(made.plans[before], verification=found)
            _tell(found)
        return run(*args)

    return call
