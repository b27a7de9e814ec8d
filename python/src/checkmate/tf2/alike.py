# SPDX-License-Identifier: Apache-2.0
"""Steps that differ only in the type of the integers that are given to them, and cast these first: the plan of one serves the other.

Where all that reads an argument is casts to one type, the step is the same from there on as for an argument of that type.
"""

from __future__ import annotations

import hashlib

import tensorflow as tf

from .measure import described
from .operators import Call, Program, Value

_INTEGERS = {tf.int32, tf.int64}


def serves(planned: Program, given: Program) -> bool:
    """Whether the plan of the one is one of the other, when its integers are made those that were planned for. O(calls and operands)."""
    if len(planned.inputs) != len(given.inputs):
        return False
    casts = _casts(given)
    for mine, other in zip(given.inputs, planned.inputs, strict=True):
        one, two = mine.spec.dtype, other.spec.dtype
        if mine.spec.shape != other.spec.shape or (one != two and not {one, two} <= _INTEGERS):
            return False
        if one.size > two.size:  # what the step makes of them has to be in what is left of them
            to = casts[mine][0].outputs[0].spec.dtype if mine in casts else one
            if not (to in _INTEGERS and to.size <= two.size):
                return False
    return _digest(planned) == _digest(given)


def more_bytes(planned: Program, given: Program) -> int:
    """Bytes on top of those of a planned step that `serves`: the arguments before they are cast."""
    return sum(mine.bytes for mine, other in zip(given.inputs, planned.inputs, strict=True) if mine.spec.dtype != other.spec.dtype)


def _digest(step: Program) -> str:
    """Of the operators in their order, their operands, and the tensors that the step captured, with integer arguments as what they are cast
    to. O(calls and operands)."""
    casts = _casts(step)
    left_out = {call for alike in casts.values() for call in alike}
    numbers: dict[Value, int] = {}
    found: list[object] = [[id(tensor) for tensor in step.captured]]
    for i, value in enumerate(step.inputs):
        stands = [value, *(call.outputs[0] for call in casts.get(value, ()))]
        numbers.update(dict.fromkeys(stands, i))
        found.append((stands[-1].spec.dtype.name, tuple(value.spec.shape), value.variable))

    def named(value: Value) -> object:
        if value.constant is None:
            return numbers[value]
        return value.constant.dtype.str, value.constant.shape, value.constant.tobytes()

    count = len(step.inputs)
    for call in step.calls:
        if call not in left_out:
            found.append((call.type, described(call.op), [named(v) for v in call.inputs], call in step.tail))
            numbers.update((value, count + k) for k, value in enumerate(call.outputs))
            count += len(call.outputs)
    found.append([named(v) for v in step.results])
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _casts(step: Program) -> dict[Value, list[Call]]:
    """For each argument of integers that nothing else reads, the casts to one type."""
    readers: dict[Value, list[Call]] = {value: [] for value in step.inputs if value.spec.dtype in _INTEGERS and value not in step.results}
    for call in step.calls:
        for value in call.inputs:
            if value in readers:
                readers[value].append(call)
    return {
        value: calls
        for value, calls in readers.items()
        if calls and all(call.type == "Cast" for call in calls) and len({call.outputs[0].spec.dtype for call in calls}) == 1
        and not any(call.outputs[0] in step.results for call in calls)
    }  # fmt: skip
