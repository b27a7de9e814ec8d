# SPDX-License-Identifier: Apache-2.0
import os
import signal
from typing import Any

import pytest
from graphs import branches, chain

from checkmate import (
    CheckmateError,
    Graph,
    InfeasibleError,
    MinBudgetProgress,
    Progress,
    Schedule,
    frontier,
    min_budget,
    solve,
    solve_frontier,
    strategies,
)


def test_chain_of_eight_is_optimal() -> None:
    graph = chain(8)
    seen: list[Progress] = []
    solution = solve(graph, 5, progress=seen.append)
    assert (solution.status, solution.cost, solution.peak_bytes) == ("optimal", 24, 5)
    assert solution.bound == pytest.approx(24)
    assert solution.overhead == pytest.approx(24 / 17 - 1)
    assert solution.schedule is not None
    assert solution.schedule.verify(graph, 5)
    assert seen
    assert seen[-1].cost == 24


def test_infeasible_tells_both_sides() -> None:
    solution = solve(chain(8), 3, time_limit=5)
    assert solution.status == "infeasible"
    with pytest.raises(InfeasibleError) as caught:
        solution.require()
    assert caught.value.proven
    assert caught.value.largest_impossible >= 3
    assert caught.value.smallest_known is None or caught.value.smallest_known >= 4


@pytest.mark.parametrize("strategy", ["auto", "checkpoint-all", "local-search"])
def test_every_strategy_has_the_floor_of_the_graph(strategy: str) -> None:
    graph = branches()
    assert solve(graph, 100, strategy=strategy, time_limit=1).floor_bytes == graph.memory_floor
    solution = solve(graph, graph.memory_floor - 1, strategy=strategy, time_limit=1)
    assert (solution.status, solution.bound_covers, solution.floor_bytes) == ("infeasible", "any", graph.memory_floor)
    with pytest.raises(InfeasibleError) as caught:
        solution.require()
    assert caught.value.proven
    assert caught.value.largest_impossible == graph.memory_floor - 1


def test_unknown_strategy() -> None:
    assert "auto" in strategies()
    with pytest.raises(CheckmateError) as caught:
        solve(chain(2), 10, strategy="none such")
    assert caught.value.kind == "not found"


def test_callback_error_ends_the_solve() -> None:
    def fail(_progress: Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve(chain(30), 8, progress=fail, time_limit=30, gap=0.0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_a_callback_raises_is_raised_as_it_is(kind: type[BaseException]) -> None:
    error = kind("enough")

    def fail(_what: object) -> None:
        raise error

    with pytest.raises(kind) as caught:
        solve(chain(30), 8, time_limit=30, gap=0.0, progress=fail)
    assert caught.value is error


def test_what_a_signal_handler_raises_ends_the_solve() -> None:
    """The handler runs while the library computes, which only it can stop."""

    def ring(_number: int, _frame: object) -> None:
        raise TimeoutError("enough")

    big = Graph.parse(_ladder(400))
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(TimeoutError, match="enough"):
            solve(big, int(big.memory_floor * 3), time_limit=20, gap=0.0)
        assert signal.getsignal(signal.SIGALRM) is ring
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_frontier_is_monotone() -> None:
    graph = chain(8)
    solutions = list(frontier(graph, points=5, time_limit=5))
    assert solutions[0].overhead == 0
    costs = [s.cost for s in solutions if s.cost is not None]
    assert costs == sorted(costs)


def test_ctrl_c_keeps_the_best() -> None:
    big = Graph.parse(_ladder(400))

    solution = solve(big, int(big.memory_floor * 3), time_limit=120, gap=0.0, progress=_interrupt)
    assert solution.interrupted
    assert solution.schedule is not None
    assert solution.schedule.verify(big, solution.budget_bytes)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_a_frontier() -> None:
    big = Graph.parse(_ladder(400))
    solutions = list(frontier(big, points=4, lowest=int(big.memory_floor * 3), time_limit=120, gap=0.0, progress=_interrupt))
    assert [s.interrupted for s in solutions] == [True] * 4
    assert any(s.schedule is not None for s in solutions)
    assert all(s.schedule.verify(big, s.budget_bytes) for s in solutions if s.schedule is not None)
    alone = frontier(big, points=4, lowest=int(big.memory_floor * 3), strategy="local-search", time_limit=120, progress=_interrupt)
    assert [s.interrupted for s in alone] == [True]


def test_a_frontier_is_one_search() -> None:
    graph = chain(8)
    budgets = [9, 5, 7]  # in any order
    together = solve_frontier(graph, budgets, time_limit=20)
    assert [s.budget_bytes for s in together] == budgets
    for solution, budget in zip(together, budgets, strict=True):
        alone = solve(graph, budget, time_limit=20)
        assert (solution.status, solution.cost) == (alone.status, alone.cost)
        assert solution.schedule is None or solution.schedule.verify(graph, budget)
    assert solve_frontier(graph, []) == []
    with pytest.raises(CheckmateError, match=r"budgets\[1\] is -3"):
        solve_frontier(graph, [9, -3])
    with pytest.raises(RuntimeError, match="enough"):
        solve_frontier(graph, budgets, progress=_fail)


def test_a_frontier_starts_from_a_schedule() -> None:
    big = Graph.parse(_ladder(400))
    # A strategy that does not look at the clock when there is no limit.
    known = solve(big, int(big.memory_floor * 3), strategy="dtr", time_limit=0).require().schedule
    assert known is not None
    peak, cost = known.simulate(big).peak_bytes, known.simulate(big).cost
    (found,) = solve_frontier(big, [peak], time_limit=0.05, start=known)
    assert found.cost is not None
    assert found.cost <= cost


def _fail(_progress: Progress) -> None:
    raise RuntimeError("enough")


def _interrupt(progress: Progress) -> None:
    if progress.cost is not None:
        os.kill(os.getpid(), signal.SIGINT)


def _ladder(layers: int) -> str:
    """A chain whose sizes and costs vary, so that it takes a while to prove anything."""
    graph = Graph("ladder")
    sizes = [3 + (7 * i) % 11 for i in range(2 * layers + 1)]
    values = [graph.tensor(bytes=s) for s in sizes]
    for i in range(layers):
        graph.op(cost=1 + (5 * i) % 13, inputs=values[i - 1 : i] if i else [], outputs=[values[i]])
    graph.op(cost=1, kind="loss", inputs=[values[layers - 1]], outputs=[values[layers]])
    for k in range(layers):
        i = layers - 1 - k
        graph.op(cost=2 + (3 * i) % 7, kind="backward", inputs=[values[layers + k], values[i], *([values[i - 1]] if i else [])],
                 outputs=[values[layers + k + 1]])  # fmt: skip
    graph.result(values[2 * layers])
    return graph.to_json()


def test_min_budget() -> None:
    graph = chain(30)
    reports: list[MinBudgetProgress] = []
    found = min_budget(graph, time_limit=20, progress=reports.append)
    assert found.schedule.verify(graph, found.budget_bytes)
    assert not found.schedule.verify(graph, found.budget_bytes - 1)
    assert graph.memory_floor <= found.floor_bytes <= found.lower_bound_bytes <= found.budget_bytes
    assert found.budget_bytes < Schedule.baseline(graph).simulate(graph).peak_bytes
    assert (found.status == "optimal") == (found.lower_bound_bytes == found.budget_bytes)
    assert reports[-1].budget_bytes == found.budget_bytes and reports[-1].needed == found.needed
    assert not found.interrupted
    # What it found is a start for a solve at that budget.
    solution = solve(graph, found.budget_bytes, start=found.schedule, time_limit=1)
    assert solution.cost is not None and solution.cost <= found.schedule.simulate(graph).cost

    def fail(_so_far: MinBudgetProgress) -> None:
        raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        min_budget(graph, time_limit=20, progress=fail)


def test_a_class_has_a_floor_of_its_own() -> None:
    """Two branches of 8 and then 3 bytes, each computed once: in this order both 8s are there when the first 3 is made."""
    graph = Graph("branches")
    for bytes_ in (8, 8, 3, 3, 1):
        graph.tensor(bytes=bytes_)
    for i, inputs in enumerate([(), (), (0,), (1,), (2, 3)]):
        graph.op(cost=1, inputs=inputs, outputs=[i], recomputable=False)
    graph.finish()
    found = min_budget(graph, time_limit=5)
    assert (found.floor_bytes, found.lower_bound_bytes, found.bound_covers, found.budget_bytes) == (14, 19, "order", 19)
    assert found.needed == "19 are needed by any schedule in this order, 14 by any schedule"
    with pytest.raises(InfeasibleError, match="18 bytes are proven too small for any schedule in this order, 13 for any schedule") as caught:
        solve(graph, 18, time_limit=5).require()
    error = caught.value
    assert (error.largest_impossible, error.covers, error.impossible_for_all) == (18, "order", 13)
    again = InfeasibleError("again", **error.facts())
    assert again.facts() == error.facts()


def test_a_graph_is_a_graph() -> None:
    file: Any = "mine.json"
    for call in (lambda: solve(file, 4), lambda: min_budget(file), lambda: list(solve_frontier(file, [4]))):
        with pytest.raises(TypeError, match=r"graph must be a checkmate.Graph, not 'mine.json'; Graph.read\(\) reads a file"):
            call()


@pytest.mark.parametrize("budget", [0.6, None])
def test_a_budget_is_an_integer_or_a_text(budget: object) -> None:
    graph = chain(3)
    with pytest.raises(TypeError, match="budget must be an integer, not"):
        solve(graph, budget)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="budget must be an integer, not"):
        solve_frontier(graph, [100, budget])  # type: ignore[list-item]


def test_budgets_as_people_write_them() -> None:
    graph = chain(8)
    peak = Schedule.baseline(graph).simulate(graph).peak_bytes
    assert solve(graph, "60%").budget_bytes == int(0.6 * peak)
    assert solve(graph, "60% of activations").budget_bytes == graph.standing_bytes + int(0.6 * (peak - graph.standing_bytes))
    assert solve(graph, "4G").budget_bytes == 4 * 10**9
    assert solve(graph, "1KiB").budget_bytes == 1024
    assert solve(graph, "h100").budget_bytes == 80 * 10**9
    assert solve(graph, "auto").budget_bytes > 10**6
    least = solve(graph, "min", time_limit=10)
    assert (least.status, least.budget_bytes, least.cost) == ("optimal", 4, 38)
    assert [s.budget_bytes for s in solve_frontier(graph, ["100%", "60%", 5])] == [peak, int(0.6 * peak), 5]
    for wrong in ("60 of it", "Xeon", "-4G", "0%"):
        with pytest.raises(ValueError, match=r"size|positive"):
            solve(graph, wrong)


def test_a_frontier_near_the_least() -> None:
    graph = chain(40)
    least = min_budget(graph, time_limit=5).budget_bytes
    found = list(frontier(graph, points="near-min", time_limit=1))
    assert [s.budget_bytes for s in found] == sorted(
        {min(found[0].baseline_peak_bytes, least * p // 100) for p in (100, 101, 102, 105, 110, 120, 135, 150, 200)}, reverse=True
    )
    assert all(s.schedule is not None for s in found)
    assert found[-1].budget_bytes == least
    assert (found[-1].cost or 0) > (found[0].cost or 0)
    with pytest.raises(ValueError, match="near-min"):
        list(frontier(graph, points="near"))
