# SPDX-License-Identifier: Apache-2.0
"""A schedule for a graph and a limit: from the disk, from another process of the job, or from the solver."""

from __future__ import annotations

from ...graph import Graph
from ...planning import plan_cache
from ...planning.claim import Claim
from ...planning.tidy import tidied
from ...schedule import Schedule
from ...solver import Progress, solve
from ..distributed import ranks
from ..memory import caching_allocator
from ..options import Options
from ..trace import phases


def time_limit(graph: Graph, options: Options) -> float:
    """Seconds for the solver; unless they are given, enough that planning takes less than five for a thousand operators."""
    return min(30.0, 1.0 + len(graph.ops) / 800) if options.time_limit is None else options.time_limit


def of_allocator(options: Options) -> tuple[object, ...]:
    """What the least depends on in addition to the graph where the allocator's gaps count."""
    return () if options.counts == "allocated" else (options.counts, caching_allocator.expandable_segments())


def settings_of(options: Options) -> tuple[object, ...]:
    """What a plan depends on in addition to the graph and the budget."""
    return options.strategy, options.time_limit, options.gap, options.seed


def solve_together(graph: Graph, limit: int, options: Options, start: Schedule | None = None, *details: object) -> ranks.Found:
    """As `_solve_cached`; the processes of one distributed job use the schedule of the first one to plan the same graph, where costs may
    differ. `details`: what tells this search from others of the kind."""
    settings = (*settings_of(options), start is not None, *details)
    return ranks.first_come(graph, limit, settings, lambda: _solve_cached(graph, limit, options, start), time_limit(graph, options) + 60)


def _solve_cached(graph: Graph, limit: int, options: Options, start: Schedule | None) -> ranks.Found:
    """A schedule of the same graph, budget and options found before, if the verifier accepts it; else solves, from `start`."""
    path = plan_cache.path_of(graph, limit, settings_of(options))
    if options.cache:
        known = plan_cache.load(path, graph, limit)
        if known is not None:
            return *known, "cache"
    last = [-1.0]

    def report(p: Progress) -> None:
        if p.cost is not None and p.seconds - last[0] >= 1.0:
            last[0] = p.seconds
            gap = "" if p.gap is None else f", gap {100 * p.gap:.2g} %"
            options.say(f"{p.seconds:.0f} s: overhead {100 * (p.cost / max(1, graph.total_cost) - 1):.2f} %{gap} ({p.source})")

    tell = report if options.progress is not None else None
    with phases.part(phases.SOLVING):
        solution = solve(graph, limit, strategy=options.strategy, time_limit=time_limit(graph, options), gap=options.gap,
                         threads=options.threads, seed=options.seed, start=start, progress=tell)  # fmt: skip
    if solution.interrupted:
        raise KeyboardInterrupt
    schedule = solution.require().schedule
    assert schedule is not None
    schedule = tidied(graph, schedule)
    claim = Claim.of(graph, solution)
    if options.cache:
        plan_cache.store(path, schedule, claim)
    return schedule, claim, "solver"
