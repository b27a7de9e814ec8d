# SPDX-License-Identifier: Apache-2.0
"""torch.compile backends that train within a memory budget."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..errors import CheckmateError
from .planner import Options, Plan, plan
from .program import compile_boxed

log = logging.getLogger("checkmate.torch")

_OLDEST = (2, 6)


def require_torch() -> None:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _OLDEST:
        raise ImportError(f"checkmate.torch needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or newer; this is {torch.__version__}")


#: The backend of each compiled model. A compiled module hands attributes that are set on it on to the model itself.
_BACKENDS: weakref.WeakKeyDictionary[Any, Backend] = weakref.WeakKeyDictionary()


class Backend:
    """A backend for torch.compile; `plans` lists what it has planned, one entry a compiled graph, newest last."""

    def __init__(self, options: Options) -> None:
        if options.compiler not in ("eager", "inductor"):
            raise ValueError(f'compiler must be "eager" or "inductor", not "{options.compiler}"')
        self.options = options
        self.plans: list[Plan] = []
        self.__name__ = "checkmate"

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_options: Any) -> Callable[..., Any]:
        for value in inputs:
            if isinstance(value, (torch.SymInt, torch.SymFloat)):
                raise CheckmateError("shapes must be static: call torch.compile with dynamic=False")
        return self._inductor(module, inputs) if self.options.compiler == "inductor" else self._eager(module, inputs)

    def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        """AOTAutograd's partition function: the forward and the backward graph of the schedule."""
        made, halves = plan(module, num_fwd_outputs, self.options, f"torch-{len(self.plans)}")
        self.plans.append(made)
        log.info("graph %d: %s", len(self.plans), made)
        if len(self.plans) > 1 and self.plans[-2].graph.to_json() != made.graph.to_json():
            log.info("several graphs were planned, each for the whole budget: a new shape, or a graph break")
        return halves.forward, halves.backward

    def _eager(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd

        def boxed(graph: fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
            return compile_boxed(graph)

        made: Callable[..., Any] = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed, partition_fn=self.partition)(
            module, inputs
        )
        return made

    def _inductor(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        from . import inductor

        return inductor.compile_graph(module, inputs, self.partition)


def backend(budget: int | float | str, **options: Any) -> Backend:
    """A backend for `torch.compile(model, backend=checkmate.torch.backend("4GiB"), dynamic=False)`; options as in `compile`."""
    require_torch()
    return Backend(Options(budget=budget, **options))


def compile(
    model: torch.nn.Module | Callable[..., Any],
    budget: int | float | str,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    fullgraph: bool = True,
    **options: Any,
) -> Any:
    """The model, compiled so that a training step's peak stays within `budget`.

    budget: bytes, "4GiB", "60%" of the peak without rematerialization, or "auto" for what the device has free.
    It counts parameters, buffers, inputs, activations, gradients, `fixed_bytes` and the optimizer's state.

    optimizer: counts its state, as it is or as it will be after the first step.
    accumulate: gradients of earlier steps are alive while this one runs; counts them.
    fullgraph: a graph break is an error; with False each graph is planned on its own, for the whole budget.
    costs: "estimate" (FLOPs and bytes) or "measure" (every call on the device in use, cached).
    compiler: "eager" runs PyTorch's own kernels, results equal to eager mode's; "inductor" generates code and may
        reorder, so that its peak is no longer the planned one.
    random: "replay" computes random calls again with the generator's state of the first time; "keep" holds their outputs.
    checkpoint_policy: what policies of torch.utils.checkpoint mean. "must": those named MUST_SAVE and MUST_RECOMPUTE bind,
        the planner decides on the others; "respect": PREFER_... bind too, and so do plain checkpoint regions;
        "override": none does.
    fixed_bytes: what else lives beside the step.  time_limit: seconds for the solver, by default a few, more for large
        graphs.  gap: good enough, relative.
    threads, seed, strategy: as in `checkmate.solve`.  cache: keep plans and costs on disk.

    Return the loss from the model: what is computed outside is not planned. InfeasibleError is raised in the first call
    when nothing fits. `checkmate.torch.plans(compiled)` tells what was planned.
    """
    require_torch()
    fixed = int(options.pop("fixed_bytes", 0))
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    if optimizer is not None:
        fixed += optimizer_bytes(optimizer)
    if accumulate:
        fixed += sum(p.numel() * p.element_size() for p in parameters if p.requires_grad)
    made = Backend(Options(budget=budget, fixed_bytes=fixed, **options))
    compiled: Any = torch.compile(model, backend=made, fullgraph=fullgraph, dynamic=False)
    if isinstance(compiled, torch.nn.Module):
        compiled.forward = _unwrapped(compiled.forward)
    else:
        compiled = _unwrapped(compiled)
    _BACKENDS[compiled] = made
    return compiled


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Raises our own errors as they are, not inside of the compiler's."""
    from torch._dynamo.exc import BackendCompilerFailed

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BackendCompilerFailed as error:
            inner = getattr(error, "inner_exception", None)
            if isinstance(inner, (CheckmateError, ValueError)):
                raise inner from None
            raise

    return call


def plans(compiled: Any) -> list[Plan]:
    """The plans behind a compiled model, one a graph; empty before its first call."""
    made = _BACKENDS.get(compiled)
    if made is None:
        raise ValueError("this model was not compiled by checkmate.torch.compile")
    return list(made.plans)


#: Tensors of a parameter's size that an optimizer keeps beside it.
_STATES = {"SGD": 0, "Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adagrad": 1, "RMSprop": 1, "Adadelta": 2, "Lion": 1}


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the optimizer's state: measured when it has any, else by its kind."""
    from .meter import tensor_bytes

    if optimizer.state:
        return tensor_bytes(list(optimizer.state.values()))
    kind = type(optimizer).__name__
    if kind not in _STATES:
        raise ValueError(f"the state of {kind} is not known before its first step: take one, or give fixed_bytes")
    total = 0
    for group in optimizer.param_groups:
        copies = _STATES[kind] + (1 if kind == "SGD" and group.get("momentum", 0) else 0) + (1 if group.get("amsgrad") else 0)
        total += copies * sum(p.numel() * p.element_size() for p in group["params"] if p.requires_grad)
    return total
