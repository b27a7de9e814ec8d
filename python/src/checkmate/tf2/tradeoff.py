# SPDX-License-Identifier: Apache-2.0
"""What a memory budget would cost a TensorFlow step."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from ..graph import Graph
from ..planning import budget as sizes
from ..planning import least
from ..planning.frontier import Frontier, head, line, require_folder, require_points, require_svg, size, table
from ..schedule import Schedule, Way
from ..solver import Solution, frontier, solve
from .planner import Options, Traced, time_limit
from .report import recipes


def explain(
    traced: Traced,
    options: Options,
    *,
    budgets: int | str,
    budget: int | float | str | None,
    plot: str | os.PathLike[str] | None,
    report: str | os.PathLike[str] | None,
    show: Callable[[str], None] | None,
) -> Frontier:
    """The frontier of a step, reported line by line as it is found. KeyboardInterrupt on Ctrl-C."""
    require_points(budgets)
    if plot is not None:
        require_svg(plot)
    for path in (plot, report):
        if path is not None:
            require_folder(path)
    graph, tell = traced.graph, show or (lambda _line: None)
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    for text in head(graph, top):
        tell(text)
    search = functools.partial(solve, graph, time_limit=time_limit(graph, options), strategy=options.strategy, gap=options.gap,
                               threads=options.threads, seed=options.seed)  # fmt: skip
    solutions: list[Solution] = []
    for solution in frontier(graph, points=budgets, **search.keywords):
        if solution.interrupted:
            raise KeyboardInterrupt
        solutions.append(solution)
        tell(line(solution, top))
    ways = [Way("keep everything", top, graph.total_cost, "as TensorFlow does by itself")]
    notes: list[str] = []
    if budget == sizes.LEAST:
        smallest, notes = least.in_frontier(graph, options, time_limit(graph, options), lambda s: s.simulate(graph).peak_bytes, search)
        solutions.append(smallest)
        tell(line(smallest, top))
    chosen, name = _chosen(graph, solutions, budget, top, search)
    if chosen is not None and chosen.schedule is not None:
        ways.append(Way(name, chosen.peak_bytes or 0, chosen.cost or 0))
    for text in ["", *table(graph, ways), *notes]:
        tell(text)
    found = Frontier(graph, top, graph.memory_floor, solutions, chosen, ways, recipes, notes=notes)
    if plot is not None:
        found.plot(plot)
    if report is not None:
        found.report(report)
    return found


def _chosen(graph: Graph, solutions: list[Solution], budget: int | float | str | None, top: int,
            search: Callable[[int], Solution]) -> tuple[Solution | None, str]:  # fmt: skip
    """The schedule for the page: for the budget; without one, the least at no more than a tenth of computation more."""
    found = [s for s in solutions if s.schedule is not None]
    smallest = min(found, key=lambda s: (s.peak_bytes or 0, s.cost or 0), default=None)
    if budget == sizes.LEAST:
        return smallest, "the plan of least memory"
    if budget is None:
        cheap = [s for s in found if (s.overhead or 0.0) <= 0.1]
        return min(cheap, key=lambda s: s.peak_bytes or 0, default=smallest), "the plan, a tenth more at most"
    limit = sizes.in_bytes(budget, baseline_bytes=top, standing_bytes=graph.standing_bytes)
    return search(limit), f"the plan for {budget if isinstance(budget, str) else size(limit)}"
