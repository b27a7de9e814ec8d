# SPDX-License-Identifier: Apache-2.0
"""What is said to be proven is proven of the budget, the graph and the schedules that it is said of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")
keras = pytest.importorskip("keras")

from graphs import chain  # noqa: E402
from keras import layers  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate import Graph, Schedule, min_budget, solve  # noqa: E402
from checkmate.planning.claim import Claim, gap_of  # noqa: E402
from checkmate.tf2 import asked, lower, measure, planner, program  # noqa: E402


def traced(optimizer: Any, wide: int = 512) -> planner.Traced:
    """A step whose largest tensors are a variable and what its update makes of it."""
    model = keras.Sequential([layers.Input((64,)), layers.Dense(wide, activation="relu"), layers.Dense(wide), layers.Dense(2)])
    optimizer.build(model.trainable_variables)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    options = planner.Options("100%", time_limit=2, cache=False)
    return planner.trace(c2.function(step).concrete(tf.ones((4, 64))), options, "step")


@pytest.mark.parametrize("make", [lambda: keras.optimizers.SGD(0.1), lambda: keras.optimizers.SGD(0.1, momentum=0.9),
                                  lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
                                  lambda: keras.optimizers.Adam(0.1), lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
                                  lambda: keras.optimizers.Lion(0.1)])  # fmt: skip
def test_the_graph_counts_what_an_update_takes(make: Any) -> None:
    step = traced(make())
    baseline = Schedule.baseline(step.graph)
    assert baseline.simulate(step.graph).peak_bytes == step.peak(baseline)


@dataclass
class Step:
    """A graph whose runs take some bytes more than it says, as TensorFlow's may."""

    graph: Graph
    more: int
    options: planner.Options
    lowered: Any

    def peak(self, schedule: Schedule) -> int:
        return schedule.simulate(self.graph).peak_bytes + self.more


def step_with(more: int) -> Any:
    graph = chain(8)
    exact = lower.Lowered(None, graph, [], {}, over_bytes=0, held_bytes=0)  # type: ignore[arg-type]
    return Step(graph, more, planner.Options("min", time_limit=5, gap=0.0, cache=False), exact)


def test_the_bound_is_one_of_the_budget() -> None:
    step = step_with(more=1)
    fit = planner._fit(step, 6)
    cost, bound = fit.schedule.simulate(step.graph).cost, fit.claim.bound_for(step.graph, 6)
    within = solve(step.graph, 6, time_limit=5).require().cost
    assert fit.peak_bytes <= 6 and bound is not None and within is not None
    assert bound <= within < cost  # what was found fits 5 bytes of the graph, and is proven the cheapest of those alone


def test_a_proof_for_a_lowered_target_is_none_for_the_budget() -> None:
    step = step_with(more=2)
    least = min_budget(step.graph, time_limit=5).budget_bytes
    with pytest.raises(c2.InfeasibleError, match=r"^no schedule was found within") as caught:
        planner._fit_or_say(step, least + 1, 100, "step")
    error = caught.value
    assert not error.proven and error.largest_impossible == least - 1 and error.smallest_known == least + 2
    with pytest.raises(c2.InfeasibleError, match=rf"^no schedule .*fits {least - 1} bytes.* as they were measured; without") as caught:
        planner._fit_or_say(step, least - 1, 100, "step")
    assert caught.value.proven


def test_what_the_graph_counts_too_much_is_no_proof() -> None:
    step = step_with(more=0)
    least = min_budget(step.graph, time_limit=5).budget_bytes
    step.lowered.over_bytes = 1
    with pytest.raises(c2.InfeasibleError, match=r"^no schedule was found within") as caught:
        planner._fit_or_say(step, least - 1, 100, "step")
    assert not caught.value.proven and caught.value.largest_impossible == least - 2
    step.lowered.over_bytes, step.lowered.held_bytes = None, 2
    with pytest.raises(c2.InfeasibleError, match="1 bytes are proven too small, which counts variables and arguments alone") as caught:
        planner._fit_or_say(step, least - 1, 100, "step")
    assert not caught.value.proven


def test_bytes_are_no_bound_of_the_cost() -> None:
    step = step_with(more=0)
    fit = planner._least(step)
    assert fit.claim.bound_cost is None and 0 < fit.claim.needed_bytes <= fit.peak_bytes
    cheapest = planner._cheapest(step, fit.peak_bytes, fit)
    assert gap_of(cheapest.schedule.simulate(step.graph).cost, cheapest.claim.bound_for(step.graph, fit.peak_bytes)) == pytest.approx(0, abs=1e-4)


def test_what_is_found_no_cheaper_has_the_bound_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    step = step_with(more=0)
    fit = planner._least(step)
    monkeypatch.setattr(planner, "_solved", lambda graph, limit, _options, start: (start, Claim.of(graph, solve(graph, limit)), "solver"))
    cheapest = planner._cheapest(step, fit.peak_bytes, fit)
    bound = cheapest.claim.bound_for(step.graph, fit.peak_bytes)
    assert bound is not None and step.graph.total_cost < bound <= cheapest.schedule.simulate(step.graph).cost


def test_what_kernels_ask_for_is_told_from_the_chunks_that_they_get() -> None:
    def event(at: int, name: str, addr: int, size: int) -> asked.Event:
        return at, at, name, {"addr": addr, "requested_bytes": size, "allocation_bytes": 2 * size}

    events: list[asked.Event] = []
    for begin in (100, 200, 300):
        events.append((begin, begin + 50, "checkmate/asked/0", {}))
        events += [event(begin + 1, "MemoryAllocation", 1, 40), event(begin + 2, "MemoryAllocation", 2, 7)]
        events += [event(begin + 3, "MemoryDeallocation", 2, 7), event(begin + 60, "MemoryDeallocation", 1, 40)]
    assert asked._most(events, 1) == [7]
    assert asked._most(events[5:], 1) is None  # a run is missing
    assert asked._most([(1, 2, "checkmate/asked/0", {})] * 3, 1) == [0]


def test_where_the_profiler_is_in_use_the_chunks_are_named(tmp_path: Any) -> None:
    def step(x: Any) -> Any:
        return tf.reduce_sum(x, axis=(0, 2, 4))  # by a copy, transposed

    calls = program.read(c2.function(step).concrete(tf.ones((8, 32, 8, 32, 8)))).calls
    facts = measure.table(measure.Costs(), calls)
    assert "chunks" not in {found.how for found in facts.values()} and any(found.workspace_bytes for found in facts.values())
    tf.profiler.experimental.start(str(tmp_path))
    try:
        costs = measure.Costs()
        doubtful = measure.table(costs, calls)
    finally:
        tf.profiler.experimental.stop(save=False)
    rounded = {call.type for call, found in doubtful.items() if found.how == "chunks"}
    assert rounded == {call.type for call, found in facts.items() if found.workspace_bytes}
    assert all(doubtful[call].workspace_bytes >= facts[call].workspace_bytes for call in calls)
    known = measure.table(measure.Costs(known=costs.known), calls)  # what was kept in chunks is asked for later
    assert "chunks" not in {found.how for found in known.values()}
