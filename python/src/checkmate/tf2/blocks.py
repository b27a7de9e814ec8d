# SPDX-License-Identifier: Apache-2.0
"""Updates of large variables, some rows at a time.

An optimizer's update is written for whole variables, and makes copies as large as these. An elementwise update can be done in blocks
of rows: the numbers are the same, bit for bit, and the copies are as large as a block. A block of a variable is gathered,
updated, and scattered back. TensorFlow does both within the variable's own memory and from then on gives every read of the variable
a copy. Afterwards that mode is switched off again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import func_graph

from . import operators, order
from .run import Emitter

#: The least bytes of a block, and the most blocks of a variable.
_BLOCK_BYTES, _BLOCKS = 1 << 19, 64
#: The bytes of a row are a multiple of this: kernels then compute a block's elements in vectors, like those of the whole, and slices do not copy.
_ROW_BYTES = 64
_TYPES = {tf.float16, tf.bfloat16, tf.float32, tf.float64}
_ELEMENTWISE = {"Mul", "Sub", "AddV2", "RealDiv", "Sqrt", "Square", "Neg", "Abs", "Sign", "Maximum", "Minimum"}
_SCATTER = {"AssignVariableOp": "ResourceScatterUpdate", "AssignAddVariableOp": "ResourceScatterAdd", "AssignSubVariableOp": "ResourceScatterSub"}


@dataclass
class Blocks:
    """`instead`: for the first call of a group of the tail, calls that replace the group, in blocks. `like`: for calls of these, one that
    takes as long and overwrites the same operands. `measured`: calls that have to be measured for that. `constant_bytes`: of indices."""

    instead: dict[operators.Call, list[operators.Call]] = field(default_factory=dict)
    like: dict[operators.Call, operators.Call] = field(default_factory=dict)
    measured: list[operators.Call] = field(default_factory=list)
    constant_bytes: int = 0


def of(step: operators.Program) -> Blocks:
    """The groups of the tail that can be run in blocks. O(calls and operands)."""
    groups = step.groups()
    home = {v: i for i, group in enumerate(groups) for call in group for v in call.outputs}
    leaving = {v for i, group in enumerate(groups) for call in group for v in call.inputs if home.get(v, i) != i} | set(step.results)
    made_by = {v: call for call in step.calls for v in call.outputs}
    found = Blocks()
    for group in groups:
        if group[0] in step.tail:
            calls = group
            for cluster in _clusters(group, leaving):
                calls = _replaced(calls, cluster, made_by, found)
            if calls is not group:
                found.instead[group[0]] = calls
    return found


def _rows(value: operators.Value) -> int:
    """Rows of a block; 0 if blocks have no use or cannot be made."""
    shape = value.spec.shape
    if value.spec.dtype not in _TYPES or not shape.rank or shape.rank < 2 or value.bytes < 2 * _BLOCK_BYTES:
        return 0
    rows = int(shape[0])
    row_bytes = value.bytes // rows
    found = max(1, _BLOCK_BYTES // row_bytes, -(-rows // _BLOCKS))
    return found if row_bytes % _ROW_BYTES == 0 and 2 * found <= rows else 0


def _whole(call: operators.Call) -> operators.Value | None:
    """The output or operand of the variable's shape, if the call can be done in blocks."""
    if call.type in _SCATTER:
        return call.inputs[1] if _rows(call.inputs[1]) and call.inputs[0].variable == call.inputs[1].bytes else None
    if call.type == "ReadVariableOp":
        return call.outputs[0] if _rows(call.outputs[0]) else None
    if call.type not in _ELEMENTWISE or not _rows(call.outputs[0]):
        return None
    shape = call.outputs[0].spec.shape
    alike = all(v.spec.shape == shape or v.spec.shape.num_elements() == 1 for v in call.inputs)
    return call.outputs[0] if alike else None


def _clusters(group: list[operators.Call], leaving: set[operators.Value]) -> Iterator[list[operators.Call]]:
    """Clusters of calls to be done together, block by block: calls that share tensors or variables, whose tensors no other call reads."""
    able = {call: whole for call in group if (whole := _whole(call)) is not None}
    readers: dict[operators.Value, list[operators.Call]] = {}
    for call in group:
        for value in call.inputs:
            readers.setdefault(value, []).append(call)
    while gone := [c for c in able if any(v in leaving or any(r not in able for r in readers.get(v, ())) for v in c.outputs)]:
        for call in gone:
            del able[call]
    of_value: dict[operators.Value, list[operators.Call]] = {}
    for call, whole in able.items():
        for value in {whole, *(v for v in call.inputs if v.is_resource or v.spec.shape == whole.spec.shape)}:
            of_value.setdefault(value, []).append(call)
    left = dict.fromkeys(able)
    while left:
        cluster, stack = set(), [next(iter(left))]
        while stack:
            call = stack.pop()
            if call in left:
                del left[call]
                cluster.add(call)
                stack += [other for v in (able[call], *call.inputs) for other in of_value.get(v, ())]
        if any(call.assigns for call in cluster):
            yield [call for call in group if call in cluster]


def _replaced(
    calls: list[operators.Call], cluster: list[operators.Call], made_by: dict[operators.Value, operators.Call], found: Blocks
) -> list[operators.Call]:
    """The calls with those of the cluster in blocks, at the place of the last one; unchanged if a call in between would have to wait."""
    inside, last = set(cluster), calls.index(cluster[-1])
    begun = calls.index(cluster[0])
    assigned: set[operators.Value] = set()
    waiting: set[operators.Call] = set(cluster)
    read = {call.inputs[0] for call in cluster if call.type == "ReadVariableOp"}
    for call in calls[begun:last]:
        if call in inside:
            assigned |= {call.inputs[0]} if call.assigns else set()
            continue
        if waiting & order.kept_before(call, waiting, made_by) or assigned & set(call.inputs) or (call.assigns and call.inputs[0] in read):
            return calls
    return [*(c for c in calls[:last] if c not in inside), *_Cut(cluster, found).calls(), *calls[last + 1 :]]


class _Cut:
    """A cluster in blocks. Blocks with the same number of rows share their operators, which are made once."""

    def __init__(self, cluster: list[operators.Call], found: Blocks) -> None:
        self.cluster, self.found = cluster, found
        first = _whole(cluster[0])
        assert first is not None
        self.shape, self.rows = first.spec.shape.as_list(), _rows(first)
        self.graph = func_graph.FuncGraph("blocks")
        self.ops: dict[tuple[int, object], tf.Operation] = {}

    def calls(self) -> list[operators.Call]:
        made: list[operators.Call] = []
        for begin in range(0, self.shape[0], self.rows):
            made += self._block(begin, min(self.rows, self.shape[0] - begin))
        for handle in dict.fromkeys(v for call in self.cluster for v in call.inputs if v.is_resource):
            made.append(self._call(0, "DisableCopyOnRead", [handle], []))
        return made

    def _block(self, begin: int, rows: int) -> Iterable[operators.Call]:
        indices = self._constant(np.arange(begin, begin + rows, dtype=np.int32))
        now: dict[operators.Value, operators.Value] = {}

        def part(value: operators.Value) -> Iterator[operators.Call]:
            """The block of a tensor from outside the cluster."""
            if value in now or value.is_resource or value.spec.shape != tf.TensorShape(self.shape):
                return
            zeros = [0] * (len(self.shape) - 1)
            place = self._constant(np.array([begin, *zeros], np.int32)), self._constant(np.array([rows, *self.shape[1:]], np.int32))
            now[value] = self._value(value, rows)
            call = self._call(rows, "Slice", [value, *place], [now[value]])
            yield call
            key = rows, ("measured", value.spec.dtype)
            if key not in self.ops:
                self.ops[key] = call.op
                self.found.measured.append(call)
            self.found.like[call] = next(c for c in self.found.measured if c.op is self.ops[key])

        for call in self.cluster:
            for value in call.inputs:
                yield from part(value)
            if call.type == "ReadVariableOp":
                now[call.outputs[0]] = self._value(call.outputs[0], rows)
                yield self._call(rows, "ResourceGather", [call.inputs[0], indices], [now[call.outputs[0]]])
            elif call.type in _SCATTER:
                yield self._call(rows, _SCATTER[call.type], [call.inputs[0], indices, now[call.inputs[1]]], [])
            else:
                inputs = [now.get(v, v) for v in call.inputs]
                now[call.outputs[0]] = self._value(call.outputs[0], rows)
                made = self._call(rows, call, inputs, [now[call.outputs[0]]])
                self.found.like[made] = call
                yield made

    def _constant(self, value: np.ndarray[Any, Any]) -> operators.Value:
        self.found.constant_bytes += value.nbytes
        return operators.Value("block", tf.TensorSpec(value.shape, value.dtype), value.nbytes, constant=value)

    def _value(self, whole: operators.Value, rows: int) -> operators.Value:
        shape = [rows, *self.shape[1:]]
        return operators.Value(whole.name, tf.TensorSpec(shape, whole.spec.dtype), whole.bytes // self.shape[0] * rows)

    def _call(self, rows: int, kind: str | operators.Call, inputs: list[operators.Value], outputs: list[operators.Value]) -> operators.Call:
        key = rows, kind if isinstance(kind, operators.Call) else (kind, *(v.spec.dtype for v in inputs[-1:] + outputs))
        if key not in self.ops:
            with self.graph.as_default():
                given = [tf.compat.v1.placeholder(v.spec.dtype, v.spec.shape) for v in inputs]
                self.ops[key] = Emitter().emit(kind.op, given)[0].op if isinstance(kind, operators.Call) else _made(kind, given, outputs)
        return operators.Call(self.ops[key], inputs, outputs, once=True)


def _made(kind: str, given: list[tf.Tensor], outputs: list[operators.Value]) -> tf.Operation:
    if kind == "Slice":
        return tf.raw_ops.Slice(input=given[0], begin=given[1], size=given[2]).op
    if kind == "ResourceGather":
        return tf.raw_ops.ResourceGather(resource=given[0], indices=given[1], dtype=outputs[0].spec.dtype).op
    if kind == "DisableCopyOnRead":
        return tf.raw_ops.DisableCopyOnRead(resource=given[0])
    return getattr(tf.raw_ops, kind)(resource=given[0], indices=given[1], updates=given[2])
