# SPDX-License-Identifier: Apache-2.0
"""The schedule whose run needs least memory, whatever it costs.

The least peak of the dataflow graph is not yet a budget: what runs may hold more, such as states of random generators, or a
view's storage beside a value computed again. So schedules of the least peak and of a little more are made into what would run, and the
one that needs fewest bytes there is taken.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from ..graph import Graph
from ..schedule import Schedule
from ..solver import Solution, min_budget, solve, solve_frontier
from . import plan_cache
from .claim import Claim
from .tidy import tidied

#: The first search has this many times the seconds of a solve, and at least so many; then come at most so many solves.
_FIRST, _AT_LEAST, _SOLVES = 2, 3.0, 6

#: Solves after the first search, where the least is only looked for to be named in an error: of a budget that is proven too small, and
#: of one for which nothing was found. Without solves the first search has the seconds of one.
AFTER_PROOF, AFTER_SEARCH = 0, 2

#: What is this close to the bytes that are proven to be needed is not made better.
_CLOSE = 1e-3

#: Budgets to try for a schedule found without any start, in percent of the least.
MARGINS = (0, 1, 3, 10, 30)


#: Budgets above the least to look at, in percent of it; what they save is worth a line where it is so much of the least's cost.
_MORE, _WORTH = (2, 5, 10, 25), 0.05


@dataclass(frozen=True)
class Next:
    """What a little more memory than the least costs: a budget, and the computation within it beside that without rematerialization."""

    budget_bytes: int
    overhead: float


class Options(Protocol):
    """What a front door's options have for the solver."""

    @property
    def strategy(self) -> str: ...
    @property
    def gap(self) -> float: ...
    @property
    def threads(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def progress(self) -> Callable[[str], None] | None: ...
    def say(self, line: str) -> None: ...


def longest(seconds: float, solves: int = _SOLVES) -> float:
    """Seconds that a search takes at most, where a solve has so many."""
    return _first(seconds, solves) + solves * seconds


def _first(seconds: float, solves: int) -> float:
    return max(_AT_LEAST, _FIRST * seconds) if solves else seconds


def beyond(graph: Graph, least: Schedule, options: Options, seconds: float,
           real_peak: Callable[[Schedule], int] | None = None) -> tuple[Next, ...]:  # fmt: skip
    """The budgets next to the least, which is the peak of a schedule, up to that without rematerialization, with the cheapest schedules
    found in so many seconds, all together. `real_peak`: the bytes that a schedule's run takes, which are then the budgets."""
    facts, top = least.simulate(graph), Schedule.baseline(graph).simulate(graph).peak_bytes
    budgets = sorted({min(top, facts.peak_bytes + -(-facts.peak_bytes * percent // 100)) for percent in _MORE} - {facts.peak_bytes})
    found = solve_frontier(graph, budgets, time_limit=seconds, gap=options.gap, threads=options.threads, seed=options.seed, start=least)
    if any(solution.interrupted for solution in found):
        raise KeyboardInterrupt
    made: list[Next] = []
    last, limit = facts.cost, facts.peak_bytes if real_peak is None else real_peak(least)
    for solution in found:
        if solution.schedule is not None and (cost := solution.cost or 0) <= last - _WORTH * graph.total_cost:
            bytes_ = solution.budget_bytes if real_peak is None else real_peak(tidied(graph, solution.schedule))
            if bytes_ > limit:
                last = cost
                made.append(Next(bytes_, cost / max(1, graph.total_cost) - 1))
    return tuple(made)


def kept(path: pathlib.Path | None, search: Callable[[], tuple[Next, ...]]) -> tuple[Next, ...]:
    """What is on disk of `beyond`; else what the search finds, which is then kept there. No path: nothing is kept."""
    known = None if path is None else load(path)
    if known is not None:
        return known
    found = search()
    if path is not None:
        plan_cache.keep(path, json.dumps([asdict(n) for n in found]))
    return found


def load(path: pathlib.Path) -> tuple[Next, ...] | None:
    """What was kept of `beyond`; None where there is nothing, or it is damaged."""
    try:
        return tuple(Next(int(n["budget_bytes"]), float(n["overhead"])) for n in json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def in_frontier(graph: Graph, options: Options, seconds: float, real_peak: Callable[[Schedule], int],
                search_within: Callable[..., Solution]) -> tuple[Solution, list[str]]:  # fmt: skip
    """For who explains a graph: the cheapest found in the least memory that is found, and what is told of a little more.
    `search_within`: `solve` of a budget with the caller's settings."""
    schedule, _claim = search(graph, options, seconds, real_peak)
    smallest = search_within(schedule.simulate(graph).peak_bytes, start=schedule)
    if smallest.interrupted:
        raise KeyboardInterrupt
    if smallest.schedule is None:
        return smallest, []
    more = beyond(graph, smallest.schedule, options, seconds)
    return smallest, lines(more, smallest.peak_bytes or 0, smallest.overhead or 0.0)


def lines(found: Sequence[Next], budget_bytes: int, overhead: float) -> list[str]:
    """What is told of the budgets next to the least, whose overhead is given."""
    return [
        f"{100 * (n.budget_bytes / budget_bytes - 1):.1f} % more memory, budget={n.budget_bytes:,}: {100 * n.overhead:.1f} % more computation was "
        f"found, not {100 * overhead:.1f} %"
        for n in found
    ]


def search(graph: Graph, options: Options, seconds: float, real_peak: Callable[[Schedule], int], solves: int = _SOLVES) -> tuple[Schedule, Claim]:
    """A schedule of the least `real_peak` found, and the bytes that any schedule of the graph is proven to need. `seconds`: of each
    solve, one of several. KeyboardInterrupt on Ctrl-C."""

    def report(known: int, needed: int) -> None:
        options.say(f"{known:,} bytes are enough for the graph, {needed:,} are needed")

    found = min_budget(graph, strategy=options.strategy, time_limit=_first(seconds, solves), threads=options.threads, seed=options.seed,
                       progress=report if options.progress is not None else None)  # fmt: skip
    if found.interrupted:
        raise KeyboardInterrupt
    best = lowest = tidied(graph, found.schedule)
    least, peak = real_peak(best), found.budget_bytes
    low = max(graph.memory_floor, found.lower_bound_bytes if found.bound_covers == "any" else 0)
    share = 0.25
    for turn in range(solves):
        if least - low <= _CLOSE * least:
            break
        # Above the lowest peak there is room for schedules beside which less is needed; below it there may be others. Most
        # solves have no start: where nothing better is found in time, they would only give it back.
        above = turn % 2 == 0 and peak < least
        target = peak + int(share * (least - peak)) if above else least - (least - low + 3) // 4
        if target >= least or (target < low and not above):
            break
        solution = solve(graph, target, strategy=options.strategy, time_limit=seconds, gap=options.gap, threads=options.threads,
                         seed=options.seed + turn, start=lowest if turn == 0 else None)  # fmt: skip
        if solution.interrupted:
            raise KeyboardInterrupt
        if solution.schedule is None:
            low = max(low, target)  # which is no proof: the search goes on above
            continue
        schedule = tidied(graph, solution.schedule)
        real, below = real_peak(schedule), schedule.simulate(graph).peak_bytes
        if below < peak:
            lowest, peak = schedule, below
        share = share if real < least or not above else 0.5 + share / 2
        if real < least:
            best, least = schedule, real
            options.say(f"{least:,} bytes are enough")
    return best, Claim.of_least(graph, found)
