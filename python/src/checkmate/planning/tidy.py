# SPDX-License-Identifier: Apache-2.0
"""Removes unnecessary recomputations from a schedule.

A search may drop a value while a view of the same storage stays alive, and compute it again later. In the dataflow graph
that costs time only; in a framework the second computation makes a second storage in addition to the view's. Keeping the value
costs no bytes, since its storage is there all the time, so the second computation is left out, and with it everything
that was computed again for its sake alone.
"""

from __future__ import annotations

from ..graph import Graph
from ..schedule import Schedule, Step


def tidied(graph: Graph, schedule: Schedule) -> Schedule:
    """Never more expensive, and never above the peak of `schedule`. One that moves tensors stays as it is. O(steps and operands)."""
    steps = schedule.steps
    if any(step.kind not in ("compute", "free") for step in steps):
        return schedule
    kept = _without_unused(graph, _without_needless(graph, steps))
    return schedule if len(kept) == len(steps) else schedule.with_steps(kept)


def _roots(graph: Graph) -> list[int]:
    """For each tensor the one that has the bytes of its storage."""
    return [i if t.alias_of < 0 else t.alias_of for i, t in enumerate(graph.tensors)]


def _without_needless(graph: Graph, steps: list[Step]) -> list[Step]:
    ops, roots = graph.ops, _roots(graph)
    produced = {t for op in ops for t in op.outputs}
    alive = {i for i in range(len(roots)) if i not in produced}
    members = [0] * len(roots)  # live tensors of each storage
    for t in alive:
        members[roots[t]] += 1
    life = [0] * len(roots)  # how often each storage has died
    made_in: dict[int, int] = {}  # tensor -> which life of its storage it was made in
    freed_at: dict[int, int] = {}
    dropped: set[int] = set()

    def die(tensor: int) -> None:
        alive.discard(tensor)
        members[roots[tensor]] -= 1
        if members[roots[tensor]] == 0:
            life[roots[tensor]] += 1

    def born(tensor: int) -> None:
        if tensor not in alive:
            alive.add(tensor)
            members[roots[tensor]] += 1

    for at, step in enumerate(steps):
        if step.kind == "free":
            freed_at[step.index] = at
            die(step.index)
            continue
        outputs = ops[step.index].outputs
        still_there = all(t in made_in and members[roots[t]] > 0 and made_in[t] == life[roots[t]] for t in outputs)
        if outputs and still_there and not step.inplace:
            dropped.add(at)
            dropped.update(freed_at[t] for t in outputs if t not in alive)
            for t in outputs:
                born(t)
            continue
        for operand, _result in step.inplace:
            die(operand)
        for t in outputs:
            born(t)
            made_in[t] = life[roots[t]]
    return [step for at, step in enumerate(steps) if at not in dropped]


def _without_unused(graph: Graph, steps: list[Step]) -> list[Step]:
    """Leaves out further computations whose outputs nothing reads before they are freed."""
    ops = graph.ops
    first: dict[int, int] = {}
    for at, step in enumerate(steps):
        if step.kind == "compute":
            first.setdefault(step.index, at)
    wanted = set(graph.results)
    pending: dict[int, int] = {}  # tensor -> its next free
    dropped: set[int] = set()
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if step.kind == "free":
            pending[step.index] = at
            wanted.discard(step.index)
            continue
        op = ops[step.index]
        if first[step.index] != at and not step.inplace and not any(t in wanted for t in op.outputs) and all(t in pending for t in op.outputs):
            dropped.add(at)
            dropped.update(pending.pop(t) for t in op.outputs)
            continue
        for t in op.outputs:
            wanted.discard(t)
            pending.pop(t, None)
        wanted.update(op.inputs)
    return [step for at, step in enumerate(steps) if at not in dropped]
