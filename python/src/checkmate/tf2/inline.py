# SPDX-License-Identifier: Apache-2.0
"""A traced step without calls of other functions: each is replaced by what it does.

A `tf.function` that is called while a step is traced is one operator there. Nothing inside of it could be planned, and all
that its backward pass needs would be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph, function_def_to_graph
from tensorflow.python.ops import handle_data_util

from ..errors import UnsupportedError
from .run import Emitter, add_functions

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_COMPILED = "_XlaMustCompile"


def inlined(graph: Any) -> Any:
    """The graph of a concrete function, or one of the same inputs and outputs that calls no functions. O(operators)."""
    if not any(op.type in _CALLS for op in graph.get_operations()):
        return graph
    flat = func_graph.FuncGraph(graph.name)
    with flat.as_default():
        add_functions(graph)
        flat.inputs = [_entry(tensor) for tensor in graph.inputs]
        flat.outputs = _Copy(graph, flat).run(graph, flat.inputs, graph.outputs, "", [])
    return flat


def _entry(tensor: tf.Tensor) -> tf.Tensor:
    made = tf.compat.v1.placeholder(tensor.dtype, tensor.shape, tensor.op.name)
    if tensor.dtype in (tf.resource, tf.variant):
        handle_data_util.copy_handle_data(tensor, made)
    return made


class _Copy:
    """`functions`: of the step, those called within others included."""

    def __init__(self, graph: Any, flat: Any) -> None:
        self.functions = graph._functions
        self.flat = flat

    def run(self, graph: Any, given: Sequence[tf.Tensor], wanted: Sequence[tf.Tensor], prefix: str, after: list[tf.Operation]) -> list[tf.Tensor]:
        """Copies of the wanted tensors. `after`: what has to run before what is copied."""
        now: dict[int, tf.Tensor] = {id(old): new for old, new in zip(graph.inputs, given, strict=True)}
        done: dict[str, list[tf.Operation]] = {}  # what stands for an operator, for who has to run after it
        entries = {tensor.op.name for tensor in graph.inputs}
        for op in graph.get_operations():
            if op.name in entries:
                continue
            before = [*after, *(new for old in op.control_inputs for new in done.get(old.name, ()))]
            inputs = [now[id(t)] for t in op.inputs]
            name = f"{prefix}{op.name}"
            if op.type in _CALLS:
                first = len(self.flat.get_operations())
                outputs = self._call(op, inputs, f"{name}/", before)
                done[op.name] = self.flat.get_operations()[first:] or before
            else:
                outputs = Emitter(before).emit(op, inputs, name=name)
                done[op.name] = [self.flat.get_operations()[-1]]
            now.update((id(old), new) for old, new in zip(op.outputs, outputs, strict=True))
        return [now[id(t)] for t in wanted]

    def _call(self, op: tf.Operation, inputs: list[tf.Tensor], prefix: str, before: list[tf.Operation]) -> list[tf.Tensor]:
        definition = self.functions[op.get_attr("f").name].cached_definition
        if definition.attr[_COMPILED].b:
            raise UnsupportedError(f"{op.name} calls a function with jit_compile=True: XLA orders operators as it likes and the budget would not "
                                   "hold; leave it out")  # fmt: skip
        body = function_def_to_graph.function_def_to_graph(definition, input_shapes=[t.shape for t in inputs])
        return self.run(body, inputs, body.outputs, prefix, before)
