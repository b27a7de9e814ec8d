# SPDX-License-Identifier: Apache-2.0
"""What a frontier says in words and draws, of figures by hand: nothing is claimed that was not proven."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest
from graphs import chain

from checkmate import Schedule
from checkmate.planning.device import find
from checkmate.planning.figure import frontier_svg
from checkmate.planning.frontier import Frontier, head, least_overhead, line, require_folder, require_svg, table
from checkmate.schedule import Way
from checkmate.solver import Solution

GRAPH = chain(3)
TOP = Schedule.baseline(GRAPH).simulate(GRAPH).peak_bytes


def solution(**changes: Any) -> Solution:
    base = Solution(
        status="feasible", schedule=Schedule.baseline(GRAPH), cost=110, peak_bytes=900, budget_bytes=1000, baseline_cost=100,
        baseline_peak_bytes=2000, floor_bytes=400, least_peak_bytes=900, bound=105.0, bound_covers="order", gap=5 / 105, seconds=1.0,
        strategy="auto", interrupted=False,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


NONE_FITS = solution(status="infeasible", schedule=None, cost=None, peak_bytes=None, bound=150.0, budget_bytes=300)
NONE_FOUND = solution(status="unknown", schedule=None, cost=None, peak_bytes=None, budget_bytes=500)


def test_what_is_proven_of_the_overhead() -> None:
    assert least_overhead(solution()) == 105 / 100 - 1
    assert least_overhead(solution(bound=None)) is None
    assert least_overhead(NONE_FITS) is None  # a budget that nothing fits has no least overhead
    assert least_overhead(NONE_FOUND) == 105 / 100 - 1
    assert least_overhead(solution(baseline_cost=0)) == 0.0


def test_lines_of_a_frontier() -> None:
    assert line(solution(), 2000) == "   50.0%               900     10.00%     5.00% in order  ####"
    assert line(solution(bound=None, cost=100), 2000) == "   50.0%               900      0.00%"
    assert line(solution(cost=205, bound_covers="any"), 2000) == f"   50.0%               900    105.00%          5.00% all  {'#' * 40}+"
    assert line(solution(cost=200), 2000).endswith("#" * 40)
    assert line(solution(cost=1500), 2000, timed=True).split("  ")[-2:] == ["1.50 us", "#" * 40 + "+"]
    assert line(NONE_FITS, 2000) == "   15.0%         none fits"
    assert line(NONE_FOUND, 2000) == "   25.0%        none found"


def test_head_and_table() -> None:
    first, columns = head(GRAPH, 2000)
    assert first == f"{len(GRAPH.ops)} operators; without rematerialization 2,000 bytes; at least {GRAPH.memory_floor:,} bytes are needed"
    assert columns == "  budget        peak bytes   overhead    proven least of"
    assert head(GRAPH, 2000, timed=True)[1] == columns + "  predicted"
    total = GRAPH.total_cost
    ways = [Way("keep everything", 2000, total, "as usual"), Way("the plan", 500, 2 * total)]
    assert table(GRAPH, ways) == [
        "one training step            memory   of all  more computation",
        "keep everything             2.00 kB   100.0%              0.0%  as usual",
        "the plan                      500 B    25.0%            100.0%",
    ]
    timed = table(GRAPH, [Way("x" * 30, 2000, 1500)], timed=True)
    assert timed[0].endswith("more computation  predicted") and timed[0].startswith("one training step" + " " * 15)
    assert "1.50 us" in timed[1]


def test_the_step_takes_what_the_chosen_one_costs() -> None:
    device = find("V100")
    assert Frontier(GRAPH, TOP, 1, [], solution(cost=7_000_000_000)).step_seconds is None
    assert Frontier(GRAPH, TOP, 1, [], solution(cost=7_000_000_000), device=device).step_seconds == 7.0
    for chosen in (None, NONE_FITS):
        assert Frontier(GRAPH, TOP, 1, [], chosen, device=device).step_seconds == GRAPH.total_cost / 1e9


def test_a_frontier_in_words() -> None:
    ways = [Way("keep everything", 2000, 100)]
    found = Frontier(GRAPH, 2000, 1, [solution(), NONE_FITS], ways=ways, notes=["a note"])
    assert str(found).splitlines() == [*head(GRAPH, 2000), line(solution(), 2000), line(NONE_FITS, 2000), "", *table(GRAPH, ways), "a note"]
    assert repr(found) == f"<Frontier: {len(GRAPH.ops)} operators, 2 budgets>"
    assert str(Frontier(GRAPH, 2000, 1, [])).splitlines() == head(GRAPH, 2000)
    timed = str(Frontier(GRAPH, 2000, 1, [solution()], ways=ways, device=find("V100"))).splitlines()
    assert timed[1].endswith("predicted") and timed[4].endswith("predicted") and "110 ns" in timed[2] and "100 ns" in timed[5]


def test_a_drawing_has_what_was_found_and_what_was_proven(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f.svg"
    solutions = [solution(budget_bytes=2_000_000, cost=100), solution(budget_bytes=1_000_000, bound_covers="any"), NONE_FITS, NONE_FOUND]
    Frontier(GRAPH, 2000, 400, solutions).plot(path)
    title = f"Overhead against memory budget, {len(GRAPH.ops)} operators"
    # Of the classes of bounds, the narrowest of those that something is proven of.
    found, proven = [(s.budget_bytes / 1e6, 100 * (s.overhead or 0.0)) for s in solutions[:2]], 100 * (105 / 100 - 1)
    drawn = frontier_svg(title, found, [(2.0, proven), (1.0, proven), (500 / 1e6, proven)], 400 / 1e6, "schedule in this order")
    assert [y for _x, y in found] == [0.0, 100 * (110 / 100 - 1)] and path.read_text() == drawn
    Frontier(GRAPH, 2000, 400, [solution(bound=None)], device=find("V100")).plot(path)
    assert path.read_text().count("<path") == 1
    assert f"operators, modelled for {find('V100').name}</title>" in path.read_text()
    assert "<circle" in frontier_svg("nothing", [(0.0, 0.0)], [], 0.0)  # a step without bytes
    with pytest.raises(ValueError, match="nothing to draw"):
        Frontier(GRAPH, 2000, 400, [NONE_FITS, NONE_FOUND]).plot(path)
    with pytest.raises(ValueError, match=r"\.svg"):
        require_svg("f.png")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        require_folder(tmp_path / "none" / "f.svg")


def test_the_page_is_of_the_chosen_one_or_the_cheapest_within_a_budget(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Schedule, str, list[str], list[Any]]] = []
    monkeypatch.setattr(Schedule, "report", lambda s, _graph, _path, *, name, ways, recipes: told.append((s, name, [w.name for w in ways], recipes)))
    ways = [Way("keep everything", 2000, 100), Way("the plan", 900, 110)]
    kept = [Schedule.baseline(GRAPH) for _ in range(3)]
    small, middle, large = (solution(schedule=kept[i], cost=130 - 10 * i, peak_bytes=600 + 300 * i, budget_bytes=7 + i) for i in range(3))

    def page(frontier: Frontier, budget: Any = None) -> tuple[Any, ...]:
        frontier.report(tmp_path / "p.html", budget)
        return told.pop()

    found = Frontier(GRAPH, 2000, 400, [large, middle, small, NONE_FITS], middle, ways, lambda budget: [budget])  # type: ignore[list-item, return-value]
    assert page(found) == (kept[1], "the plan", ["keep everything"], [8])
    assert page(found, 899) == (kept[0], "this schedule", ["keep everything", "the plan"], [7])
    assert page(found, 900)[0] is kept[1]
    assert page(found, "60%")[0] is kept[2]  # 1200 bytes
    assert page(dataclasses.replace(found, chosen=None))[0] is kept[0]  # the smallest
    assert page(dataclasses.replace(found, chosen=NONE_FITS))[0] is kept[0]
    assert page(dataclasses.replace(found, solutions=[], ways=[]))[:2] == (kept[1], "this schedule")
    assert page(dataclasses.replace(found, device=find("V100")))[1] == f"the plan, modelled for {find('V100').name}"
    with pytest.raises(ValueError, match="fits 599 bytes"):
        found.report(tmp_path / "p.html", 599)
    with pytest.raises(ValueError, match=r"frontier fits$"):
        Frontier(GRAPH, 2000, 400, [NONE_FITS]).report(tmp_path / "p.html")


def test_a_drawing_looks_as_it_did() -> None:
    """Every line and place of it. After an intended change: look at the new drawing, and keep it as frontier.svg."""
    drawn = frontier_svg("Overhead & budget", [(50.0, 20.0), (100.0, 0.0), (70.0, 5.0)], [(50.0, 10.0), (70.0, -1.0), (100.0, 0.0)], 40.0, "schedule")
    assert drawn == (pathlib.Path(__file__).parent / "frontier.svg").read_text()
