# SPDX-License-Identifier: Apache-2.0
"""What need not be computed again is left out: by hand, and on random graphs with views."""

from __future__ import annotations

import random

import pytest

from checkmate import Graph, Schedule, Step, solve
from checkmate.planning.tidy import tidied


def steps(text: str) -> list[Step]:
    return [Step("compute" if word[0] == "c" else "free", int(word[1:])) for word in text.split()]


def beside_a_view() -> Graph:
    """t0 → t1 → t2 with a view t3 of t2, which the last operator reads together with t2."""
    g = Graph("view")
    for size in (4, 8, 16):
        g.tensor(bytes=size)
    g.tensor(bytes=0, alias_of=2)
    g.tensor(bytes=4)
    g.op(cost=1, inputs=[], outputs=[0])
    g.op(cost=10, inputs=[0], outputs=[1])
    g.op(cost=100, inputs=[1], outputs=[2])
    g.op(cost=0, inputs=[2], outputs=[3])
    g.op(cost=1, inputs=[2, 3], outputs=[4])
    g.result(4)
    return g.finish()


def test_a_value_beside_its_view_is_not_computed_again() -> None:
    # t2 is freed while t3 lives, and made again; t1 is made again only for that.
    text = "c0 c1 c2 f1 c3 f2 c1 c2 f1 f0 c4 f2 f3"
    graph, given = beside_a_view(), Schedule(steps(text))
    assert given.simulate(graph).cost == 222
    left = tidied(graph, given)
    assert left.steps == steps("c0 c1 c2 f1 c3 f0 c4 f2 f3")
    assert left.simulate(graph).cost == 112
    assert left.simulate(graph).peak_bytes == given.simulate(graph).peak_bytes


def test_a_value_whose_storage_died_is_computed_again() -> None:
    graph, given = beside_a_view(), Schedule(steps("c0 c1 c2 c3 f2 f3 c2 c3 f1 f0 c4 f2 f3"))
    assert tidied(graph, given).steps == given.steps


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    dice = random.Random(seed)
    g = Graph(f"random {seed}")
    made: list[int] = [g.tensor(bytes=dice.randint(1, 9))]
    for _ in range(24):
        inputs = dice.sample(made[-6:], min(len(made[-6:]), dice.randint(1, 2)))
        owners = [t for t in inputs if g.tensors[t].alias_of < 0 and t]
        view = dice.random() < 0.4 and owners
        output = g.tensor(bytes=0, alias_of=owners[0]) if view else g.tensor(bytes=dice.randint(1, 50))
        g.op(cost=0 if view else dice.randint(1, 30), inputs=inputs, outputs=[output])
        made.append(output)
    g.result(made[-1])
    peak = Schedule.baseline(g).simulate(g).peak_bytes
    lowest = g.memory_floor
    for share in (0.2, 0.5, 0.8):
        budget = int(lowest + share * (peak - lowest))
        solution = solve(g, budget, strategy="local-search", time_limit=0.2, seed=seed)
        if solution.schedule is None:
            continue
        before, after = solution.schedule.simulate(g), tidied(g, solution.schedule)
        verdict = after.verify(g, budget)
        assert verdict, verdict.why
        assert after.simulate(g).cost <= before.cost
        assert after.simulate(g).peak_bytes <= before.peak_bytes
        assert tidied(g, after).steps == after.steps
