# SPDX-License-Identifier: Apache-2.0
"""The schedule whose run needs the least memory, at any cost.

The least peak of the dataflow graph is not yet a budget: the code that runs may hold more, such as states of random generators, or a
view's storage in addition to a recomputed value. So code is generated for schedules of the least peak and of slightly larger ones, and
the one whose code needs the fewest bytes is taken.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from ..graph import Graph
from ..schedule import Schedule, proven_needed
from ..solver import MinBudgetProgress, Solution, min_budget, solve, solve_frontier
from . import plan_cache
from .claim import Claim
from .tidy import tidied

#: The first search takes `_FIRST` times the seconds of a solve, at least `_AT_LEAST`; at most `_SOLVES` solves follow.
_FIRST, _AT_LEAST, _SOLVES = 2, 3.0, 6

#: Solves after the first search if the least is only to be named in an error: about a budget that is proven too small, and about
#: one for which nothing was found. Without solves the first search has the seconds of one; `_LEFT` solves share what it leaves.
AFTER_PROOF, AFTER_SEARCH, _LEFT = 0, 2, 2

#: The search ends this close to the bytes that are proven to be needed.
_CLOSE = 1e-3

#: Budgets to try for a schedule found without any start, in percent of the least.
MARGINS = (0, 1, 3, 10, 30)


#: Budgets above the least to try, in percent of it; one is reported if it saves at least the share `_WORTH` of the graph's cost.
_MORE, _WORTH = (2, 5, 10, 25), 0.05


@dataclass(frozen=True)
class Next:
    """A budget slightly above the least, and the overhead within it, relative to running without rematerialization."""

    budget_bytes: int
    overhead: float


class Options(Protocol):
    """The part of a front end's options that the solver needs."""

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
    """The most seconds that a search takes, where a solve takes `seconds`."""
    return _first(seconds, solves) + solves * seconds


def _first(seconds: float, solves: int) -> float:
    return max(_AT_LEAST, _FIRST * seconds) if solves else seconds


def beyond(graph: Graph, least: Schedule, options: Options, seconds: float,
           real_peak: Callable[[Schedule], int] | None = None) -> tuple[Next, ...]:  # fmt: skip
    """Budgets above the peak of `least`, up to that without rematerialization, with the cheapest schedules found in `seconds` for all
    of them together. `real_peak`: the bytes that a schedule's run takes, which are then the budgets."""
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
    """The cached result of `beyond`; otherwise that of the search, which is then cached. No path: no cache."""
    known = None if path is None else load(path)
    if known is not None:
        return known
    found = search()
    if path is not None:
        plan_cache.keep(path, json.dumps([asdict(n) for n in found]))
    return found


def load(path: pathlib.Path) -> tuple[Next, ...] | None:
    """The cached result of `beyond`; None if there is none, or it is damaged."""
    try:
        return tuple(Next(int(n["budget_bytes"]), float(n["overhead"])) for n in json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def in_frontier(graph: Graph, options: Options, seconds: float, real_peak: Callable[[Schedule], int],
                search_within: Callable[..., Solution]) -> tuple[Solution, list[str]]:  # fmt: skip
    """For explaining a graph: the cheapest schedule found within the least memory found, and lines about slightly larger budgets.
    `search_within`: `solve` of a budget with the caller's settings."""
    schedule, claim = search(graph, options, seconds, real_peak)
    smallest = search_within(schedule.simulate(graph).peak_bytes, start=schedule)
    if smallest.interrupted:
        raise KeyboardInterrupt
    if smallest.schedule is None:
        return smallest, []
    more = beyond(graph, smallest.schedule, options, seconds)
    return smallest, [_interval(smallest.peak_bytes or 0, claim), *lines(more, smallest.peak_bytes or 0, smallest.overhead or 0.0)]


def _interval(bytes_: int, claim: Claim) -> str:
    return f"of the least budget: {bytes_:,} bytes are enough, {proven_needed(claim.needed_of_class, claim.needing, claim.needed_bytes)}"


def lines(found: Sequence[Next], budget_bytes: int, overhead: float) -> list[str]:
    """Lines about the budgets next to the least, whose overhead is given."""
    return [
        f"{100 * (n.budget_bytes / budget_bytes - 1):.1f} % more memory, budget={n.budget_bytes:,}: {100 * n.overhead:.1f} % more computation was "
        f"found, not {100 * overhead:.1f} %"
        for n in found
    ]


def search(graph: Graph, options: Options, seconds: float, real_peak: Callable[[Schedule], int], solves: int = _SOLVES) -> tuple[Schedule, Claim]:
    """A schedule of the least `real_peak` found, and the bytes that any schedule of the graph is proven to need. `seconds`: of each
    solve, one of several. KeyboardInterrupt on Ctrl-C."""

    def report(so_far: MinBudgetProgress) -> None:
        options.say(f"{so_far.budget_bytes:,} bytes are enough for the graph, {so_far.needed}")

    begin = time.monotonic()
    found = min_budget(graph, strategy=options.strategy, time_limit=_first(seconds, solves), threads=options.threads, seed=options.seed,
                       progress=report if options.progress is not None else None)  # fmt: skip
    if found.interrupted:
        raise KeyboardInterrupt
    best = lowest = tidied(graph, found.schedule)
    least, peak = real_peak(best), found.budget_bytes
    low = max(graph.memory_floor, found.floor_bytes)
    share = 0.25
    if solves == 0 and (left := begin + seconds - time.monotonic()) > 0:
        solves, seconds = _LEFT, left / _LEFT
    for turn in range(solves):
        if least - low <= _CLOSE * least:
            break
        # Above the lowest peak there may be schedules whose code needs less on top of the peak; below it, ones with a lower peak. Most
        # solves have no start: without an improvement in time, they would only return it.
        above = turn % 2 == 0 and peak < least
        target = peak + int(share * (least - peak)) if above else least - (least - low + 3) // 4
        if target >= least or (target < low and not above):
            break
        solution = solve(graph, target, strategy=options.strategy, time_limit=seconds, gap=options.gap, threads=options.threads,
                         seed=options.seed + turn, start=lowest if turn == 0 else None)  # fmt: skip
        if solution.interrupted:
            raise KeyboardInterrupt
        if solution.schedule is None:
            low = max(low, target)  # not proven: the search continues above
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
