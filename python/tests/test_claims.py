# SPDX-License-Identifier: Apache-2.0
"""A claim is one of the budget, the graph and the schedules that it was proven for."""

from __future__ import annotations

from graphs import chain

from checkmate import InfeasibleError, min_budget, solve
from checkmate.planning.claim import NOTHING, Claim, gap_of, status_of


def test_a_bound_is_none_for_a_larger_budget() -> None:
    graph = chain(8)
    claim = Claim.of(graph, solve(graph, 5, time_limit=5))
    assert claim.bound_for(graph, 5) == claim.bound_for(graph, 4) == claim.bound_cost is not None
    assert claim.bound_for(graph, 6) is None
    looser = solve(graph, 6, time_limit=5)
    assert looser.cost is not None and looser.cost < claim.bound_cost  # it would have been false


def test_a_bound_is_none_for_another_graph() -> None:
    graph, longer = chain(8), chain(9)
    claim = Claim.of(graph, solve(graph, 5, time_limit=5))
    assert claim.bound_for(longer, 5) is None
    assert NOTHING.bound_for(graph, 5) is None and NOTHING.needed_bytes == 0


def test_keeping_everything_is_the_least_within_any_budget() -> None:
    graph = chain(8)
    assert Claim.of_everything_kept(graph).bound_for(graph, 2**62) == graph.total_cost


def test_bytes_that_are_needed_are_no_cost() -> None:
    graph = chain(8)
    claim = Claim.of_least(graph, min_budget(graph, time_limit=2))
    assert claim.bound_cost is None and claim.bound_for(graph, 1) is None
    assert 0 < claim.needed_bytes <= min_budget(graph, time_limit=2).budget_bytes


def test_what_is_impossible_for_a_class_and_for_all() -> None:
    def failed(largest: int, covers: str, for_all: int) -> InfeasibleError:
        return InfeasibleError("none", proven=True, budget_bytes=1, smallest_known=None, largest_impossible=largest, covers=covers,
                               impossible_for_all=for_all)  # fmt: skip

    graph, least = chain(8), Claim("", needed_bytes=8, needing="order", needed_of_class=11)
    assert graph.memory_floor == 4
    assert least.impossible(graph, failed(5, "any", 5)) == (10, "order", 7)
    assert least.impossible(graph, failed(9, "any", 9)) == (10, "order", 9)
    assert least.impossible(graph, failed(10, "any", 10)) == (10, "any", 10)
    assert least.impossible(graph, failed(12, "frontier", 5)) == (12, "frontier", 7)
    assert NOTHING.impossible(graph, failed(5, "order", 2)) == (5, "order", 3)
    assert NOTHING.impossible(graph, failed(1, "order", 0)) == (3, "any", 3)


def test_what_is_optimal() -> None:
    assert status_of(10_000, 10_000.0) == status_of(10_000, 9_999.5) == "optimal"
    assert status_of(10_000, 9_000.0) == status_of(10_000, None) == "feasible"
    assert gap_of(11, 10.0) == 11 / 10.0 - 1 and gap_of(9, 10.0) == 0 and gap_of(9, None) is None
