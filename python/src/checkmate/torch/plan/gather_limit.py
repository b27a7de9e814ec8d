# SPDX-License-Identifier: Apache-2.0
"""Schedules that gather parameters no more often than the user allows: by default no more often than FSDP2 itself does, which gathers each
unit once for the forward and once for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import InfeasibleError
from ...planning.repeats import Repeats
from ...schedule import Schedule
from ..distributed import ranks, shards
from ..fx import dataflow
from ..options import Options
from . import solving

#: Prices of a call, in what one costs, and how many units' parameters a schedule is to leave room for, in which gathered ones can be
#: held longer. Tried until one gives few enough calls.
_ATTEMPTS = ((128, 0), (128, 1), (32, 0))

#: Where the least is looked for: budgets from that of a schedule of too many calls up, each this many times the one before, and how often the
#: space between the last that was not enough and the first that was is halved.
_UP, _HALVINGS = 1.12, 2

#: The price under which the schedule found is made better.
_AFTERWARDS = 32


def limit_of(model: dataflow.Joint, options: Options) -> Repeats | None:
    """None where there is no limit."""
    if options.extra_gathers is None:
        return None
    calls = {i: op.node for i, op in enumerate(model.ops) if op.node is not None and op.node.target is shards.GATHER and shards.may_repeat(op.node)}
    most = len(calls) + sum(map(shards.repeated_by_fsdp, calls.values())) + options.extra_gathers
    return Repeats(frozenset(calls), most) if calls else None


def solve(model: dataflow.Joint, limit: int, options: Options, start: Schedule | None = None) -> ranks.Found:
    """As `solving.solve_together`, within the limit of calls, too. `start`: one of few enough calls."""
    first, claim, origin = solving.solve_together(model.graph, limit, options, start)
    graph, repeats = model.graph, limit_of(model, options)
    if repeats is None:
        return first, claim, origin
    first = repeats.held(graph, first, limit)
    if repeats.allow(first):
        return first, claim, origin
    options.say(f"looking for a schedule that gathers {repeats.most} times at most, not {repeats.runs(first)}")
    known = [start] if start is not None and repeats.allow(start) and start.verify(graph, limit) else []
    known += [found] if (found := few_enough(repeats, model, limit, options, _ATTEMPTS[:1] if known else _ATTEMPTS)) is not None else []
    if not known:
        raise InfeasibleError(f"no schedule was found within {limit:,} bytes that gathers parameters at most {repeats.most} times, and so no more "
                              f"often than FSDP2{' and extra_gathers= allow' if options.extra_gathers else ''}; extra_gathers= allows more",
                              proven=False, budget_bytes=limit, smallest_known=None, largest_impossible=graph.memory_floor - 1)  # fmt: skip

    def cost(schedule: Schedule) -> int:
        return schedule.simulate(graph).cost

    best = min(known, key=cost)
    better = _priced(repeats, model, _AFTERWARDS, limit, limit, options, best)
    if better is not None and repeats.allow(better) and cost(better) < cost(best):
        best = better
    return best, claim, "solver"


def few_enough(repeats: Repeats, model: dataflow.Joint, limit: int, options: Options,
               attempts: Sequence[tuple[int, int]] = _ATTEMPTS) -> Schedule | None:  # fmt: skip
    """A schedule of few enough calls, None where none is found."""
    unit = repeats.largest(model.graph)
    for price, units in attempts:
        schedule = _priced(repeats, model, price, limit - units * unit, limit, options, None)
        if schedule is not None and repeats.allow(schedule):
            return schedule
    return None


def least(repeats: Repeats, model: dataflow.Joint, lowest: Schedule, options: Options) -> Schedule:
    """The schedule of few enough calls with the least peak that is found; `lowest` has the least peak of all, and too many."""
    graph = model.graph
    best = Schedule.baseline(graph)
    low, high = (schedule.simulate(graph).peak_bytes for schedule in (lowest, best))
    if repeats.allow(held := repeats.held(graph, lowest, low)):
        return held
    halvings, target = 0, int(_UP * low)
    while target < high and halvings <= _HALVINGS:
        found = few_enough(repeats, model, target, options)
        if found is None:
            low = target
        else:
            best, high = found, min(target, found.simulate(graph).peak_bytes)
            options.say(f"{high:,} bytes are enough to gather {repeats.most} times at most")
        halvings += halvings > 0 or found is not None
        target = (low + high) // 2 if halvings else int(_UP * target)
    return best


def _priced(
    repeats: Repeats, model: dataflow.Joint, price: int, target: int, limit: int, options: Options, start: Schedule | None
) -> Schedule | None:
    """The schedule found for `target` bytes where a call costs this many times more, with what `limit` bytes have room for held."""
    graph = model.graph
    if target < graph.memory_floor:
        return None
    try:
        quiet = replace(options, progress=None)  # costs with prices say nothing to the user
        found = solving.solve_together(repeats.priced(graph, price * repeats.cost(graph)), target, quiet, start, price)
    except InfeasibleError:
        return None
    return repeats.held(graph, found[0], limit)
