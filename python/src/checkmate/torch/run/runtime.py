# SPDX-License-Identifier: Apache-2.0
"""What runs a compiled graph's two halves under autograd, in place of AOTAutograd's own wrappers.

Those are made for any graph: outputs that alias inputs, tensor subclasses, symbolic sizes. In a step of some milliseconds
they take a twentieth of it. A plain graph, as `_is_plain` says, needs one autograd function: inputs that the graph changes are
written within it, all at once, instead of leaving it as outputs. What AOTAutograd checks in every step is checked here, too.
Any other graph, or a PyTorch whose metadata is not as expected, runs as AOTAutograd would have it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..fx.dataflow import storage_key, tensors
from ..rewrite import buffer_updates
from . import double_backward, gradient_layouts
from .reached import Asked, Reached
from .uncounted import Calls

Boxed = Callable[[list[Any]], tuple[Any, ...]]

#: Whether an autograd function gets the gradients as one list, so that its backward pass can free them.
_BOXED = hasattr(torch.autograd.Function, "boxed_grads_call")
_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Specify retain_graph=True if you need to backward through the graph a second time"
)


class Recorder:
    """A compiler for AOTAutograd that remembers what it was given. `inputs`: those of Dynamo's graph, which `reached` tells of."""

    def __init__(self, compile_boxed: Callable[[fx.GraphModule], Boxed], inputs: list[Any], reached: Reached, calls: Calls | None = None) -> None:
        self.compile_boxed, self.inputs, self.reached, self.calls = compile_boxed, inputs, reached, calls
        self.graphs: tuple[fx.GraphModule, fx.GraphModule] | None = None
        self.metadata: Any = None

    def __call__(self, graph: fx.GraphModule, _inputs: Any) -> Boxed:
        from torch._guards import TracingContext

        if self.metadata is None:  # the backward pass is compiled when it is first needed
            self.metadata = getattr(TracingContext.try_get(), "fw_metadata", None)
        return _lazily(self.compile_boxed, graph)

    def halves(self, partition: Callable[..., tuple[fx.GraphModule, fx.GraphModule]]) -> Callable[..., tuple[fx.GraphModule, fx.GraphModule]]:
        """The partition function, watched."""

        def watched(*args: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            self.graphs = partition(*args, **kwargs)
            return self.graphs

        return watched

    def runtime(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """`made` is what AOTAutograd made of the two halves. What it does, with less around it where that is possible."""
        if self.graphs is None or self.metadata is None:
            return double_backward.refused(made, self.calls)
        # What the backward pass may write over, as inductor does, so that PyTorch forbids retain_graph=True: nothing.
        self.metadata.bw_donated_idxs = []
        forward, backward = self.graphs
        told, asked = gradient_layouts.Told(forward.graph, self.metadata), Asked(self.reached, self.metadata)
        try:  # what else `_runtime` needs
            _ = self.metadata.deterministic, self.metadata.subclass_tangent_meta, torch._C._autograd._get_current_graph_task_keep_graph
            if not _is_plain(self.metadata, self.inputs, forward.graph, backward.graph):
                return double_backward.refused(told.watched(made), self.calls, asked)
        except AttributeError:  # another PyTorch's metadata
            return double_backward.refused(told.watched(made), self.calls, asked)
        changed = tuple(self.metadata.mutated_inp_runtime_indices)
        rewritten, written = buffer_updates.in_place(forward, changed, len(changed) + len(self.metadata.output_info))
        saved = _saved(rewritten.graph, len(written) + len(self.metadata.output_info))
        like = [node.meta["val"] for node in next(iter(reversed(rewritten.graph.nodes))).args[0][len(written) :][: len(self.metadata.output_info)]]
        run = _runtime(made, self.compile_boxed(rewritten), self.compile_boxed(backward), written, saved, like, asked, self.calls)
        return told.watched(run)


def _lazily(compile_boxed: Callable[[fx.GraphModule], Boxed], graph: fx.GraphModule) -> Boxed:
    """A graph's function, made when it is first called."""
    made: list[Boxed] = []

    def run(arguments: list[Any]) -> tuple[Any, ...]:
        if not made:
            made.append(compile_boxed(graph))
        return made[0](arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _saved(forward: fx.Graph, end: int) -> list[bool]:
    """Of what the forward half saves, behind `end` outputs, whether it shares memory with what others hold: inputs, outputs.
    Nothing else can write to the rest, or hook it."""
    (results,) = next(iter(reversed(forward.nodes))).args
    held = [*forward.find_nodes(op="placeholder"), *forward.find_nodes(op="get_attr"), *results[:end]]  # type: ignore[index]
    shared = {storage_key(value) for node in held for value in tensors(node.meta.get("val")) if value is not None}
    return [node.op == "get_attr" or storage_key(node.meta["val"]) in shared for node in results[end:]]  # type: ignore[index, union-attr]


def _is_plain(metadata: Any, inputs: list[Any], forward: fx.Graph, backward: fx.Graph) -> bool:
    """Whether every input is a tensor that is passed on as it is, is written to only as data without a gradient, and every
    output is a new tensor."""
    from torch._functorch._aot_autograd.schemas import MutationType, OutputType

    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None or not hasattr(torch._C._FunctionBase, "maybe_clear_saved_tensors"):
        return False
    if any(not isinstance(value, torch.Tensor) or is_traceable_wrapper_subclass(value) for value in inputs):
        return False
    if metadata.num_intermediate_bases or metadata.num_outputs_aliased or metadata.num_unsafe_view_outputs or metadata.tokens:
        return False
    if metadata.is_rng_op_functionalized or metadata.dynamic_outputs or metadata.grad_enabled_mutation is not None:
        return False
    if getattr(metadata, "num_backward_tokens", 0) or metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw:
        return False
    if getattr(metadata, "num_graphsafe_rng_states", 0) or getattr(metadata, "num_opaque_objects_saved_for_bw", 0):
        return False
    if metadata.num_symints_saved_for_bw:
        return False
    for info in metadata.output_info:
        plain = info.output_type is OutputType.non_alias and issubclass(info.raw_type, torch.Tensor)
        if not plain or info.requires_grad != getattr(info, "requires_grad_for_backward", info.requires_grad):
            return False
    placeholders = forward.find_nodes(op="placeholder")
    (results,), (gradients,) = (next(iter(reversed(graph.nodes))).args for graph in (forward, backward))
    if not len(inputs) == len(placeholders) == len(metadata.input_info) == len(gradients):  # some are merged, or more are added
        return False
    for info, gradient in zip(metadata.input_info, gradients, strict=True):
        if info.mutation_type is MutationType.MUTATED_IN_GRAPH or info.mutates_metadata or info.mutates_storage_metadata:
            return False
        if info.requires_grad and (info.mutates_data or (gradient is None and not info.is_leaf)):
            return False
    # They are written one after the other: none may be read by a later one.
    given = {storage_key(value) for node in placeholders for value in tensors(node.meta.get("val")) if value is not None}
    changed = results[: metadata.num_mutated_inp_runtime_indices]
    return all(isinstance(node, fx.Node) and storage_key(node.meta["val"]) not in given for node in changed)


def _runtime(made: Callable[..., Any], run_forward: Boxed, run_backward: Boxed, written: tuple[int, ...], saved: list[bool],
             like: list[torch.Tensor], asked: Asked, calls: Calls | None) -> Callable[..., Any]:  # fmt: skip
    """An autograd function of the two halves. The forward one gives new values for the inputs `written`, what the caller gets,
    tensors `like` these, and what is saved; `saved` tells which of that others may write to."""
    metadata = asked.metadata
    shared = tuple(i for i, yes in enumerate(saved) if yes)
    private = tuple(i for i, yes in enumerate(saved) if not yes)
    keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph
    n_written, end = len(written), len(written) + len(metadata.output_info)
    constant = tuple(i for i, info in enumerate(metadata.output_info) if not info.requires_grad)
    tangents = tuple(n for n, info in enumerate(metadata.output_info) if info.requires_grad)
    blank = [functools.partial(torch.zeros, like[n].shape, dtype=like[n].dtype, device=like[n].device) for n in tangents]
    unreached = (False,) * metadata.num_mutated_inp_runtime_indices
    in_format = [_formatted(meta) for meta in metadata.subclass_tangent_meta[: len(tangents)]]
    nondeterministic = metadata.deterministic is False
    under_autocast, without_autocast = torch._C._is_any_autocast_enabled, torch._C._DisableAutocast
    grad_enabled, transformed = torch.is_grad_enabled, torch._C._are_functorch_transforms_active

    class Step(torch.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[Any, ...]:
            if under_autocast():
                with without_autocast():
                    results = run_forward(list(inputs))
            else:
                results = run_forward(list(inputs))
            if written:
                torch._foreach_copy_([inputs[i] for i in written], results[:n_written])
            kept = results[end:]
            ctx.save_for_backward(*[value.detach() if value._is_view() else value for value in [kept[i] for i in shared]])
            ctx.private = [kept[i] for i in private]
            ctx.call = None if calls is None else calls.begin()
            ctx.anchors = double_backward.anchor(inputs)
            returned = results[n_written:end]
            if constant:
                ctx.mark_non_differentiable(*[returned[i] for i in constant])
            ctx.set_materialize_grads(False)
            return returned

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            gradients = given[0] if _BOXED else list(given)
            _check_backward(nondeterministic)
            values: list[Any] = [None] * len(saved)
            for i, value in zip(shared, ctx.saved_tensors, strict=True):
                values[i] = value
            if ctx.private is None:
                raise RuntimeError(_TWICE)
            for i, value in zip(private, ctx.private, strict=True):
                values[i] = value
            came = (*unreached, *(value is not None for value in gradients))
            values += [put(zeros() if gradients[n] is None else gradients[n]) for n, put, zeros in zip(tangents, in_format, blank, strict=True)]
            gradients.clear()
            value = None
            ctx.maybe_clear_saved_tensors()
            if not keeps_graph():
                ctx.private = ctx.call = None
            if grad_enabled():
                return double_backward.gradients(lambda: asked.given(run_backward(values), came, ctx.next_functions), ctx, ctx.anchors)
            with without_autocast() if under_autocast() else contextlib.nullcontext():
                return asked.given(run_backward(values), came, ctx.next_functions)

    # What Function.apply would call, after it has looked for transforms by functorch.
    apply: Any = super(torch.autograd.Function, Step).apply  # type: ignore[no-untyped-call]

    def run(*inputs: torch.Tensor) -> Any:
        return made(*inputs) if transformed() or not grad_enabled() else apply(*inputs)

    return run


def _formatted(meta: Any) -> Callable[[Any], Any]:
    """Gives a gradient the strides that the graph was traced with; TypeError and the like for what is no plain tensor."""
    from torch._functorch._aot_autograd.runtime_wrappers import AOTDispatchAutograd

    process: Any = AOTDispatchAutograd.process_runtime_tangent

    def put(gradient: Any) -> Any:
        return gradient if type(gradient) is torch.Tensor and gradient.dim() == 0 else process(gradient, meta)[0]

    return put


def _check_backward(nondeterministic: bool) -> None:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError("the backward pass of a compiled model cannot run within vmap, grad or vjp")
    if nondeterministic and torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(
            "the backward pass runs with torch.use_deterministic_algorithms(True), but its forward pass was compiled with False: set it before both"
        )
