# SPDX-License-Identifier: Apache-2.0
"""torch.compile backends that train within a memory budget."""

from __future__ import annotations

import contextlib
import functools
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch
from torch import fx
from typing_extensions import Unpack  # which PyTorch needs itself

from ..errors import InfeasibleError, UnsupportedError
from ..planning import budget as budgets
from . import failures, user_code
from .distributed import exchange, fsdp, ranks, replicas, shards
from .fx import devices, symbols
from .fx.program import compile_boxed
from .memory import pipeline, ranges
from .memory.optimizers import has_state, optimizer_bytes
from .offload.weights import Weights
from .options import Options, Settings, checked
from .plan.planner import plan
from .plan.result import Plan
from .rewrite import casts, copies, dropout, kernels, recurrent, split_gradients, strides
from .run import first_step, is_compiling, reached, runtime, uncounted
from .trace import branches, outputs, phases, subgraphs
from .trace import settings as torchs

log = logging.getLogger("checkmate.torch")

Model = TypeVar("Model", bound=Callable[..., Any])


#: The backend of each compiled model. A compiled module hands attributes that are set on it on to the model itself.
_BACKENDS: weakref.WeakKeyDictionary[Any, Backend] = weakref.WeakKeyDictionary()


class Planned(BaseException):
    """Ends a call that was only to plan, before anything runs."""


class Backend:
    """A backend for torch.compile; `plans` lists what it has planned, one entry a compiled graph, newest last.

    `graphs`: the graphs of one model, to share the budget; without, each graph is planned for all of it.
    `loss`: which outputs are differentiated; "all" where graphs need not be whole models.
    `model`: what is compiled; what it holds is counted, whether the graph takes it or not.
    `accumulate`: counts gradients of earlier steps, of the parameters that a graph has.
    `fallback`: graphs that cannot be planned run as they are.  `verify`: the first run of each graph is verified."""

    def __init__(self, options: Options, graphs: subgraphs.Graphs | None = None, loss: outputs.Loss = "all", model: object = None, *,
                 accumulate: bool = False, fallback: bool = False, verify: bool = False) -> None:  # fmt: skip
        options.check()
        self.options, self.graphs, self.loss, self.model = options, graphs, loss, model
        self.accumulate, self.fallback, self.verify = accumulate, fallback, verify
        self.arguments: object = None  # of the model's call under way
        self.only_plan = False  # the call under way: it ends with `Planned`
        self.forgives = fallback  # the graphs that cannot be planned, or else the caller does
        self.gradients_counted = False  # among the options' fixed bytes, those of all parameters
        self.plans: list[Plan] = []
        self.phases = phases.Phases()  # of the compilation under way, or of the last one
        self.replicas = replicas.Replicas()
        self.frames: set[object] = set()
        self._around = subgraphs.Surroundings()
        self._detached: list[outputs.Detached] = []
        self._held_bytes = 0
        self._accumulated, self._grown = (0, 0), 0
        self._parameters: set[int] = set()
        self._frozen: dict[int, str] = {}  # inputs of the graph under way that lie in the second memory, and their names
        self._sizes: list[ranges.Size] = []
        self._within: ranges.Ranges | None = None
        self._stage: pipeline.Stage | None = None
        self.warned_alone = False
        self.calls: uncounted.Calls | None = None
        self.in_eager_mode: is_compiling.FirstStep | None = None
        self.optimizer: tuple[Callable[[], torch.optim.Optimizer | None], int] | None = None  # whose state is counted, and its bytes then
        self.__name__ = "checkmate"

    def __call__(self, module: fx.GraphModule, inputs: list[Any], **_options: Any) -> Callable[..., Any]:
        try:
            made = first_step.first_run(self, module, inputs, self._planned) if self.verify else self._planned(module, inputs)
            return self._unless_only_planned(made) if self.only_plan and self.graphs is None else made
        except Exception as error:
            failure = failures.in_backend(error)
            if not self.fallback or failure is None:
                raise
            user_code.warn(f"a graph runs without a budget: {failure}")
            return module.forward

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Around a compilation by PyTorch, which calls this backend in the middle of it."""
        self.phases = phases.Phases()
        self.options.say("tracing the model: Dynamo")
        with self.phases.counted(phases.DYNAMO):
            yield
        self.options.say(f"ready after {self.phases}")

    def _unless_only_planned(self, made: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if self.only_plan:
                raise Planned
            return made(*args)

        return run

    def _planned(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        failures.require_no_frozen_draws(module)
        if self.in_eager_mode is not None:
            self.in_eager_mode.traced(module, whole=self.graphs is None)
        self._sizes, self._within = failures.dynamic_sizes(module, inputs, self.model, self.options, split=self.graphs is not None), None
        parameters = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.nn.Parameter)}
        self._parameters = set(parameters)
        self._grown = self._grown_bytes() if self.plans else 0
        self._accumulated = _gradient_bytes(parameters.values() if self.accumulate else ())
        if self.options.in_flight is not None:
            self._plans_alone()
            self._stage = pipeline.Stage.of(pipeline.InFlight.of(self.options.in_flight), inputs, self.arguments, self.model,
                                            gradients_held=self.accumulate or self.gradients_counted)  # fmt: skip
        if self.graphs is None:
            if self.model is None:
                self._note_frame()
            self._detached = outputs.select(module, self.loss)
            ours = self.arguments is not None  # else a copy of the compiled model is called
            self._around = subgraphs.Surroundings(subgraphs.unused_bytes(self.model, self.arguments, inputs, self._away) if ours else 0)
            return self._compared(outputs.guarded(self._compile(module, inputs), self._detached))
        graphs = self.graphs
        if self.options.budget == "auto":  # once, while nothing of the step is there but its inputs
            device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), torch.device("cpu"))
            present = graphs.present_bytes() + self.options.held_now_bytes
            self.options = replace(self.options, budget=budgets.in_bytes("auto", held_bytes=present, free_bytes=lambda: devices.free_bytes(device)))

        def make(inputs: list[Any], around: subgraphs.Surroundings) -> tuple[Callable[..., Any], int]:
            self._parameters, self._around, self._held_bytes = set(parameters), around, 0
            return self._compile(module, inputs), self._held_bytes

        return subgraphs.Part(graphs, make, inputs)

    def _compared(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """What eager mode computes is computed before a step of one graph begins, when it is known what its code asks."""
        first = self.in_eager_mode
        if first is None or not first.asked:
            return run

        def compared(*args: Any) -> Any:
            first.before(self.arguments, self.plans, args)
            return run(*args)

        return compared

    def _plans_alone(self) -> None:
        """For a stage of a pipeline: a warning where it plans in the middle of a step, in which the other processes wait for what it sends."""
        if ranks.size() > 1 and not self.only_plan and not self.warned_alone:
            self.warned_alone = True
            user_code.warn(
                "this stage of a pipeline is planned in the middle of a step: if nothing fits its budget, this process raises an error, and the "
                "others wait for it until it ends. Before the first step, call in every process checkmate.torch.plan_together(module, *example), "
                "with an example of the stage's arguments that has the sizes of one micro-batch: then all raise an error"
            )

    def _note_frame(self) -> None:
        """Parts of one function are frames of their own; other shapes of a part are compilations of the same frame."""
        from torch._guards import CompileContext

        self.frames.add(getattr(CompileContext.current_compile_id(), "frame_id", None))
        if len(self.frames) == 2:
            user_code.warn(
                "a second graph is planned for the whole budget by itself, so that the step may need more. If this is a "
                'graph break, checkmate.torch.compile(model, budget, graph_breaks="split") shares the budget'
            )

    def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        """AOTAutograd's partition function: the forward and the backward graph of the schedule."""
        with self.at_upper_ends(module):
            return self._partition(module, num_fwd_outputs)

    def at_upper_ends(self, module: fx.GraphModule) -> contextlib.AbstractContextManager[None]:
        """While this lasts, the symbols of a joint graph have the values that it is planned for."""
        self._within = ranges.Ranges(module, self._sizes) if self._sizes else None
        return symbols.at(self._within.top() if self._within is not None else None)

    def _partition(self, module: fx.GraphModule, num_fwd_outputs: int) -> tuple[fx.GraphModule, fx.GraphModule]:
        casts.merge(module, num_fwd_outputs, self._parameters)
        fixed, now = (a + b for a, b in zip((self.options.fixed_bytes, self.options.held_now_bytes), self._accumulated, strict=True))
        # A share of the peak is one of the largest step's: a last batch that is smaller may use what those before it do.
        largest = max((made.baseline_peak_bytes for made in self.plans), default=0)
        fixed += self._grown
        options, name = replace(self.options, fixed_bytes=fixed, held_now_bytes=now, largest_bytes=largest), f"graph {len(self.plans)}"
        others = [made.schedule for made in self.plans] if options.shapes else []
        planned = functools.partial(plan, module, num_fwd_outputs, options, name, self._around, [out.name for out in self._detached], others,
                                    self._within, self._stage, frozen=self._frozen, fallback=self.forgives)  # fmt: skip
        try:
            with phases.part(phases.REWRITING):
                made, halves = self.replicas.plan(planned, fallback=self.forgives)
            made = replace(made, spent=self.phases)
        except InfeasibleError as error:
            raise failures.for_shapes(error, self.arguments) if self._within is None else self._within.named(error) from None
        self.plans.append(made)
        log.info("graph %d: %s", len(self.plans) - 1, made)
        if self.graphs is not None:
            self._held_bytes = subgraphs.holds(halves.forward.graph, num_fwd_outputs)
        return halves.forward, halves.backward

    def unplanned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The model through our tracing, as planned but for the plan: nothing is computed again or written over."""

        def run(*args: Any, **kwargs: Any) -> Any:
            backend = _Unplanned(self.options, None, self.loss, self.model)
            return torch.compile(outputs.traced(original, self.loss), backend=backend, fullgraph=True, dynamic=False)(*args, **kwargs)

        return run

    def _away(self, value: object) -> bool:
        """Whether a tensor takes no memory that the budget counts."""
        return self.options.weights is not None and self.options.weights.away(value)

    def _grown_bytes(self) -> int:
        """Of the optimizer's state, what there was none of when the model was compiled: of parameters that were frozen, or not its own."""
        if self.optimizer is None or (optimizer := self.optimizer[0]()) is None:
            return 0
        return max(0, optimizer_bytes(optimizer) - self.optimizer[1])

    def _keep_weights(self, weights: Weights, inputs: list[Any]) -> dict[int, str]:
        """Frozen weights among a graph's inputs, in the second memory from now on."""
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        owner = self.model if isinstance(self.model, torch.nn.Module) else torch.nn.Module()
        names = {id(p): name for name, p in owner.named_parameters(remove_duplicate=False)}
        with unset_fake_temporarily():
            weights.keep([*inputs, *owner.parameters(), *owner.buffers()])
            return {i: names.get(id(v), f"weight{i}") for i, v in enumerate(inputs) if weights.away(v)}

    def _compile(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        weights = self.options.weights
        if weights is None:
            return self._compile_in(module, inputs)
        self._frozen = self._keep_weights(weights, inputs)
        run, places = self._compile_in(module, inputs), tuple(self._frozen)
        if weights.assumed or not places:
            return run

        def kept(*args: Any) -> Any:
            if any(weights.place(args[i]) is None for i in places):  # somebody gave a parameter other memory
                self._keep_weights(weights, list(args))
            return run(*args)

        return kept

    def _compile_in(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        with torchs.during_tracing(autocast_backward=self.options.autocast_backward), strides.as_kernels_have_them():
            return self._compile_traced(module, inputs)

    def _generated(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Inductor's code. It is measured, and planned again if need be, where it is a whole step of one process."""
        from .run import inductor

        options, before, told = self.options, len(self.plans), reached.Reached(module, inputs, self.model)
        if self.graphs is not None or ranks.size() > 1:
            where = "in several processes" if self.graphs is None else 'with graph_breaks="split"'
            user_code.warn(f"{where}, the peak of generated code is not measured and may exceed the budget: leave a margin of a tenth")
            return inductor.compile_graph(module, inputs, self.partition, told)

        def attempt(tried: Options) -> tuple[Callable[..., Any], Plan | None]:
            del self.plans[before:]
            self.options = tried
            try:
                run = inductor.compile_graph(module, inputs, self.partition, told)
            finally:
                self.options = options
            return run, self.plans[-1] if len(self.plans) > before else None

        run, plan = inductor.within_budget(attempt, inputs, options)
        if plan is not None:
            self.plans[before:] = [plan]
        return run

    def _without_gradients(self, compiler: Callable[..., Any]) -> Callable[..., Any]:
        """What makes the code of a graph without a backward pass."""

        def placed(graph: fx.GraphModule, inputs: Any) -> Any:
            exchange.synchronous(graph)
            shards.place(graph)
            return compiler(graph, inputs)

        return placed

    def _compile_traced(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if self.options.compiler == "inductor":
            return self._generated(module, inputs)
        from torch._dynamo.backends.common import aot_autograd

        casts.mark(module)
        recurrent.replace(module)
        boxed = runtime.Recorder(compile_boxed, inputs, reached.Reached(module, inputs, self.model), self.calls)
        alone = self._without_gradients(boxed)
        whole = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=alone, partition_fn=boxed.halves(self.partition))
        calls = sum(node.op not in ("placeholder", "output") for node in module.graph.nodes)
        self.options.say(f"tracing the backward pass of {calls:,} calls: AOTAutograd")
        with kernels.native(), phases.part(phases.AOT):
            made: Callable[..., Any] = whole(module, inputs)
        with phases.part(phases.CODE):
            run = boxed.runtime(made)
        if self._within is None:
            return run
        around = self._around.held_bytes

        def unused(given: list[Any]) -> int:
            return max(0, subgraphs.unused_bytes(self.model, self.arguments, given) - around) if self.arguments is not None else 0

        return ranges.checked(run, self._within, inputs, unused)


class _Unplanned(Backend):
    """Every rewriting of a plan's graph, and PyTorch's own partition."""

    def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        from torch._functorch.partitioners import default_partition

        with self.at_upper_ends(module):
            casts.merge(module, num_fwd_outputs, self._parameters)
            copies.apply(module)
            dropout.rewrite(module)
            split_gradients.apply(module)
        halves: tuple[fx.GraphModule, fx.GraphModule] = default_partition(module, _inputs, num_fwd_outputs=num_fwd_outputs)
        return halves


def backend(
    budget: int | float | str,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    graph_breaks: Literal["error"] = "error",
    fallback: Literal["error", "eager"] = "error",
    loss: outputs.Loss = "all",
    verify: bool = False,
    **options: Unpack[Settings],
) -> Backend:
    """A backend for `torch.compile(model, backend=checkmate.torch.backend("4GiB"), dynamic=False)`; options as in `compile`. What
    torch.compile traces with dynamic=True is planned for a range of sizes; the option `dynamic` says only where ranges end.

    Each graph is planned for the whole budget: only `compile` sees a call as a whole, so that the parts of one can share it.
    `loss` is "all" unless it is given, since a graph need not be a whole model.
    With fallback="eager" a graph that cannot be planned runs as it is, with a warning. verify=True compares each graph with what
    Dynamo traced, which is where a backend begins.
    """
    _check_choices(graph_breaks, fallback)
    if graph_breaks != "error":
        raise ValueError('graph_breaks="split" needs checkmate.torch.compile, which sees a call as a whole; a backend is handed one graph at a time')
    fixed, now = _fixed_bytes(None, optimizer, accumulate=False)
    outputs.check(loss)
    first_step.check(verify, options.get("compiler", "eager"))
    settings = checked(budget, options, fixed_bytes=fixed, held_now_bytes=now, function=backend)
    return Backend(settings, loss=loss, accumulate=accumulate, fallback=fallback == "eager", verify=verify)


#: The backend for each dictionary of options that `torch.compile(backend="checkmate")` was given, and that dictionary.
_NAMED: dict[int, tuple[object, Backend]] = {}


def named_backend(module: fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """What `torch.compile(model, backend="checkmate", options={"budget": "4GiB"}, dynamic=False)` calls. The options are those
    of `backend` by name; without a budget it is "auto"."""
    if mode is not None:
        raise ValueError(f'mode="{mode}" is for PyTorch\'s own backend; backend="checkmate" takes options={{"budget": ...}}')
    if id(options) not in _NAMED:
        given = dict(options or {})
        _NAMED[id(options)] = (options, backend(given.pop("budget", "auto"), **given))
    return _NAMED[id(options)][1](module, inputs)


named_backend.reset = _NAMED.clear  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it


def compile(
    model: Model,
    budget: int | float | str,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: bool = False,
    inplace: bool = False,
    graph_breaks: Literal["error", "split"] = "error",
    fallback: Literal["error", "eager"] = "error",
    loss: outputs.Loss = None,
    verify: bool = False,
    **options: Unpack[Settings],
) -> Model:
    """The model, compiled so that a training step's peak stays within `budget`.

    budget: bytes, "4GiB", "60%" of the peak without rematerialization (of the largest step so far), "60% of activations" or "60%act" of what
    that peak has beyond the bytes that are in memory whatever is recomputed, "auto" for what the device has free, or "min" for the least
    that is found. It counts parameters, buffers, inputs, activations, gradients, `fixed_bytes` and the optimizer's state.

    optimizer: counts its state, as it is or as it will be after the first step.
    accumulate: gradients of earlier steps are alive while this one runs; counts them.
    inplace: returns the module itself, whose calls are compiled from then on: class, attributes and names in the state dict stay.
        What is saved, loaded or copied is the module without this.
    graph_breaks: "error", or "split" to plan the model's parts so that they share the budget; it must then be in bytes.
    fallback: for a model that cannot be traced: an UnsupportedError, or with "eager" a warning and no budget.
    loss: what of the output is differentiated: a name ("loss": the attribute or key), a position, a function of the output that
        gives tensors of it, or "all". By default `.loss` or ["loss"], if there is one; else the scalars, if they depend on all
        parameters that the other outputs depend on; else all. Nothing is planned for the backward pass of the others:
        differentiating one raises an UnsupportedError. With graph_breaks="split" it is "all".
    verify: runs the first step in four more ways, from the same state: eager mode, PyTorch's tracing through Dynamo, that through
        AOTAutograd, and the plan. If the plan differs from them, which is a bug, it raises a VerificationError; if PyTorch's
        tracing differs from eager mode, it warns; `plans(compiled)[0].verification` has both. That step takes the memory of eager
        mode, a copy of the buffers, and two of outputs and gradients: the budget does not hold for it.
    costs: "estimate" (FLOPs and bytes) or "measure" (every call on the device in use, cached).
    compiler: "eager" runs PyTorch's own kernels, results equal to eager mode's; "inductor" generates code, which runs once in the
        first call to measure its peak, and is planned again where that is above the budget.
    random: "replay" computes random calls again with the generator's state of the first time; "keep" holds their outputs.
    counts: "allocated" plans what tensors and kernels take; "reserved", on a GPU, what PyTorch's allocator takes for them from CUDA, its
        gaps included, by the allocator's rules and PYTORCH_ALLOC_CONF.
    checkpoint_policy: what policies of torch.utils.checkpoint mean. "must": those named MUST_SAVE, MUST_RECOMPUTE and MUST_CPU_OFFLOAD bind,
        the planner decides on the others; "respect": PREFER_... bind too, and so do plain checkpoint regions;
        "override": none does.
    autocast_backward: whether `backward()`, too, is called under torch.autocast; by default it is called after it, as PyTorch advises.
    fixed_bytes: other memory in use during the step.  time_limit: seconds for the solver, by default a few, more for large
        graphs.  gap: relative gap at which the search stops.
    threads, seed, strategy: as in `checkmate.solve`.  cache: keep plans and costs on disk.
    shapes: how many shapes the model may be called with; by default PyTorch's own limit, 8, and each is planned. With it, a shape
        for which the plan of another one is valid and within the budget is not planned anew: the verifier and the peak of
        what runs decide. Call it with the largest first: its plan serves smaller ones.
    dynamic: True, or the largest sizes of dimensions of arguments, {"input_ids": {1: 512}}: one trace and one plan for a range of
        sizes. It is proven for its upper end, the largest size given here or by torch._dynamo.mark_dynamic(x, dim, min=, max=),
        else that of the first call; if every tensor's bytes grow with every size, smaller sizes need no more. A larger size is
        planned anew. UnsupportedError for what does not grow.
    in_flight: for a stage of a pipeline, how many micro-batches are in flight at once: forward passes begun, backward passes not over.
        The budget counts what all of them save, their inputs, and the gradients of parameters that accumulate. With the result of
        `checkmate.torch.in_flight` for a schedule, the buffers of torch.distributed.pipelining are counted too.
    extra_gathers: of a model that `fully_shard` was called on: how many more times than FSDP2 itself a step may gather the parameters of
        units; None for as often as is worth it. By default a step makes no more calls between processes than FSDP2. More of them allow
        smaller budgets, for which several blocks at a time are computed again, and some of these more than once.
    keep_outputs: False if the loop drops what the model returns with the loss before it calls `backward()`, as in
        `loss = model(**batch).loss` and in transformers' Trainer: the budget then does not count it, and a warning says if it is still
        held. `explain` says how many bytes that is.
    offload: where tensors may be moved to and read back, planned together with recomputing: "host", which is buffers in this machine's
        memory outside the budget, or a folder, where a file is made. On the CPU only. offload_memory: bytes that copies may
        take there, by default what is free.  offload_speed: bytes a second, or (out, in); by default measured once.
    progress: called with lines of text while it plans; `print`, for example.

    A DistributedDataParallel model has its module compiled in place; its buckets are counted, and the processes agree on
    one plan for each graph. A model that `fully_shard` was called on (FSDP2) has its parameters gathered as the plan says: those of units with
    reshard_after_forward=True (PyTorch's default, except for the outermost) are held until the backward pass or gathered again, whichever is
    better within the budget, and in total no more often than FSDP2 does. All processes follow the plan of rank 0, within the least of their budgets.

    Return the loss from the model, alone or with other outputs: what is computed outside is not planned. Where outputs that are
    no scalars are differentiated, room is left for a loss outside: as many bytes again until the backward pass is over, which mse_loss
    takes, and twice as many between the passes, which cross_entropy takes. What takes more has to be given as `fixed_bytes`.
    A call without gradients (`torch.no_grad()`) is not planned: it runs as in eager mode, with compiler="inductor" as `torch.compile` has it; with
    FSDP2 it is compiled, for each shape.
    InfeasibleError is raised in the first call when nothing fits, KeyboardInterrupt on Ctrl-C.
    `checkmate.torch.plans(compiled)` says what was planned.
    """
    require_callable(model)
    _check_choices(graph_breaks, fallback)
    outputs.check(loss)
    first_step.check(verify, options.get("compiler", "eager"))
    if graph_breaks == "split" and loss not in (None, "all"):
        raise ValueError('loss= needs the model as one graph; with graph_breaks="split" every output of a part may be differentiated')
    # What the wrapper itself does cannot be traced; its module is compiled in place.
    target: Any = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
    wrapped = target is not model
    sharded = fsdp.of(target)
    if sharded is not None:
        fsdp.check_options(graph_breaks=graph_breaks, fallback=fallback, verify=verify, **options)
    if inplace and not isinstance(model, torch.nn.Module):
        raise TypeError(f"inplace=True needs a torch.nn.Module, not {type(model).__name__}")
    inplace = inplace or wrapped
    if not inplace and getattr(target, "_compiled_call_impl", None) is not None:
        raise ValueError("the model is compiled in place already; inplace=True compiles it anew")
    graphs = _graphs(target, budget) if graph_breaks == "split" else None
    fixed, now = _fixed_bytes(target, optimizer, accumulate)
    if wrapped:
        fixed += ranks.bucket_bytes(target)
        now += ranks.bucket_bytes(target)
    settings = checked(budget, options, model=target, fixed_bytes=fixed, held_now_bytes=now, function=compile)
    if settings.offload_memory is not None and graphs is not None:
        raise ValueError('offload_memory= is of one graph: leave it out with graph_breaks="split", whose graphs have copies at the same time')
    if settings.store is not None and sharded is not None:
        raise UnsupportedError("offload= is for one process only so far: leave it out for a model that fully_shard was called on")
    if settings.weights is not None and isinstance(target, torch.nn.Module):
        settings.weights.keep([*target.parameters(), *target.buffers()])
        if graphs is not None:
            graphs.away = settings.weights.away
    if settings.dynamic and (graphs is not None or settings.compiler != "eager"):
        raise ValueError('dynamic= needs the model as one graph and compiler="eager": else the bytes of other sizes are not known')
    switched = branches.as_in_eager_mode(target)
    if switched:
        settings.say(f"set to False, as eager mode has it: {', '.join(switched[:3])}{' ...' if len(switched) > 3 else ''}")
    if not settings.keep_outputs and graphs is not None:
        raise ValueError('keep_outputs=False needs the model as one graph, not graph_breaks="split": parts need what others return')
    dropping = outputs.Dropping()
    if settings.in_flight is not None and graphs is not None:
        raise ValueError('in_flight= needs the model as one graph, not graph_breaks="split": what the parts of a micro-batch save is not known')
    made = Backend(settings, graphs, loss if graphs is None else "all", target)
    made.gradients_counted, made.forgives = accumulate, fallback == "eager"
    if optimizer is not None:
        made.optimizer = weakref.ref(optimizer), optimizer_bytes(optimizer)
    if graphs is None and sharded is None:
        made.calls = uncounted.Calls(target, counted=accumulate or wrapped, in_flight=settings.in_flight is not None)
    original: Any = target._call_impl if inplace else target
    if isinstance(target, torch.nn.Module) and settings.compiler == "eager" and not verify and sharded is None and settings.in_flight is None:
        is_compiling.listen()
        made.in_eager_mode = is_compiling.FirstStep(original, target)
    traced = _traced_whole(original) if inplace else original
    if sharded is not None:
        original = sharded.call
    static = settings.dynamic is not True
    dynamic = None if static else True  # `during_call` says that sizes are static, in the calls that compile only
    compiled: Any = torch.compile(traced, backend=made, fullgraph=graphs is None, dynamic=dynamic)
    inner = compiled.forward if isinstance(compiled, torch.nn.Module) else compiled
    run = inner if graphs is not None else torch.compile(outputs.traced(original, loss), backend=made, fullgraph=True, dynamic=dynamic)
    mark = ranges.marker(settings.dynamic, target)
    per_call: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    if graphs is not None or not torchs.only_while_compiling(run, settings.shapes, static=static, around=made.compiling):
        per_call = functools.partial(torchs.during_call, settings.shapes, static=static)
    around = contextlib.nullcontext if sharded is None else sharded.whole
    # A call without a backward pass has nothing to plan, whatever its shapes: it is counted among none, and refused for none.
    without: Any = original if sharded is None else None
    if without is not None and settings.compiler == "inductor":
        without = torch.compile(_traced_whole(original), options={"fallback_random": True})
    guard = failures.Guard(run, original, fallback=fallback == "eager", graphs=graphs)

    def planned(*args: Any, **kwargs: Any) -> Any:
        made.arguments = args, kwargs
        if made.plans:
            made.replicas.stepping()
        if mark is not None:
            mark(args, kwargs)
        try:
            with per_call(), around():
                return guard(*args, **kwargs)
        finally:
            made.arguments = None

    first = first_step.FirstStep(made, planned, original, guard, whole=graphs is None) if verify else None

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        if without is not None and not torch.is_grad_enabled():
            return without(*args, **kwargs)
        if first is not None:
            first(args, kwargs)
        if made.calls is not None and made.plans:
            made.calls.before(made.plans[-1])
        if graphs is not None and made.in_eager_mode is not None:
            made.in_eager_mode.before((args, kwargs), made.plans)  # the second step's: only then it is known what all parts ask
        found = planned(*args, **kwargs)
        if made.in_eager_mode is not None:
            made.in_eager_mode.after(found)
        if made.calls is not None and made.plans:
            made.calls.after(found, (args, kwargs))
        if not made.options.keep_outputs and not guard.fell_back:
            dropping.watch(found)
        if not guard.fell_back:
            torchs.watch_backward(found, autocast_backward=made.options.autocast_backward)
        return found

    if inplace:
        call.checkmate_backend = made  # type: ignore[attr-defined]  # for `plans`; a copy of the module loses both
        target._compiled_call_impl = call
        return model
    if isinstance(compiled, torch.nn.Module):
        compiled.forward = call
    else:
        compiled = call
    _BACKENDS[compiled] = made
    return compiled


def _traced_whole(call: Callable[..., Any]) -> Callable[..., Any]:
    """A module's call whose forward hooks are traced with it, not as graphs of their own. The code is a copy: PyTorch counts
    the shapes of a code object, and other modules have theirs."""
    inline: Any = torch._dynamo.external_utils.wrap_inline(call)
    inline.__code__ = inline.__code__.replace()
    return inline


def _check_choices(graph_breaks: str, fallback: str) -> None:
    if graph_breaks not in ("error", "split"):
        raise ValueError(f'graph_breaks must be "error" or "split", not "{graph_breaks}"')
    if fallback not in ("error", "eager"):
        raise ValueError(f'fallback must be "error" or "eager", not "{fallback}"')


def require_callable(model: object) -> None:
    """TypeError for what is neither a module nor a function."""
    if isinstance(model, type):
        raise TypeError(f"the model must be a module, such as {model.__name__}(...), not the class {model.__name__}")
    if not callable(model):
        raise TypeError(f"the model must be a module or a function, not {type(model).__name__}")


def _graphs(model: object, limit: int | float | str) -> subgraphs.Graphs:
    if not isinstance(model, torch.nn.Module):
        raise ValueError('graph_breaks="split" needs a torch.nn.Module, whose parameters all of its graphs count')
    if limit == budgets.LEAST or budgets.is_share(limit):
        raise ValueError(f'"{limit}" is of one graph; with graph_breaks="split" give the budget in bytes')
    return subgraphs.Graphs(model)


def _fixed_bytes(model: object, optimizer: torch.optim.Optimizer | None, accumulate: bool) -> tuple[int, int]:
    """What is in memory in addition to the step's own tensors, and how much of it is there already."""
    fixed = now = 0
    if optimizer is not None:
        fixed = optimizer_bytes(optimizer)
        now = fixed if has_state(optimizer) else 0
    if accumulate:
        gradients, there = _gradient_bytes(model.parameters() if isinstance(model, torch.nn.Module) else ())
        fixed, now = fixed + gradients, now + there
    return fixed, now


def _gradient_bytes(parameters: Iterable[torch.Tensor]) -> tuple[int, int]:
    """Of the gradients that parameters will have, and of those that are there."""
    trained = [p for p in parameters if p.requires_grad]
    return sum(map(fsdp.held_bytes, trained)), sum(fsdp.held_bytes(p) for p in trained if p.grad is not None)


def plans(compiled: Any) -> list[Plan]:
    """The plans behind a compiled model, one a graph; empty before its first call."""
    return list(backend_of(compiled).plans)


def backend_of(compiled: Any) -> Backend:
    """What plans a compiled model. ValueError for what `compile` did not return."""
    module = compiled.module if isinstance(compiled, torch.nn.parallel.DistributedDataParallel) else compiled
    try:
        made = _BACKENDS.get(compiled) or getattr(getattr(module, "_compiled_call_impl", None), "checkmate_backend", None)
    except TypeError:  # what cannot be referred to weakly
        made = None
    if made is None:
        raise ValueError("this is not what checkmate.torch.compile returned; a copy of it is not either: copy the model and compile the copy")
    return made  # type: ignore[no-any-return]
