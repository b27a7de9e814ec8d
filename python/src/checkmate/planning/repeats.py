# SPDX-License-Identifier: Apache-2.0
"""Schedules with a limit on the number of computations of some operators, all of them together.

The solver knows whether an operator may be recomputed, but no limit. So each computation of these operators gets a price in addition to
its cost: the higher the price, the fewer of them are in the cheapest schedule found (Lagrangian relaxation). A schedule may also have room
to hold a value that it recomputes: that saves a computation at no cost. The bound of the problem without the limit is also valid with it,
since every schedule within the limit is one of the problem without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ..graph import Graph
from ..schedule import Schedule
from .tidy import tidied


@dataclass(frozen=True)
class Repeats:
    """The operators `ops` may run at most `most` times in total, first computations included."""

    ops: frozenset[int]
    most: int

    def runs(self, schedule: Schedule) -> int:
        return sum(step.kind == "compute" and step.index in self.ops for step in schedule.steps)

    def allow(self, schedule: Schedule) -> bool:
        return self.runs(schedule) <= self.most

    def cost(self, graph: Graph) -> int:
        """Of one run, on average."""
        ops = graph.ops
        return max(1, sum(ops[i].cost for i in self.ops) // max(1, len(self.ops)))

    def largest(self, graph: Graph) -> int:
        """The most bytes that one of these operators computes."""
        ops, tensors = graph.ops, graph.tensors
        return max((sum(tensors[t].bytes for t in ops[i].outputs) for i in self.ops), default=0)

    def priced(self, graph: Graph, price: int) -> Graph:
        """The graph in which a computation of these operators costs `price` more."""
        content = json.loads(graph.to_json(places=False))
        for i in self.ops:
            content["ops"][i]["cost"] += price
        return Graph.parse(json.dumps(content))

    def held(self, graph: Graph, schedule: Schedule, budget: int) -> Schedule:
        """The schedule with what these operators compute held instead of computed again, as far as the budget allows, what is needed soonest
        first. Never more expensive. O(steps * runs)."""
        steps, tensors = schedule.steps, graph.tensors
        used = schedule.simulate(graph).timeline
        dropped: set[int] = set()
        for _length, end, frees in sorted(self._gaps(graph, schedule)):
            start, more = frees[0], sum(tensors[steps[at].index].bytes for at in frees)
            if max(used[start : end + 1]) + more > budget:
                continue
            dropped.update((end, *frees))
            for at in range(start, end + 1):
                used[at] += more
        made = schedule.with_steps([step for at, step in enumerate(steps) if at not in dropped])
        return tidied(graph, made) if dropped and made.verify(graph, budget) else schedule

    def _gaps(self, graph: Graph, schedule: Schedule) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Between a run of these operators and the next one: how many steps are without some of what it computed, the place of the next one, and the
        places of frees in between, in order."""
        outputs = [op.outputs for op in graph.ops]
        made: dict[int, int] = {}
        freed: dict[int, int] = {}
        for at, step in enumerate(schedule.steps):
            if step.kind == "free":
                freed[step.index] = at
            elif step.index in self.ops:
                before = made.get(step.index, at)
                frees = tuple(sorted(freed[t] for t in outputs[step.index] if freed.get(t, -1) > before))
                if frees:
                    yield at - frees[0], at, frees
                made[step.index] = at
