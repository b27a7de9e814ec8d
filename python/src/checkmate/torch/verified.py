# SPDX-License-Identifier: Apache-2.0
"""When a compiled model's step is verified, and what becomes of the finding."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from . import asked, casts, copies, dropout, failures, gathered, strides
from . import settings as torchs
from .verify import Verification, Verifier

if TYPE_CHECKING:
    from .compiler import Backend

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
        failures.warn(f'verified: {made}. The plan computes what PyTorch\'s tracing does, as torch.compile(backend="aot_eager") would')
    else:
        log.info("verified: %s", made)


class _FellBackError(Exception):
    """The model runs as it is, since it cannot be planned."""


class FirstStep:
    """Verifies the first call that may be differentiated of what `compile` made."""

    def __init__(self, made: Backend, ours: Callable[..., Any], original: Callable[..., Any], guard: failures.Guard, *, whole: bool) -> None:
        self.made, self.guard = made, guard

        def run(*args: Any, **kwargs: Any) -> Any:
            found = ours(*args, **kwargs)
            if guard.fell_back:
                raise _FellBackError
            return found

        self.verifier: Verifier | None = Verifier(run, original, made.model, whole=whole, autocast_backward=made.options.autocast_backward)
        if whole:
            self.verifier.unplanned = _unplanned(made, original)

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


def first_run(made: Backend, module: fx.GraphModule, inputs: list[Any], plan: Callable[..., Any]) -> Callable[..., Any]:
    """A graph as planned, verified when it first runs. What Dynamo made of the model is not seen."""
    original = fx.GraphModule(module, asked.copied(module.graph))
    before, placeholders = len(made.plans), [node.name for node in module.graph.nodes if node.op == "placeholder"]
    run = plan(module, inputs)
    verifier: Verifier | None = Verifier(run, original, None, whole=True, autocast_backward=made.options.autocast_backward)
    if len(made.plans) == before:
        return run  # nothing to differentiate
    assert verifier is not None
    verifier.begins_with_dynamo, verifier.unplanned = False, _unplanned(made, original)
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


def _unplanned(made: Backend, original: Callable[..., Any]) -> Callable[..., Any]:
    """The model through our tracing, as planned but for the plan: nothing is computed again or written over."""
    from . import outputs
    from .compiler import Backend

    class Unplanned(Backend):
        def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            from torch._functorch.partitioners import default_partition

            with self.at_upper_ends(module):
                casts.merge(module, num_fwd_outputs, self._parameters)
                copies.apply(module)
                dropout.rewrite(module)
                gathered.apply(module)
            halves: tuple[fx.GraphModule, fx.GraphModule] = default_partition(module, _inputs, num_fwd_outputs=num_fwd_outputs)
            return halves

    def run(*args: Any, **kwargs: Any) -> Any:
        backend = Unplanned(made.options, None, made.loss, made.model)
        return torch.compile(outputs.traced(original, made.loss), backend=backend, fullgraph=True, dynamic=False)(*args, **kwargs)

    return run
