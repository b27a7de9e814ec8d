# SPDX-License-Identifier: Apache-2.0
"""Inlines the functions that a traced step calls.

A `tf.function` that is called while a step is traced is a single operator there. Nothing inside of it could be planned, and all
that its backward pass needs would be kept. One that XLA compiles, such as Keras's grouped convolution, stays one operator: XLA
orders its operators itself, and the whole is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph, function_def_to_graph, ops
from tensorflow.python.ops import handle_data_util

from ..errors import UnsupportedError
from .run import Emitter, add_functions

#: Operators that call one function.
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


def inlined(graph: Any) -> Any:
    """The graph of a concrete function, or one of the same inputs and outputs that calls no functions. O(operators)."""
    if not any(op.type in CALLS for op in graph.get_operations()):
        return graph
    flat = func_graph.FuncGraph(graph.name)
    with flat.as_default():
        add_functions(graph)
        flat.inputs = [_entry(tensor) for tensor in graph.inputs]
        flat.outputs = _Copy(graph).run(graph, flat.inputs, graph.outputs, "", [])
    return flat


def _entry(tensor: tf.Tensor) -> tf.Tensor:
    made = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, tensor.op.name)
    if tensor.dtype in (tf.resource, tf.variant):
        handle_data_util.copy_handle_data(tensor, made)
    return made


class _Copy:
    """`functions`: of the step, those called within others included. `made`: operators of what is being copied."""

    def __init__(self, graph: Any) -> None:
        self.functions = graph._functions
        self.made: list[tf.Operation] = []

    def run(self, graph: Any, given: Sequence[tf.Tensor], wanted: Sequence[tf.Tensor], prefix: str, after: list[tf.Operation]) -> list[tf.Tensor]:
        """Copies of the wanted tensors. `after`: operators that have to run before the copies."""
        now: dict[int, tf.Tensor] = {id(old): new for old, new in zip(graph.inputs, given, strict=True)}
        done: dict[str, tf.Operation] = {}  # the replacement of an operator, for operators that have to run after it
        entries = {tensor.op.name for tensor in graph.inputs}
        for op in graph.get_operations():
            if op.name in entries:
                continue
            before = [*after, *(done[old.name] for old in op.control_inputs if old.name in done)]
            outputs, done[op.name] = self._copied(op, [now[id(t)] for t in op.inputs], f"{prefix}{op.name}", before)
            self.made.append(done[op.name])
            now.update((id(old), new) for old, new in zip(op.outputs, outputs, strict=True))
        return [now[id(t)] for t in wanted]

    def _copied(self, op: tf.Operation, inputs: list[tf.Tensor], name: str, before: list[tf.Operation]) -> tuple[list[tf.Tensor], tf.Operation]:
        if op.type not in CALLS:
            emitter = Emitter(before)
            return emitter.emit(op, inputs, name=name), emitter.before[0]
        function = self.functions[op.get_attr("f").name]
        definition = function.cached_definition
        body = function_def_to_graph.function_def_to_graph(definition, input_shapes=[t.shape for t in inputs])
        if "_XlaMustCompile" in definition.attr and definition.attr["_XlaMustCompile"].b:  # asking for it would add it
            outputs, made = _compiled(body, inputs, name, before)
            return outputs, _joined(made or before)
        _restore_shapes(body, function.graph)
        outside, self.made = self.made, []
        outputs = self.run(body, inputs, body.outputs, f"{name}/", [_joined(before)] if before else [])
        made, self.made = self.made, outside
        return outputs, _joined(made or before)


def _joined(before: list[tf.Operation]) -> tf.Operation:
    """An operator that does nothing, after all of these."""
    with ops.control_dependencies(None), ops.get_default_graph().control_dependencies(before):
        return tf.no_op()


def _restore_shapes(body: Any, traced: Any) -> None:
    """Shapes that were set while the function was traced are not in its definition."""
    known = {op.name: op for op in traced.get_operations()}
    for op in body.get_operations():
        other = known.get(op.name)
        if other is not None and other.type == op.type and op.type != "Placeholder":
            for new, old in zip(op.outputs, other.outputs, strict=True):
                if new.dtype == old.dtype and new.shape.is_compatible_with(old.shape):
                    new.set_shape(old.shape)


def _compiled(body: Any, inputs: Sequence[tf.Tensor], name: str, before: list[tf.Operation]) -> tuple[list[tf.Tensor], list[tf.Operation]]:
    """The call of a function that XLA compiles, with its variables read outside of it: with tensors alone it can be measured in isolation.
    Returns its results, and the operators made."""
    emitter = Emitter(before)
    handles = {id(place): given for place, given in zip(body.inputs, inputs, strict=True) if place.dtype == tf.resource}
    taken: list[tf.Tensor] = []  # of the function
    places: list[tf.Tensor] = []  # what stands for them in its body
    made: list[tf.Operation] = []
    for op in body.get_operations():
        if op.type == "ReadVariableOp" and id(op.inputs[0]) in handles:
            taken += emitter.emit(op, [handles[id(op.inputs[0])]], name=f"{name}/{op.name}")
            places += op.outputs
            made += emitter.before
        elif any(t.dtype == tf.resource for t in op.inputs) or (op.op_def.is_stateful and op.type != "Placeholder"):
            raise UnsupportedError(f"{name} calls a function with jit_compile=True that has state ({op.name}): XLA orders operators as it likes and "
                                   "the budget would not hold; leave it out")  # fmt: skip
    for place, given in zip(body.inputs, inputs, strict=True):
        if id(place) not in handles:
            taken.append(given)
            places.append(place)

    outer = {id(place): tensor for place, tensor in zip(places, taken, strict=True)}
    roots = [_root(tensor) for tensor in body.outputs]
    own = list({id(root): root for root in roots if id(root) not in outer}.values())  # the rest are operands that are handed back

    def compute(*arguments: tf.Tensor) -> list[tf.Tensor]:
        add_functions(body)
        now = {id(place): argument for place, argument in zip(places, arguments, strict=True)}
        for op in body.get_operations():
            if op.type != "Placeholder" and not all(id(t) in now for t in op.outputs):
                now.update((id(old), new) for old, new in zip(op.outputs, Emitter().emit(op, [now[id(t)] for t in op.inputs]), strict=True))
        return [now[id(t)] for t in own]

    if own:
        function = tf.function(compute, autograph=False, jit_compile=True).get_concrete_function(*[tf.TensorSpec(t.shape, t.dtype) for t in taken])
        scope = f"{name.rpartition('/')[0]}/" if "/" in name else "compiled"
        with ops.control_dependencies(None), ops.get_default_graph().control_dependencies(emitter.before), tf.name_scope(scope):
            computed = list(function(*taken))
        made.append(computed[0].op)
        outer.update((id(root), tensor) for root, tensor in zip(own, computed, strict=True))
    return [outer[id(root)] for root in roots], made


def _root(tensor: tf.Tensor) -> tf.Tensor:
    """Without the Identity operators that it went through."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor
