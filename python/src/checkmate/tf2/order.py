# SPDX-License-Identifier: Apache-2.0
"""The order in which the calls of a step run for the first time.

Gradients and outputs keep the order in which they were traced. The *tail*, on which neither depends, such as the
optimizer's updates, runs as early as it can, so that gradients do not wait for one another; what it needs and does not
depend on gradients, such as the learning rate, is computed when it is asked for.
"""

from __future__ import annotations

from .operators import Call, Value


def in_order(calls: list[Call], results: list[Value]) -> tuple[list[Call], set[Call]]:
    """The calls, and those that are not of the tail. A variable is not assigned while such calls have yet to read what it was.
    O(calls and operands)."""
    main = _main(calls, results)
    waits = _waits(calls, main)
    late: set[Call] = set()  # of the tail, what depends on the others
    for call in calls:
        if call not in main and any(w in main or w in late for w in waits[call]):
            late.add(call)
    waiting = {call: sum(w in main or w in late for w in waits[call]) for call in late}
    allows: dict[Call, list[Call]] = {}
    for call in calls:
        for other in waits[call] if call in late else ():
            allows.setdefault(other, []).append(call)
    position = {call: i for i, call in enumerate(calls)}
    order: list[Call] = []
    done: set[Call] = set()

    def emit(call: Call) -> None:
        stack = [call]
        while stack:
            now = stack[-1]
            if now in done:
                stack.pop()
                continue
            first = [w for w in waits[now] if w not in done]
            if first:
                stack += sorted(first, key=lambda c: -position[c])
                continue
            order.append(now)
            done.add(now)
            ready = []
            for later in allows.get(now, ()):
                if now in main or now in late:
                    waiting[later] -= 1
                    if waiting[later] == 0:
                        ready.append(later)
            stack += sorted(ready, key=lambda c: -position[c])

    for call in calls:
        if call in main:
            emit(call)
    for call in calls:
        emit(call)
    assert len(order) == len(calls)
    return order, main


def _main(calls: list[Call], results: list[Value]) -> set[Call]:
    """The calls that compute results or gradients, and those that these need."""
    made_by = {v: call for call in calls for v in call.outputs}
    main: set[Call] = set()
    stack = [made_by[v] for v in results if v in made_by] + [call for call in calls if call.is_backward]
    while stack:
        call = stack.pop()
        if call not in main:
            main.add(call)
            stack += [made_by[v] for v in call.inputs if v in made_by]
    return main


def _waits(calls: list[Call], main: set[Call]) -> dict[Call, set[Call]]:
    """For each call, those that have to run before: producers of its operands, calls that control edges name, and for an assignment
    the readers of the variable's old value."""
    made_by = {v: call for call in calls for v in call.outputs}
    waits: dict[Call, set[Call]] = {call: set() for call in calls}
    kept = set(calls)
    readers: dict[Value, list[Call]] = {}
    for call in calls:
        waits[call].update(made_by[v] for v in call.inputs if v in made_by)
        waits[call].update(kept_before(call, kept, made_by))
        if call.assigns:
            for other in readers.get(call.inputs[0], ()):  # users of the variable's handle
                waits[call].add(other)
                waits[call].update(r for v in other.outputs for r in readers.get(v, ()) if r in main)
        for value in call.inputs:
            readers.setdefault(value, []).append(call)
    return waits


def kept_before(call: Call, kept: set[Call], made_by: dict[Value, Call]) -> set[Call]:
    """The calls that control edges put before, followed through dropped calls."""
    found: set[Call] = set()
    stack, seen = list(call.after), set()
    while stack:
        other = stack.pop()
        if other in seen:
            continue
        seen.add(other)
        if other in kept:
            found.add(other)
        else:
            stack += other.after
            stack += [made_by[v] for v in other.inputs if v in made_by]
    return found
