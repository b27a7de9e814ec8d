# SPDX-License-Identifier: Apache-2.0
"""A claim is one of the budget, the graph and the schedules that it was proven for."""

from __future__ import annotations

from graphs import chain

from checkmate import min_budget, solve
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


def test_what_is_optimal() -> None:
    assert status_of(10_000, 10_000.0) == status_of(10_000, 9_999.5) == "optimal"
    assert status_of(10_000, 9_000.0) == status_of(10_000, None) == "feasible"
    assert gap_of(11, 10.0) == 11 / 10.0 - 1 and gap_of(9, 10.0) == 0 and gap_of(9, None) is None
