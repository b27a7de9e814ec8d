# SPDX-License-Identifier: Apache-2.0
"""A traced TensorFlow step as a list of operators: shape arithmetic folded, order fixed.

A step is traced once, as a whole: forward pass, gradients, the optimizer's update. Most of its operators compute shapes and
constants of shapes; those are computed here, once, with TensorFlow's own kernels. What is left runs in the order in which
it was traced, but for updates of variables (`order.py`).
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from ..errors import UnsupportedError
from . import run
from .inline import CALLS, inlined
from .operators import Call, Program, Value
from .order import in_order

log = logging.getLogger("checkmate.tf2")

#: The largest constant that is folded, in bytes.
FOLDED_BYTES = 4096

_SHAPES = {"Shape", "ShapeN", "Size", "Rank"}
#: Operators that run functions: computed once, nothing inside is planned.
FUNCTIONAL = {
    "If",
    "While",
    "Case",
    "StatelessIf",
    "StatelessWhile",
    "StatelessCase",
    "SymbolicGradient",
}
_WITHOUT_EFFECT = {"ReadVariableOp", "Placeholder", "StatelessIf", "StatelessWhile", "StatelessCase", "SymbolicGradient"}
#: Their results are their operands: a reader of one may read the other.
_PASSED_ON = {"Identity", "IdentityN", "StopGradient", "PreventGradient"}
#: Of an element of a string tensor; longer strings are on the heap, which is not the allocator's.
_STRING_BYTES = 24
#: By gradient, the pooling for which oneDNN keeps the positions of the maxima, in a tensor outside the graph, until the gradient has run.
_KEEPS_PLACES = {"MaxPoolGrad": "MaxPool", "MaxPool3DGrad": "MaxPool3D"}
#: Operators that write over an operand, which others may read.
_WRITES_OVER = {"InplaceUpdate", "InplaceAdd", "InplaceSub"}
#: Operators that run Python, whose memory is not counted.
_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}


def read(concrete: Any) -> Program:
    """The program of a concrete function of tf.function. UnsupportedError if sizes are not known."""
    return _Reader(inlined(concrete.graph), [outer for outer, _ in concrete.graph.captures]).read()


class _Reader:
    def __init__(self, graph: Any, captured: list[tf.Tensor]) -> None:
        self.graph, self.captured = graph, captured
        self.values: dict[int, Value] = {}

    def read(self) -> Program:
        placeholders = list(self.graph.inputs)
        for tensor in placeholders:
            self._value(tensor)
        calls: list[Call] = []
        made: dict[str, Call] = {}
        inputs = {t.op.name for t in placeholders}
        for op in self.graph.get_operations():
            if op.name in inputs:
                continue
            call = Call(op, [self._value(t) for t in op.inputs], [self._value(t) for t in op.outputs], _runs_once(op))
            call.after = [made[c.name] for c in op.control_inputs if c.name in made]
            made[op.name] = call
            if op.type in _PASSED_ON:
                for given, passed in zip(op.inputs, op.outputs, strict=True):
                    self.values[id(passed)] = self._value(given)
            else:
                calls.append(call)
        results = [self._value(t) for t in self.graph.outputs]
        calls = self._fold(calls, results)
        calls, results = _merged(calls, results)
        calls = _needed(calls, results)
        traced = calls
        calls, main = in_order(calls, results)
        for call in calls:
            self._require_sizes(call, updates=call not in main)
            if call.type in _WRITES_OVER:
                raise UnsupportedError(f"{call.name} ({call.type}) writes over its operand: tf.tensor_scatter_nd_update and its like can be planned")
            if call.type in _PYTHON:
                log.warning("%s (%s) runs Python: what that allocates is not counted in the budget", call.name, call.type)
        _count_places(calls)
        used = {v for call in calls for v in call.inputs} | set(results)
        constants = sum(v.bytes for v in used if v.constant is not None)
        return Program(self.graph, [self._value(t) for t in placeholders], self.captured, calls, results, constants,
                       set(calls) - main, traced)  # fmt: skip

    def _value(self, tensor: tf.Tensor) -> Value:
        value = self.values.get(id(tensor))
        if value is None:
            value = self.values[id(tensor)] = _value_of(tensor)
        return value

    def _require_sizes(self, call: Call, updates: bool) -> None:
        for value in call.outputs:
            if value.bytes < 0:
                shape = value.spec.shape
                if value.spec.dtype == tf.variant:
                    raise UnsupportedError(
                        f"{call.name} ({call.type}) keeps tensors in a list (a TensorArray), whose bytes are not known. Loops do so, and so does "
                        "any while or cond that gradients go through. A recurrent layer can be planned with unroll=True, a loop of your own as "
                        "a Python loop"
                    )
                advice = (
                    "a size that depends on data, such as of a histogram, or of an embedding's update by this optimizer; Adam and SGD do without"
                    if updates and call.type in FUNCTIONAL
                    else "give specs and inputs of fixed shapes"
                )
                raise UnsupportedError(
                    f"{call.name} ({call.type}) gives a tensor of shape {shape}, which is not known when the step is planned: {advice}"
                )

    def _fold(self, calls: list[Call], results: list[Value]) -> list[Call]:
        """Folds values that depend only on constants and known shapes, and drops the calls that computed them."""
        foldable: list[Call] = []
        known: set[Value] = set()
        for call in calls:
            if _is_constant(call, known):
                known.update(call.outputs)
                foldable.append(call)
        gone = set(foldable)
        rest = [call for call in calls if call not in gone]
        wanted = [v for v in dict.fromkeys([v for call in rest for v in call.inputs] + results) if v in known]
        for value, constant in zip(wanted, run.evaluate(self.graph, foldable, wanted), strict=True):
            value.constant = constant
            value.bytes = constant.nbytes
        return rest


def _is_constant(call: Call, known: set[Value]) -> bool:
    """Whether the call's outputs are known before the step runs, and small."""
    if call.type == "Const":
        return 0 <= call.outputs[0].bytes <= FOLDED_BYTES
    if call.type in _SHAPES:
        return all(v.spec.shape.is_fully_defined() for v in call.inputs)
    if call.once or not call.inputs or not call.outputs or any(v not in known for v in call.inputs):
        return False
    # Some give indices, as many as there are; their shapes are known when they have run.
    return all(v.bytes >= 0 or v.spec.shape.rank == 1 for v in call.outputs) and sum(max(0, v.bytes) for v in call.outputs) <= FOLDED_BYTES


def _value_of(tensor: tf.Tensor) -> Value:
    dtype = tensor.dtype
    if dtype == tf.resource:
        return Value(tensor.name, tf.TensorSpec([], dtype), 0, variable=_variable_bytes(tensor), is_resource=True)
    size = -1
    if tensor.shape.is_fully_defined() and dtype != tf.variant:
        size = int(np.prod(tensor.shape.as_list(), dtype=np.int64)) * (_STRING_BYTES if dtype == tf.string else dtype.size)
    return Value(tensor.name, tf.TensorSpec(tensor.shape, dtype), size)


def _variable_bytes(handle: tf.Tensor) -> int:
    from tensorflow.python.ops import handle_data_util

    data = handle_data_util.get_resource_handle_data(handle)
    if data is None or not data.is_set or not data.shape_and_type:
        return 0
    first = data.shape_and_type[0]
    dims = [d.size for d in first.shape.dim]
    if first.shape.unknown_rank or any(d < 0 for d in dims):
        raise UnsupportedError(f"{handle.name}: a variable whose shape is not fixed cannot be planned")
    return int(np.prod(dims, dtype=np.int64)) * tf.as_dtype(first.dtype).size


def _count_places(calls: list[Call]) -> None:
    """Adds what oneDNN keeps for the results of pooling to their bytes: it lives as long."""
    if not _pywrap_util_port.IsMklEnabled():
        return
    made_by = {v: call for call in calls for v in call.outputs}
    pooled = {call.inputs[1] for call in calls if call.type in _KEEPS_PLACES}
    for value in pooled:
        call = made_by.get(value)
        if call is not None and call.type in _KEEPS_PLACES.values():
            window = int(np.prod(call.op.get_attr("ksize"), dtype=np.int64))
            value.bytes += value.bytes // value.spec.dtype.size * (1 if window < 256 else 4)


def _runs_once(op: tf.Operation) -> bool:
    if op.type in CALLS:  # of functions that XLA compiles, which have no state
        return False
    return bool(op.op_def.is_stateful) or op.type in FUNCTIONAL or op.type == "Placeholder"


def _merged(calls: list[Call], results: list[Value]) -> tuple[list[Call], list[Value]]:
    """The calls without those that repeat an earlier call on the same operands whose outputs are still needed by then, which only lowers
    memory; and the results. Repetitions of outputs that nothing needs any more are meant as recomputations, such as swish's sigmoid in
    the backward pass, and stay."""
    last = {v: i for i, call in enumerate(calls) for v in call.inputs} | dict.fromkeys(results, len(calls))
    first: dict[Value, Value] = {}
    seen: dict[object, list[Call]] = {}
    kept: list[Call] = []
    for i, call in enumerate(calls):
        call.inputs = [first.get(v, v) for v in call.inputs]
        alike = [] if call.once or call.type == "Const" or not call.outputs else seen.setdefault((call.type, *map(_identity, call.inputs)), [])
        same = next((other for other in alike if run.attributes(other.op) == run.attributes(call.op)), None)
        if same is None or max(last.get(v, -1) for v in same.outputs) < i:
            alike[:] = [call, *(other for other in alike if other is not same)]
            kept.append(call)
            continue
        for mine, theirs in zip(call.outputs, same.outputs, strict=True):
            first[mine] = theirs
            last[theirs] = max(last.get(theirs, -1), last.get(mine, -1))
    return kept, [first.get(v, v) for v in results]


def _identity(value: Value) -> object:
    """Equal for the same tensor, and for constants of the same elements."""
    return id(value) if value.constant is None else (value.constant.dtype.str, value.constant.shape, value.constant.tobytes())


def _needed(calls: list[Call], results: list[Value]) -> list[Call]:
    """The calls without those that have no effect: neither stateful nor read by anything."""
    wanted = set(results)
    kept: list[Call] = []
    for call in reversed(calls):
        effect = call.once and call.type not in _WITHOUT_EFFECT
        if effect or any(v in wanted for v in call.outputs):
            kept.append(call)
            wanted.update(call.inputs)
    return kept[::-1]
