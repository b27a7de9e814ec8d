# SPDX-License-Identifier: Apache-2.0
"""Operators that run only so often: what is held instead of computed again, by hand and in random schedules, and prices."""

from __future__ import annotations

import pytest

from checkmate import Graph, Schedule, Step, solve
from checkmate.planning.repeats import Repeats


def steps(text: str) -> list[Step]:
    return [Step("compute" if word[0] == "c" else "free", int(word[1:])) for word in text.split()]


def gathered(units: int, gather: int = 5, layer: int = 2) -> Graph:
    """A chain of layers of these costs, each of which makes 4 bytes and has parameters that are gathered: 3 bytes in two tensors."""
    graph = Graph("gathered")
    values: list[int] = []
    parameters: list[list[int]] = []
    for i in range(units):
        parameters.append([graph.tensor(bytes=1), graph.tensor(bytes=2)])
        graph.op(name=f"gather{i}", cost=gather, inputs=[], outputs=parameters[i])
        values.append(graph.tensor(bytes=4))
        graph.op(name=f"forward{i}", cost=layer, inputs=[*values[-2:-1], *parameters[i]], outputs=[values[i]])
    gradient = graph.tensor(bytes=4)
    graph.op(name="loss", cost=1, kind="loss", inputs=[values[-1]], outputs=[gradient])
    for i in reversed(range(units)):
        new = graph.tensor(bytes=4)
        graph.op(name=f"backward{i}", cost=layer, kind="backward", inputs=[gradient, *values[max(0, i - 1) : i], *parameters[i]], outputs=[new])
        gradient = new
    graph.result(gradient)
    return graph.finish()


def gathers(graph: Graph, most: int) -> Repeats:
    return Repeats(frozenset(i for i, op in enumerate(graph.ops) if op.name.startswith("gather")), most)


def test_what_there_is_room_for_is_held() -> None:
    # One layer: its parameters t0 and t1 are freed before the loss and gathered again behind it.
    graph, given = gathered(1), Schedule(steps("c0 c1 f0 f1 c2 f2 c0 c3 f0 f1 f3"))
    repeats = gathers(graph, 1)
    assert repeats.runs(given) == 2 and not repeats.allow(given)
    assert given.simulate(graph).peak_bytes == 11  # while the loss runs 4 + 4, and with parameters 3 + 4 + 4 in the backward pass
    held = repeats.held(graph, given, 11)
    assert held.steps == steps("c0 c1 c2 f2 c3 f0 f1 f3")
    assert repeats.allow(held)
    assert held.simulate(graph).cost == given.simulate(graph).cost - 5


def test_what_there_is_no_room_for_is_not() -> None:
    graph, given = gathered(2), Schedule(steps("c0 c1 f0 f1 c2 c3 f3 f4 c4 f5 c2 c5 f3 f4 f6 c0 c6 f0 f1 f2 f7"))
    repeats = gathers(graph, 4)
    assert given.verify(graph, given.simulate(graph).peak_bytes)
    for budget in range(given.simulate(graph).peak_bytes, 40):
        held = repeats.held(graph, given, budget)
        assert held.verify(graph, budget)
        assert held.simulate(graph).peak_bytes <= budget
    tight = repeats.held(graph, given, given.simulate(graph).peak_bytes)
    assert repeats.runs(tight) >= repeats.runs(repeats.held(graph, given, 40)) == 2


@pytest.mark.parametrize("units", [3, 6])
def test_held_in_the_schedules_of_a_search(units: int) -> None:
    graph = gathered(units)
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    saved = 0
    for budget in range(graph.memory_floor, top + 1):
        found = solve(graph, budget, time_limit=0.5)
        if found.schedule is None:
            continue
        repeats = gathers(graph, units)
        for more in (0, 3, 6, 30):
            held = repeats.held(graph, found.schedule, budget + more)
            assert held.verify(graph, budget + more)
            assert held.simulate(graph).cost <= found.schedule.simulate(graph).cost - 5 * (repeats.runs(found.schedule) - repeats.runs(held))
            saved += repeats.runs(found.schedule) - repeats.runs(held)
    assert saved > 0


def test_a_price_is_for_these_operators_only() -> None:
    graph = gathered(3)
    repeats = gathers(graph, 3)
    priced = repeats.priced(graph, 7 * repeats.cost(graph))
    assert repeats.cost(graph) == 5 and repeats.largest(graph) == 3
    assert [op.cost for op in priced.ops] == [40 if op.name.startswith("gather") else op.cost for op in graph.ops]
    assert [(op.inputs, op.outputs, op.inplace, op.recomputable) for op in priced.ops] == [
        (op.inputs, op.outputs, op.inplace, op.recomputable) for op in graph.ops
    ]


def test_with_a_price_there_are_fewer_runs() -> None:
    """Parameters cost little to gather again, so that forward values are held; with a price it is the other way round."""
    graph = gathered(4, gather=1, layer=4)
    repeats, fewer = gathers(graph, 8), 0
    for budget in range(graph.memory_floor, 40):
        cheap, few = solve(graph, budget, time_limit=60), solve(repeats.priced(graph, 30), budget, time_limit=60)
        assert cheap.status == few.status == "optimal"
        assert cheap.schedule is not None and few.schedule is not None
        assert repeats.runs(few.schedule) <= repeats.runs(cheap.schedule)
        assert cheap.schedule.simulate(graph).cost <= few.schedule.simulate(graph).cost
        fewer += repeats.runs(few.schedule) < repeats.runs(cheap.schedule)
    assert fewer > 0
