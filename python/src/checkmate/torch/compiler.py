# SPDX-License-Identifier: Apache-2.0
"""torch.compile backends that train within a memory budget."""

from __future__ import annotations

import functools
import logging
import numbers
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypedDict, TypeVar

import torch
from torch import fx
from typing_extensions import Unpack  # which PyTorch needs itself

from .. import solver
from . import breaks, failures, policies, ranks
from . import budget as budgets
from . import settings as torchs
from .optimizers import has_state, optimizer_bytes
from .planner import Options, Plan, plan
from .program import compile_boxed

log = logging.getLogger("checkmate.torch")

Model = TypeVar("Model", bound=Callable[..., Any])


class Settings(TypedDict, total=False):
    """Options of `compile`, `backend` and `explain`; `compile` says what they mean."""

    costs: Literal["estimate", "measure"]
    compiler: Literal["eager", "inductor"]
    random: Literal["replay", "keep"]
    checkpoint_policy: policies.Binding
    autocast_backward: bool
    fixed_bytes: int
    time_limit: float | None
    gap: float
    threads: int
    seed: int
    strategy: str
    cache: bool
    progress: Callable[[str], None] | None


def checked(budget: int | float | str, settings: Settings, *, model: object = None, fixed_bytes: int = 0, held_now_bytes: int = 0) -> Options:
    """The options, `fixed_bytes` added to those among the settings; TypeError or ValueError for what is none. Graphs get
    the name of the model."""
    given: dict[str, Any] = dict(settings)
    for name in given:
        if name not in Settings.__annotations__:
            raise TypeError(f'there is no option "{name}"; there are {", ".join(Settings.__annotations__)}')
    for name in ("fixed_bytes", "time_limit", "gap", "threads", "seed"):
        value = given.get(name, 0)
        kind = numbers.Real if name in ("time_limit", "gap") else numbers.Integral
        if not (value is None and name == "time_limit") and (not isinstance(value, kind) or float(value) < 0):
            raise ValueError(f"{name} must be {'a number' if kind is numbers.Real else 'an integer'}, at least 0, not {value!r}")
    if given.get("strategy", "auto") not in solver.strategies():
        raise ValueError(f'no strategy is called "{given["strategy"]}"; there are {", ".join(solver.strategies())}')
    if given.get("progress") is not None and not callable(given["progress"]):
        raise TypeError(f"progress must be a function of a line of text, such as print, not {given['progress']!r}")
    title = "torch" if model is None else str(getattr(model, "__name__", type(model).__name__))
    made = Options(**given | {"budget": budget, "fixed_bytes": fixed_bytes + given.get("fixed_bytes", 0), "held_now_bytes": held_now_bytes,
                              "title": title})  # fmt: skip
    made.check()
    return made


#: The backend of each compiled model. A compiled module hands attributes that are set on it on to the model itself.
_BACKENDS: weakref.WeakKeyDictionary[Any, Backend] = weakref.WeakKeyDictionary()


class Backend:
    """A backend for torch.compile; `plans` lists what it has planned, one entry a compiled graph, newest last.

    `graphs`: the graphs of one model, to share the budget; without, each graph is planned for all of it."""

    def __init__(self, options: Options, graphs: breaks.Graphs | None = None) -> None:
        options.check()
        self.options, self.graphs = options, graphs
        self.plans: list[Plan] = []
        self.frames: set[object] = set()
        self._around = breaks.Surroundings()
        self._inputs: list[Any] = []
        self._held_bytes = 0
        self.__name__ = "checkmate"

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_options: Any) -> Callable[..., Any]:
        failures.require_static(module, inputs)
        if self.graphs is None:
            self._note_frame()
            return self._compile(module, inputs)
        graphs = self.graphs
        if self.options.budget == "auto":  # once, while nothing of the step is there but its inputs
            device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), torch.device("cpu"))
            present = graphs.present_bytes() + self.options.held_now_bytes
            self.options = replace(self.options, budget=budgets.in_bytes("auto", baseline_bytes=0, device=device, held_bytes=present))
        self._around, self._inputs, self._held_bytes = graphs.around(inputs), inputs, 0
        try:
            made = self._compile(module, inputs)
        finally:
            self._inputs = []
        held = self._held_bytes

        def run(*args: Any) -> Any:
            outputs = made(*args)
            graphs.ran(held)
            return outputs

        return run

    def _note_frame(self) -> None:
        """Parts of one function are frames of their own; other shapes of a part are compilations of the same frame."""
        from torch._guards import CompileContext

        self.frames.add(getattr(CompileContext.current_compile_id(), "frame_id", None))
        if len(self.frames) == 2:
            failures.warn(
                "a second graph is planned for the whole budget by itself, so that the step may need more. If this is a "
                'graph break, checkmate.torch.compile(model, budget, graph_breaks="split") shares the budget'
            )

    def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        """AOTAutograd's partition function: the forward and the backward graph of the schedule."""
        made, halves = plan(module, num_fwd_outputs, self.options, f"graph {len(self.plans)}", self._around)
        self.plans.append(made)
        log.info("graph %d: %s", len(self.plans) - 1, made)
        if self.graphs is not None:
            self._held_bytes = self.graphs.holds(self._inputs, halves.forward.graph, num_fwd_outputs)
        return halves.forward, halves.backward

    def _compile(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        with torchs.during_tracing(autocast_backward=self.options.autocast_backward):
            return self._compile_traced(module, inputs)

    def _compile_traced(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if self.options.compiler == "inductor":
            from . import inductor

            return inductor.compile_graph(module, inputs, self.partition)
        from torch._dynamo.backends.common import aot_autograd

        def boxed(graph: fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
            return compile_boxed(graph)

        made: Callable[..., Any] = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed, partition_fn=self.partition)(
            module, inputs
        )
        return made


def backend(budget: int | float | str, **options: Unpack[Settings]) -> Backend:
    """A backend for `torch.compile(model, backend=checkmate.torch.backend("4GiB"), dynamic=False)`; options as in `compile`."""
    return Backend(checked(budget, options))


def compile(
    model: Model,
    budget: int | float | str,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    graph_breaks: Literal["error", "split"] = "error",
    fallback: Literal["error", "eager"] = "error",
    **options: Unpack[Settings],
) -> Model:
    """The model, compiled so that a training step's peak stays within `budget`.

    budget: bytes, "4GiB", "60%" of the peak without rematerialization, or "auto" for what the device has free.
    It counts parameters, buffers, inputs, activations, gradients, `fixed_bytes` and the optimizer's state.

    optimizer: counts its state, as it is or as it will be after the first step.
    accumulate: gradients of earlier steps are alive while this one runs; counts them.
    graph_breaks: "error", or "split" to plan the model's parts so that they share the budget; it must then be in bytes.
    fallback: what becomes of a model that cannot be traced: an UnsupportedError, or with "eager" a warning and no budget.
    costs: "estimate" (FLOPs and bytes) or "measure" (every call on the device in use, cached).
    compiler: "eager" runs PyTorch's own kernels, results equal to eager mode's; "inductor" generates code and may
        reorder, so that its peak is no longer the planned one.
    random: "replay" computes random calls again with the generator's state of the first time; "keep" holds their outputs.
    checkpoint_policy: what policies of torch.utils.checkpoint mean. "must": those named MUST_SAVE and MUST_RECOMPUTE bind,
        the planner decides on the others; "respect": PREFER_... bind too, and so do plain checkpoint regions;
        "override": none does.
    autocast_backward: whether `backward()`, too, is called under torch.autocast; by default it is called after it, as PyTorch advises.
    fixed_bytes: what else lives beside the step.  time_limit: seconds for the solver, by default a few, more for large
        graphs.  gap: good enough, relative.
    threads, seed, strategy: as in `checkmate.solve`.  cache: keep plans and costs on disk.
    progress: called with a line of text now and then while it plans, such as `print`.

    A DistributedDataParallel model has its module compiled in place; its buckets are counted, and the processes agree on
    one plan for each graph.

    Return the loss from the model: what is computed outside is not planned. InfeasibleError is raised in the first call
    when nothing fits, KeyboardInterrupt on Ctrl-C. `checkmate.torch.plans(compiled)` tells what was planned.
    """
    require_callable(model)
    if graph_breaks not in ("error", "split"):
        raise ValueError(f'graph_breaks must be "error" or "split", not "{graph_breaks}"')
    if fallback not in ("error", "eager"):
        raise ValueError(f'fallback must be "error" or "eager", not "{fallback}"')
    # What the wrapper itself does cannot be traced; its module is compiled in place.
    wrapped = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else None
    graphs = _graphs(model if wrapped is None else wrapped, budget) if graph_breaks == "split" else None
    fixed, now = _fixed_bytes(model, optimizer, accumulate)
    if wrapped is not None:
        fixed += ranks.bucket_bytes(wrapped)
        now += ranks.bucket_bytes(wrapped)
    made = Backend(checked(budget, options, model=model if wrapped is None else wrapped, fixed_bytes=fixed, held_now_bytes=now), graphs)
    original: Any = model if wrapped is None else wrapped._call_impl
    compiled: Any = torch.compile(original, backend=made, fullgraph=graphs is None, dynamic=False)
    inner = compiled.forward if isinstance(compiled, torch.nn.Module) else compiled
    guard = failures.Guard(inner, original, fallback=fallback == "eager", graphs=graphs)

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torchs.during_call():
            outputs = guard(*args, **kwargs)
        if not guard.fell_back:
            torchs.watch_backward(outputs, autocast_backward=made.options.autocast_backward)
        return outputs

    if wrapped is not None:
        wrapped._compiled_call_impl = call  # type: ignore[assignment]
        compiled = model  # the wrapper calls what was compiled in its place
    elif isinstance(compiled, torch.nn.Module):
        compiled.forward = call
    else:
        compiled = call
    _BACKENDS[compiled] = made
    return compiled


def require_callable(model: object) -> None:
    """TypeError for what is neither a module nor a function."""
    if isinstance(model, type):
        raise TypeError(f"the model must be a module, such as {model.__name__}(...), not the class {model.__name__}")
    if not callable(model):
        raise TypeError(f"the model must be a module or a function, not {type(model).__name__}")


def _graphs(model: object, limit: int | float | str) -> breaks.Graphs:
    if not isinstance(model, torch.nn.Module):
        raise ValueError('graph_breaks="split" needs a torch.nn.Module, whose parameters all of its graphs count')
    if budgets.is_share(limit):
        raise ValueError(f'"{limit}" is of the peak of one graph; with graph_breaks="split" give the budget in bytes')
    return breaks.Graphs(model)


def _fixed_bytes(model: object, optimizer: torch.optim.Optimizer | None, accumulate: bool) -> tuple[int, int]:
    """What lives beside the step's own tensors, and how much of it is there already."""
    fixed = now = 0
    if optimizer is not None:
        fixed = optimizer_bytes(optimizer)
        now = fixed if has_state(optimizer) else 0
    if accumulate:
        parameters = [p for p in model.parameters() if p.requires_grad] if isinstance(model, torch.nn.Module) else []
        fixed += sum(p.numel() * p.element_size() for p in parameters)
        now += sum(p.numel() * p.element_size() for p in parameters if p.grad is not None)
    return fixed, now


def plans(compiled: Any) -> list[Plan]:
    """The plans behind a compiled model, one a graph; empty before its first call."""
    try:
        made = _BACKENDS.get(compiled)
    except TypeError:  # what cannot be referred to weakly
        made = None
    if made is None:
        raise ValueError("this is not what checkmate.torch.compile returned; a copy of it is not either: copy the model and compile the copy")
    return list(made.plans)
