# SPDX-License-Identifier: Apache-2.0
"""The search for the least that runs: which budgets it tries one after the other, worked out by hand, and what it keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from graphs import chain

from checkmate import Graph, solve
from checkmate.planning import least
from checkmate.solver import MinBudgetProgress

GRAPH = chain(3)


def made(real: int, below: int) -> Any:
    """A schedule whose run takes `real` bytes, and the graph's peak is `below`."""
    return SimpleNamespace(real=real, simulate=lambda _graph: SimpleNamespace(peak_bytes=below))


def options(said: list[str] | None = None) -> Any:
    told: list[str] = [] if said is None else said
    return SimpleNamespace(strategy="auto", gap=0.5, threads=3, seed=7, progress=None if said is None else told.append, say=told.append)


def searched(
    monkeypatch: pytest.MonkeyPatch, first: dict[str, Any], answers: list[Any], given: Any, seconds: float = 10.0
) -> tuple[Any, Any, list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []
    left = iter(answers)

    def min_budget(graph: Any, **kwargs: Any) -> Any:
        assert graph is GRAPH
        asked.append(kwargs)
        if kwargs["progress"] is not None:
            kwargs["progress"](MinBudgetProgress(1234, 600, "order", 567, 0.5))
            kwargs["progress"](MinBudgetProgress(1234, 600, "any", 600, 0.5))
        return SimpleNamespace(**({"lower_bound_bytes": 1000, "bound_covers": "any", "floor_bytes": 1000, "interrupted": False} | first))

    def solve(graph: Any, target: int, **kwargs: Any) -> Any:
        assert graph is GRAPH
        asked.append({"target": target} | kwargs)
        schedule = next(left)
        return SimpleNamespace(schedule=schedule, interrupted=schedule == "interrupted")

    monkeypatch.setattr(least, "min_budget", min_budget)
    monkeypatch.setattr(least, "solve", solve)
    monkeypatch.setattr(least, "tidied", lambda _graph, schedule: schedule)
    best, claim = least.search(GRAPH, given, seconds, lambda schedule: schedule.real)
    return best, claim, asked


def test_turns_above_the_least_peak_and_below_the_least_run(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, d, e = made(1500, 1100), made(1400, 1150), made(1400, 1050), made(1380, 1380), made(1390, 1200)
    said: list[str] = []
    best, claim, asked = searched(monkeypatch, {"schedule": a, "budget_bytes": 1100}, [b, None, c, d, e, None], options(said))
    assert best is d
    assert claim.needed_bytes == 1000
    known = "1,234 bytes are enough for the graph"
    assert said == [f"{known}, 600 are needed by any schedule in this order, 567 by any schedule", f"{known}, 600 are needed",
                    "1,400 bytes are enough", "1,380 bytes are enough"]  # fmt: skip
    first, *solves = asked
    assert (first["strategy"], first["time_limit"], first["threads"], first["seed"]) == ("auto", 20.0, 3, 7)
    # 1100 + 400/4; 1400 - 400/4; 1100 + 300/4, which brings nothing; 1400 - a quarter of what is above 1300; 1050 + 5/8 of 330; ...
    assert [s["target"] for s in solves] == [1200, 1300, 1175, 1375, 1256, 1360]
    assert [s["seed"] for s in solves] == [7, 8, 9, 10, 11, 12]
    assert [s["start"] for s in solves] == [a, None, None, None, None, None]
    assert all((s["strategy"], s["time_limit"], s["gap"], s["threads"]) == ("auto", 10.0, 0.5, 3) for s in solves)


def test_it_ends_where_nothing_less_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    at_bound = made(1000, 1000)
    best, _claim, asked = searched(monkeypatch, {"schedule": at_bound, "budget_bytes": 1000}, [], options())
    assert best is at_bound and len(asked) == 1 and asked[0]["progress"] is None
    best, _claim, asked = searched(monkeypatch, {"schedule": made(900, 1000), "budget_bytes": 1000}, [], options())
    assert len(asked) == 1  # what runs may take less than the graph counts


def test_what_is_proven_to_be_needed_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"schedule": made(101, 101), "budget_bytes": 101, "lower_bound_bytes": 100, "floor_bytes": 100}
    _best, _claim, asked = searched(monkeypatch, first, [None] * 6, options())
    assert [s["target"] for s in asked[1:]] == [100] * 6


def test_a_bound_of_some_schedules_is_none_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"schedule": made(1000, 1000), "budget_bytes": 1000, "bound_covers": "order", "floor_bytes": 7}
    answers = [made(800, 800), None, None, None, None, None]
    _best, claim, asked = searched(monkeypatch, first, answers, options(), seconds=1.0)
    assert (claim.needed_bytes, claim.needing, claim.needed_of_class) == (7, "order", 1000)
    assert asked[0]["time_limit"] == 3.0
    floor = GRAPH.memory_floor
    assert asked[1]["target"] == 1000 - (1000 - floor + 3) // 4
    assert asked[2]["target"] == 800 - (800 - floor + 3) // 4


def test_explaining_the_least_names_what_the_class_needs_and_what_all_need() -> None:
    """Two branches of 8 and then 3 bytes, each computed once: in this order both 8s are there when the first 3 is made."""
    graph = Graph("branches")
    for i, (bytes_, inputs) in enumerate([(8, ()), (8, ()), (3, (0,)), (3, (1,)), (1, (2, 3))]):
        graph.tensor(bytes=bytes_)
        graph.op(cost=1, inputs=inputs, outputs=[i], recomputable=False)
    graph.finish()
    _solution, notes = least.in_frontier(graph, options(), 1.0, lambda schedule: schedule.simulate(graph).peak_bytes,
                                         lambda budget, start: solve(graph, budget, time_limit=1, start=start))  # fmt: skip
    assert notes == ["of the least budget: 19 bytes are enough, 19 are needed by any schedule in this order, 14 by any schedule"]


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        searched(monkeypatch, {"schedule": made(1500, 1100), "budget_bytes": 1100, "interrupted": True}, [], options())
    with pytest.raises(KeyboardInterrupt):
        searched(monkeypatch, {"schedule": made(1500, 1100), "budget_bytes": 1100}, ["interrupted"], options())
