# SPDX-License-Identifier: Apache-2.0
"""How a plan is looked for, with a solver and a run that answer as the test says, and the order of a step's calls by brute force."""

from __future__ import annotations

import json
import pathlib
import random
from types import SimpleNamespace
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

from graphs import chain  # noqa: E402

import checkmate  # noqa: E402
from checkmate import Schedule, Step  # noqa: E402
from checkmate.planning.claim import NOTHING, Claim  # noqa: E402
from checkmate.tf2 import order, planner, tradeoff  # noqa: E402

GRAPH = chain(3)
TOTAL = GRAPH.total_cost


def impossible(largest: int = 0, covers: str = "any") -> checkmate.InfeasibleError:
    return checkmate.InfeasibleError("none", proven=True, budget_bytes=1, smallest_known=None, largest_impossible=largest, covers=covers)


def schedule(peak: int, cost: int = 0) -> Any:
    return SimpleNamespace(peak=peak, simulate=lambda _graph: SimpleNamespace(cost=cost))


def claim(name: str, needed: int = 0) -> Claim:
    return Claim(name, "any", 1, 1.0, needed)


def traced(**options: Any) -> Any:
    said: list[str] = []
    known = {"budget": 1000, "cache": False, "say": said.append, "progress": None}
    lowered = SimpleNamespace(needed_bytes=lambda size: size + 7, basis="as the test says")
    return SimpleNamespace(graph=GRAPH, options=SimpleNamespace(**known | options), lowered=lowered, peak=lambda s: s.peak, said=said)


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeping everything takes 5000 bytes."""
    monkeypatch.setattr(planner.Schedule, "baseline", lambda _graph: schedule(5000))


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[int, Any]) -> list[tuple[int, Any]]:
    asked: list[tuple[int, Any]] = []

    def solved(_graph: Any, target: int, _options: Any, start: Any) -> Any:
        asked.append((target, start))
        if isinstance(answers[target], Exception):
            raise answers[target]
        return schedule(answers[target][0]), answers[target][1], "cache"

    monkeypatch.setattr(planner, "_solved", solved)
    return asked


@pytest.mark.usefixtures("dear")
def test_a_lower_target_claims_what_the_first_one_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, {1000: (1000, claim("a"))})
    fit = planner._fit(traced(), 1000, "start")  # type: ignore[arg-type]
    assert (fit.peak_bytes, fit.claim, fit.origin, asked) == (1000, claim("a"), "cache", [(1000, "start")])
    asked = answering(monkeypatch, {1000: (1030, claim("a")), 970: (1001, claim("b")), 969: (990, claim("c"))})
    fit = planner._fit(traced(), 1000)
    assert (fit.peak_bytes, fit.claim, asked) == (990, claim("a"), [(1000, None), (970, None), (969, None)])
    asked = answering(monkeypatch, {1000: (9000, claim("a")), 0: (1000, claim("b"))})
    planner._fit(traced(), 1000)
    assert [target for target, _start in asked] == [1000, 0]
    fit = planner._fit(traced(), 5000)
    assert (fit.peak_bytes, fit.claim, fit.origin) == (5000, Claim.of_everything_kept(GRAPH), "solver")


def test_the_cheapest_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    small = planner._Fit(schedule(1, 30), claim("least"), "solver", 1)
    for cost, best in ((40, 30), (20, 20)):
        given: list[Any] = []
        found = planner._Fit(schedule(2, cost), claim("found"), "solver", 2)
        monkeypatch.setattr(planner, "_fit", lambda *args, given=given, found=found: given.append(args[1:]) or found)
        fit = planner._cheapest(traced(), 77, small)
        assert (fit.schedule.simulate(GRAPH).cost, fit.claim, given) == (best, claim("found"), [(77, small.schedule)])

    def nothing(*_given: Any) -> Any:
        raise impossible()

    monkeypatch.setattr(planner, "_fit", nothing)
    assert planner._cheapest(traced(), 77, small) is small


def or_say(monkeypatch: pytest.MonkeyPatch, failed: Any, smallest: planner._Fit, known: Any = None) -> Any:
    def fit_at(*_given: Any) -> Any:
        raise failed

    monkeypatch.setattr(planner, "_fit", fit_at)
    monkeypatch.setattr(planner.named, "recall", lambda graph, front, on_disk: known)
    monkeypatch.setattr(planner.named, "remember", lambda graph, found, front, on_disk: None)

    def least_within(_traced: Any, solves: int) -> planner._Fit:
        assert solves == (planner.least.AFTER_PROOF if failed.largest_impossible >= 1000 else planner.least.AFTER_SEARCH)
        return smallest

    monkeypatch.setattr(planner, "_least", least_within)
    monkeypatch.setattr(planner, "_cheapest", lambda _traced, limit, fit: (limit, fit.peak_bytes, fit.claim))
    return planner._fit_or_say(traced(), 1000, 4321, "step")


def test_what_is_known_to_fit_is_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (planner._Fit(schedule(size, 2 * TOTAL), claim("s"), "solver", size) for size in (1000, 1001))
    assert or_say(monkeypatch, impossible(), large, schedule(1000)) == (1000, 1000, NOTHING)
    assert or_say(monkeypatch, impossible(), small, schedule(1001)) == (1000, 1000, claim("s"))
    assert or_say(monkeypatch, impossible(), small) == (1000, 1000, claim("s"))
    with pytest.raises(checkmate.InfeasibleError):
        or_say(monkeypatch, impossible(), large, schedule(1001))


@pytest.mark.parametrize(
    ("failed", "needed", "peak", "largest", "covers"),
    [
        (impossible(0), 0, 2000, GRAPH.memory_floor + 6, "any"),
        (impossible(400, "order"), 400, 2000, 407, "order"),
        (impossible(400, "order"), 401, 2000, 407, "any"),
        (impossible(400, "order"), 600, 2000, 606, "any"),
        (impossible(992), 0, 2000, 999, "any"),
        (impossible(993), 0, 2000, 1000, "any"),
        (impossible(1500), 0, 1200, 1199, "any"),
    ],
)
def test_what_an_error_says(monkeypatch: pytest.MonkeyPatch, failed: Any, needed: int, peak: int, largest: int, covers: str) -> None:
    with pytest.raises(checkmate.InfeasibleError) as caught:
        or_say(monkeypatch, failed, planner._Fit(schedule(peak, TOTAL * 3 // 2), claim("s", needed), "solver", peak))
    error = caught.value
    assert (error.largest_impossible, error.covers, error.smallest_known, error.budget_bytes) == (largest, covers, peak, 1000)
    assert error.proven == (largest >= 1000)
    assert str(error).startswith("no schedule fits 1,000" if largest >= 1000 else "no schedule was found within 1,000")
    assert f"budget={peak:,} works, with {100 * (TOTAL * 3 // 2 / TOTAL - 1):.1f} % more computation at most; {largest:,} bytes" in str(error)
    assert str(error).endswith("as the test says; without rematerialization it takes 4,321")


def solution(cost: int | None, status: str = "feasible", interrupted: bool = False) -> Any:
    real = checkmate.solve(GRAPH, 5, time_limit=1).schedule if cost is not None else None
    found = SimpleNamespace(schedule=real, cost=cost, overhead=None if cost is None else cost / TOTAL - 1, status=status, interrupted=interrupted,
                            bound_covers="any", budget_bytes=5, bound=float(TOTAL))  # fmt: skip
    found.require = lambda: found
    return found


def searching(monkeypatch: pytest.MonkeyPatch, answers: list[Any], **options: Any) -> tuple[Any, list[dict[str, Any]], list[str]]:
    asked: list[dict[str, Any]] = []
    said: list[str] = []
    left = iter(answers)

    def solve(_graph: Any, limit: int, progress: Any, **kwargs: Any) -> Any:
        asked.append({"limit": limit} | kwargs)
        for seconds, cost, gap in ((0.0, None, None), (0.5, 2 * TOTAL, None), (1.4, TOTAL, 0.5), (1.5, TOTAL, 0.25)):
            if progress is not None:
                progress(SimpleNamespace(seconds=seconds, cost=cost, gap=gap, source="search"))
        return next(left)

    known: Any = {"strategy": "auto", "time_limit": 2.0, "gap": 0.1, "seed": 5, "threads": 2, "cache": False, "progress": None, "say": said.append}
    monkeypatch.setattr(planner, "solve", solve)
    return planner._solved(GRAPH, 5, SimpleNamespace(**known | options), None), asked, said  # type: ignore[arg-type]


def test_too_much_computation_is_searched_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    (_found, claimed, origin), asked, said = searching(monkeypatch, [solution(3 * TOTAL)])
    assert (origin, claimed.bound_cost) == ("solver", TOTAL)
    assert asked == [{"limit": 5, "strategy": "auto", "time_limit": 2.0, "gap": 0.1, "threads": 2, "seed": 5, "start": None}] and not said
    first, better = solution(3 * TOTAL + 1), solution(3 * TOTAL)
    better.bound = TOTAL + 1.0
    (_found, claimed, _origin), asked, said = searching(monkeypatch, [first, better])
    assert [(a["time_limit"], a["seed"], a["start"]) for a in asked] == [(2.0, 5, None), (6.0, 6, first.schedule)]
    assert claimed.bound_cost == TOTAL + 1.0 and len(said) == 1
    for other in (solution(3 * TOTAL + 1), solution(None)):
        (_found, claimed, _origin), _asked, _said = searching(monkeypatch, [first, other])
        assert claimed.bound_cost == TOTAL
    _found, asked, _said = searching(monkeypatch, [solution(9 * TOTAL, "optimal")])
    assert len(asked) == 1
    with pytest.raises(KeyboardInterrupt):
        searching(monkeypatch, [solution(TOTAL, interrupted=True)])


def test_progress_is_told_a_second_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    _found, _asked, said = searching(monkeypatch, [solution(TOTAL)], progress=print)
    assert said == ["0 s: overhead 100.00 % (search)", "2 s: overhead 0.00 %, gap 25 % (search)"]


def test_a_plan_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searching(monkeypatch, [solution(TOTAL)])
    assert not planner.plan_cache.directory(planner.FRONT).exists()  # caching was not requested
    first, asked, _said = searching(monkeypatch, [solution(TOTAL)], cache=True)
    again, none, _said = searching(monkeypatch, [], cache=True)
    assert len(asked) == 1 and not none
    assert (again[0].steps, again[1], again[2]) == (first[0].steps, first[1], "cache")


def test_the_least_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []
    real = Schedule.baseline(GRAPH)
    step = traced(strategy="auto", time_limit=2.0, gap=0.1, seed=5)
    step.peak = lambda s: 1000 + s.simulate(GRAPH).peak_bytes
    monkeypatch.setattr(
        planner.least, "search", lambda _graph, _options, seconds, _peak, *solves: searched.append((seconds, *solves)) or (real, claim("s"))
    )
    for cache, solves, origin in ((False, None, "solver"), (True, 2, "solver"), (True, 2, "cache"), (True, None, "solver"), (True, 2, "cache"),
                                  (True, 0, "cache")):  # fmt: skip
        step.options.cache = cache
        fit = planner._least(step, solves)
        assert (fit.origin, fit.claim, fit.peak_bytes) == (origin, claim("s"), 1000 + real.simulate(GRAPH).peak_bytes)
    assert searched == [(2.0,), (2.0, 2), (2.0,)]  # one with more solves does for one with fewer
    assert step.said == [f"looking for the least that is enough, for {seconds} s at most" for seconds in (16, 8, 16)]


def test_options() -> None:
    for wrong in ({"budget": "much"}, {"costs": "guess"}, {"fixed_bytes": -1}):
        with pytest.raises(ValueError, match=r"size|costs must be|fixed_bytes must not"):
            planner.Options(**wrong)  # type: ignore[arg-type]
    assert planner.Options("min", fixed_bytes=0, costs="estimate").gap == 0.01
    assert (planner.Options().threads, planner.Options().seed, planner.Options().budget) == (1, 1, "auto")
    lines: list[str] = []
    planner.Options(progress=lines.append).say("a")
    planner.Options().say("b")
    assert lines == ["a"]

    def seconds(ops: int, time_limit: float | None = None) -> float:
        return planner.time_limit(SimpleNamespace(ops=range(ops)), SimpleNamespace(time_limit=time_limit))  # type: ignore[arg-type]

    assert [seconds(0), seconds(500), seconds(14_000), seconds(20_000), seconds(20_000, 0.0), seconds(0, 99.0)] == [2.0, 3.0, 30.0, 30.0, 0.0, 99.0]


def test_a_plan_in_words() -> None:
    def plan(**changes: Any) -> planner.Plan:
        figures = {"budget_bytes": 1000, "peak_bytes": 900, "baseline_peak_bytes": 2000, "floor_bytes": 1, "cost": 110, "baseline_cost": 100}
        rest = {"bound": 100.0, "gap": 0.1, "status": "feasible", "recomputed": ["a", "b"], "seconds": 1.23, "origin": "solver"}
        return planner.Plan(graph=GRAPH, schedule=Schedule.baseline(GRAPH), **figures | rest | changes)  # type: ignore[arg-type]

    ops = len(GRAPH.ops)
    assert str(plan()) == (
        f"{ops} operators, peak 900 of 1,000 bytes (2,000 without rematerialization), 2 recomputed, overhead 10.00 %, gap 10 %, 1.2 s"
    )
    assert str(plan(gap=None, origin="cache")).endswith("no bound, from the cache")
    assert plan(baseline_cost=0).overhead == 0.0
    steps = [Step("compute", 0), Step("compute", 1), Step("free", 0), Step("compute", 0), Step("compute", 0)]
    assert planner._recomputed(GRAPH, Schedule(steps)) == ["f0", "f0"]


def test_costs_on_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner.measure, "is_record", lambda record: record == 1)
    path = tmp_path / "costs.json"
    assert planner._known(path) == {}
    for text, known in ((json.dumps({"a": 1, "b": 2}), {"a": 1}), ("[1]", {}), ("{", {}), ("[" * 100_000, {})):
        path.write_text(text)
        assert planner._known(path) == known


def test_the_schedule_for_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tradeoff, "size", lambda count: f"{count} bytes")

    def found(peak: int, cost: int, overhead: float) -> Any:
        return SimpleNamespace(schedule="s", peak_bytes=peak, cost=cost, overhead=overhead)

    nothing = SimpleNamespace(schedule=None)
    small, same, tenth, large = found(5, 20, 1.0), found(5, 19, 0.9), found(7, 11, 0.1), found(9, 10, 0.0)
    all_of: list[Any] = [large, tenth, nothing, small, same]

    def chosen(solutions: list[Any], budget: Any) -> Any:
        return tradeoff._chosen(GRAPH, solutions, budget, 1000, lambda limit: ("searched", limit))  # type: ignore[arg-type, return-value]

    assert chosen(all_of, "min") == (same, "the plan of least memory")
    assert chosen(all_of, None) == (tenth, "the plan, a tenth more at most")
    assert chosen([small, nothing], None)[0] is small
    assert chosen([nothing], None)[0] is None
    assert chosen(all_of, "60%") == (("searched", 600), "the plan for 60%")
    assert chosen(all_of, 77) == (("searched", 77), "the plan for 77 bytes")


# ---- The order of calls


class Value:
    def __init__(self, is_resource: bool = False) -> None:
        self.is_resource = is_resource


class Call:
    """As order.py sees one."""

    def __init__(self, name: str, inputs: list[Value], *, backward: bool = False, assigns: bool = False, after: list[Call] | None = None) -> None:
        self.name, self.inputs, self.outputs = name, inputs, [Value()]
        self.is_backward, self.assigns, self.after = backward, assigns, after or []

    def __repr__(self) -> str:
        return self.name


def names(found: list[Any]) -> str:
    return " ".join(call.name for call in found)


def test_updates_run_as_soon_as_they_can() -> None:
    w, v = Value(is_resource=True), Value(is_resource=True)
    read_w, read_v = Call("read_w", [w]), Call("read_v", [v])
    forward = Call("forward", [read_w.outputs[0], read_v.outputs[0]])
    grad_v = Call("grad_v", [forward.outputs[0]], backward=True)
    grad_w = Call("grad_w", [grad_v.outputs[0], read_w.outputs[0]], backward=True)
    rate = Call("rate", [])
    set_v = Call("set_v", [v, grad_v.outputs[0], rate.outputs[0]], assigns=True)
    set_w = Call("set_w", [w, grad_w.outputs[0], rate.outputs[0]], assigns=True)
    count = Call("count", [])
    calls: list[Any] = [rate, read_w, read_v, forward, grad_v, grad_w, set_v, set_w, count]
    found, main = order.in_order(calls, [forward.outputs[0]])  # type: ignore[list-item]
    assert names(found) == "read_w read_v forward grad_v rate set_v grad_w set_w count"
    assert main == {read_w, read_v, forward, grad_v, grad_w}


def test_a_variable_is_not_assigned_before_what_reads_it() -> None:
    w = Value(is_resource=True)
    read = Call("read", [w])
    grad = Call("grad", [], backward=True)
    update = Call("set", [w, grad.outputs[0]], assigns=True)
    late = Call("late", [read.outputs[0]], backward=True)
    again = Call("again", [w])
    found, _main = order.in_order([read, grad, late, update, again], [])  # type: ignore[list-item]
    assert names(found) == "read grad late set again"


def test_control_edges_reach_through_what_is_gone() -> None:
    first, second = Call("first", []), Call("second", [])
    gone = Call("gone", [second.outputs[0]], after=[first])
    gone.after.append(gone)  # a circle ends
    last = Call("last", [], after=[gone])
    made_by: Any = {second.outputs[0]: second}
    assert order.kept_before(last, {first, second, last}, made_by) == {first, second}  # type: ignore[arg-type]
    found, main = order.in_order([last, second, first], [])  # type: ignore[list-item]
    assert names(found) == "second first last"
    assert main == set()


def test_random_steps_keep_every_order() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        variables = [Value(is_resource=True) for _ in range(3)]
        calls: list[Any] = []
        values: list[Value] = list(variables)
        for i in range(rng.randrange(1, 14)):
            backward = rng.random() < 0.3
            assigns = not backward and i > 3 and rng.random() < 0.3
            inputs = [rng.choice(variables)] if assigns else []
            inputs += [rng.choice(values) for _ in range(rng.randrange(3))]
            after = [rng.choice(calls)] if calls and rng.random() < 0.2 else []
            calls.append(Call(f"c{i}", inputs, backward=backward, assigns=assigns, after=after))
            values += calls[-1].outputs
        found, main = order.in_order(calls, [rng.choice(values)])  # type: ignore[list-item]
        made_by = {v: call for call in calls for v in call.outputs}
        place = {call: i for i, call in enumerate(found)}
        assert sorted(place, key=calls.index) == calls
        for call in calls:
            for other in [*(made_by[v] for v in call.inputs if v in made_by), *call.after]:
                assert place[other] < place[call], (seed, found, other, call)
            if call.assigns:  # and what was traced before and uses the variable's handle
                for other in calls[: calls.index(call)]:
                    assert call.inputs[0] not in other.inputs or place[other] < place[call]
        needed = {call for call in calls if call.is_backward} | {call for call in main if call in made_by.values()}
        assert {call for call in calls if call.is_backward} <= main
        assert all(made_by[v] in main for call in needed & main for v in call.inputs if v in made_by)
        kept = [call for call in found if call in main]
        assert kept == sorted(kept, key=calls.index)  # results and gradients in the order in which they were traced
