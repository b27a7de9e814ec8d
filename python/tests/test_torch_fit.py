# SPDX-License-Identifier: Apache-2.0
"""How a fit is looked for, with a solver and a run that answer as the test says: which budgets are tried, and what is claimed at the end.

What is proven for a lower target is never claimed for the limit; a budget that an error names was found to work.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from graphs import chain  # noqa: E402

import checkmate  # noqa: E402
from checkmate.planning import least  # noqa: E402
from checkmate.planning.claim import NOTHING, Claim  # noqa: E402
from checkmate.torch.plan import fit as fits  # noqa: E402
from checkmate.torch.plan import fit_least, fit_stage, fit_within, solving  # noqa: E402

GRAPH = chain(3)
MODEL: Any = SimpleNamespace(graph=GRAPH, ops=[], input_bytes=20, store=None, loss=SimpleNamespace(kept=2, more=3))


def impossible(largest: int = 0, covers: str = "any") -> checkmate.InfeasibleError:
    return checkmate.InfeasibleError("none", proven=True, budget_bytes=1, smallest_known=None, largest_impossible=largest, covers=covers)


def schedule(cost: int = 0, peak: int = 0) -> Any:
    return SimpleNamespace(simulate=lambda _graph: SimpleNamespace(cost=cost, peak_bytes=peak), verify=lambda _graph, _budget=None: True)


def made(peak: int, claim: Claim = NOTHING, *, cost: int = 0, below: int = 0, solved: int = 0, parts: Any = None) -> fits.Fit:
    return fits.Fit(schedule(cost, below), claim, "solver", None, peak, solved, parts)  # type: ignore[arg-type]


def claim(name: str, needed: int = 0) -> Claim:
    return Claim(name, "any", 1, 1.0, needed)


def traced(stage: Any = None, **options: Any) -> Any:
    said: list[str] = []
    known = {"budget": 1000, "cache": False, "costs": "measure", "say": said.append, "counts": "allocated", "compiler": "inductor"}
    return SimpleNamespace(options=SimpleNamespace(**known | options), stage=stage, name="net", said=said, workspace=None)


class Solver:
    """In the place of `run` and of the solver: of each target, either the peak that its run has and what is claimed, or an error."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers, self.asked = answers, list[int]()
        self.starts = list[Any]()

    def solve(self, _model: Any, target: int, _options: Any, start: Any = None) -> Any:
        self.asked.append(target)
        self.starts.append(start)
        answer = self.answers[target]
        if isinstance(answer, Exception):
            raise answer
        return schedule(), answer[1], "solver"

    def run(self, _model: Any, found: Any, target: int, limit: int, _traced: Any) -> fits.Fit:
        answer = self.answers.get(target)
        peak = answer[0] if isinstance(answer, tuple) else target
        self.ran = (found, target, limit)
        return fits.Fit(found[0], found[1], found[2], None, peak, target)  # type: ignore[arg-type]


def within(monkeypatch: pytest.MonkeyPatch, answers: dict[int, Any], room: int = 0) -> tuple[fits.Fit, Solver]:
    solver = Solver(answers)
    monkeypatch.setattr(fit_within, "_room_for_states", lambda _model, _limit: room)
    monkeypatch.setattr(fit_within, "gather_limit", solver)
    monkeypatch.setattr(fit_within, "run", solver.run)
    return fit_within.fit_within(MODEL, 1000, traced()), solver


def test_what_fits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, solver = within(monkeypatch, {1000: (1000, claim("a"))})
    assert (found.peak_bytes, found.claim, solver.asked, solver.ran[2]) == (1000, claim("a"), [1000], 1000)


def test_a_lower_target_claims_what_the_first_one_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    found, solver = within(monkeypatch, {1000: (1030, claim("a")), 970: (1001, claim("b")), 969: (990, claim("c"))})
    assert (found.peak_bytes, found.claim, solver.asked) == (990, claim("a"), [1000, 970, 969])
    _found, solver = within(monkeypatch, {1000: (9000, claim("a")), 0: (1000, claim("b"))})
    assert solver.asked == [1000, 0]


def test_room_for_states_is_left_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found, solver = within(monkeypatch, {995: (1000, claim("a"))}, room=5)
    assert (found.claim, solver.asked) == (claim("a"), [995])
    found, solver = within(monkeypatch, {995: impossible(), 1000: (1000, claim("b"))}, room=5)
    assert (found.claim, solver.asked) == (claim("b"), [995, 1000])
    # Once a run has shown what it needs, the room is no longer given back.
    with pytest.raises(checkmate.InfeasibleError, match="whose run fits 1000 bytes"):
        within(monkeypatch, {995: (1010, claim("a")), 985: impossible()}, room=5)


@pytest.mark.parametrize(("largest", "proven"), [(999, False), (1000, True)])
def test_what_is_said_where_a_lower_target_has_nothing(monkeypatch: pytest.MonkeyPatch, largest: int, proven: bool) -> None:
    with pytest.raises(checkmate.InfeasibleError) as caught:
        within(monkeypatch, {1000: (1030, claim("a")), 970: impossible(largest, "order")})
    error = caught.value
    assert (error.proven, error.budget_bytes, error.smallest_known, error.largest_impossible, error.covers) == (proven, 1000, None, largest, "order")
    first = impossible()
    with pytest.raises(checkmate.InfeasibleError) as caught:
        within(monkeypatch, {1000: first})
    assert caught.value is first  # nothing is added to what was said of the limit itself


def test_a_stage_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_within, "fit_stage", lambda *given: given)
    staged = traced("stage")
    assert fit_within.fit_within(MODEL, 7, staged) == (MODEL, 7, staged, "stage")


def test_room_for_states(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = SimpleNamespace(graph=GRAPH, store=None, ops=[SimpleNamespace(node=n) for n in ("random", None, "not", "random")])
    monkeypatch.setattr(fit_within.effects, "is_random", lambda node: node == "random")
    monkeypatch.setattr(fit_within.random_state, "state_bytes", lambda _node: 5)
    monkeypatch.setattr(fit_within.Schedule, "baseline", lambda _graph: schedule(peak=1001))
    assert [fit_within._room_for_states(model, limit) for limit in (1001, 1000, 999)] == [0, 10, 0]


def test_the_budget_that_is_named_was_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again, tried = made(1000), list[int]()

    def fit_at(model: Any, limit: int, _traced: Any) -> fits.Fit:
        tried.append(limit)
        if limit < 1030:
            raise impossible()
        return again

    monkeypatch.setattr(fit_within, "fit_within", fit_at)
    given = traced()
    assert fit_within._found_again(MODEL, made(1000), given) == (1030, again)
    assert tried == [1000, 1010, 1030] and len(given.said) == 2
    monkeypatch.setattr(fit_within, "run", lambda _model, found, *rest: made(5000 + sum(rest[:2]), found[1]))
    limit, fit = fit_within._found_again(MODEL, made(500), given)
    assert (limit, fit.peak_bytes, fit.claim) == (5000, 5000, NOTHING)  # keeping everything


def or_say(
    monkeypatch: pytest.MonkeyPatch,
    *,
    failed: checkmate.InfeasibleError,
    smallest: fits.Fit,
    known: Any = None,
    calls: Any = None,
    cache: bool = False,
) -> Any:
    """`fit_or_say` for 1000 bytes, where nothing is found at once: the peak of the fit from which `cheapest` goes on."""
    dearer = GRAPH.total_cost * 3 // 2

    def fit_at(_model: Any, limit: int, _traced: Any) -> fits.Fit:
        if limit == 1000:
            raise failed
        assert not cache  # what is on disk need not be found again
        return made(limit - 1, cost=dearer)

    def least_of_all(_model: Any, _traced: Any, solves: int) -> fits.Fit:
        assert solves == (least.AFTER_PROOF if failed.largest_impossible >= 1000 else least.AFTER_SEARCH)
        return smallest

    monkeypatch.setattr(fit_within, "fit_within", fit_at)
    monkeypatch.setattr(fit_within.named, "known", lambda graph, front, on_disk: [] if known is None else [known])
    monkeypatch.setattr(fit_within.named, "found", lambda graph, found, front: None)
    monkeypatch.setattr(fit_within.named, "remember", lambda graph, found, front, on_disk: None)
    monkeypatch.setattr(fit_within.gather_limit, "limit_of", lambda _model, _options: calls)
    monkeypatch.setattr(fit_within, "as_given", lambda _model, found, _traced, limit: made(found.peak))
    monkeypatch.setattr(fit_within, "least_of_all", least_of_all)
    monkeypatch.setattr(fit_within, "cheapest", lambda _model, limit, _traced, fit: made(limit, cost=dearer, solved=fit.peak_bytes))
    given = traced(cache=cache)
    fit = fit_within.fit_or_say(MODEL, 1000, given)
    assert fit.peak_bytes == 1000
    return fit.solved_bytes


def test_a_schedule_that_was_named_is_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    known = SimpleNamespace(peak=1000)
    allow, forbid = (SimpleNamespace(allow=lambda _schedule, yes=yes: yes) for yes in (True, False))
    small = made(999)
    assert or_say(monkeypatch, failed=impossible(), smallest=small, known=known) == 1000
    assert or_say(monkeypatch, failed=impossible(), smallest=small, known=known, calls=allow) == 1000
    assert or_say(monkeypatch, failed=impossible(), smallest=small, known=known, calls=forbid) == 999
    assert or_say(monkeypatch, failed=impossible(), smallest=small, known=SimpleNamespace(peak=1001)) == 999
    assert or_say(monkeypatch, failed=impossible(), smallest=made(1000)) == 1000


@pytest.mark.parametrize(
    ("failed", "needed", "peak", "largest", "covers"),
    [
        (impossible(400), 0, 1001, 400, "any"),
        (impossible(400, "order"), 0, 1001, 400, "order"),
        (impossible(400, "order"), 600, 1001, 599, "any"),
        (impossible(1200, "order"), 0, 1500, 1200, "order"),
        (impossible(1200), 0, 1100, 1099, "any"),  # a run that needs less than the graph counts shows that it is possible
        (impossible(0), 1001, 1500, 1000, "any"),
    ],
)
@pytest.mark.parametrize("cache", [False, True])
def test_what_an_error_says(monkeypatch: pytest.MonkeyPatch, failed: Any, needed: int, peak: int, largest: int, covers: str, cache: bool) -> None:
    with pytest.raises(checkmate.InfeasibleError) as caught:
        or_say(monkeypatch, failed=failed, smallest=made(peak, claim("s", needed)), cache=cache)
    error = caught.value
    assert (error.largest_impossible, error.covers, error.smallest_known, error.budget_bytes) == (largest, covers, peak, 1000)
    assert error.proven == (largest >= 1000)
    assert str(error).startswith("no schedule was found within 1,000" if largest < 1000 else "no schedule")
    assert f"budget={peak:,} works, with {100 * (GRAPH.total_cost * 3 // 2 / GRAPH.total_cost - 1):.1f} % more" in str(error)
    of_class = f" for any schedule in this order, {error.impossible_for_all:,} for any schedule" if covers == "order" else ""
    assert f"{largest:,} bytes are proven too small{of_class}, with kernels' workspaces as they were measured" in str(error)
    assert error.impossible_for_all == largest or covers == "order"


# ---- The cheapest, from one that is known to fit


def cheapest(monkeypatch: pytest.MonkeyPatch, answers: dict[int, Any], last: int = 800) -> tuple[fits.Fit, Solver]:
    solver = Solver(answers)
    monkeypatch.setattr(fit_least, "gather_limit", solver)
    monkeypatch.setattr(fit_least, "run", solver.run)
    return fit_least.cheapest(MODEL, 1000, traced(), made(790, claim("least"), solved=last)), solver


def test_from_the_least_downwards(monkeypatch: pytest.MonkeyPatch) -> None:
    found, solver = cheapest(monkeypatch, {1000: (1000, claim("a"))})
    assert (found.peak_bytes, found.claim, solver.asked) == (1000, claim("a"), [1000])
    assert solver.starts[0] is not None
    found, solver = cheapest(monkeypatch, {1000: (1100, claim("a")), 900: (1000, claim("b"))})
    assert (found.claim, solver.asked) == (claim("a"), [1000, 900])
    # The second time at the latest it goes down to the least; and where that is not enough, what is known is run.
    found, solver = cheapest(monkeypatch, {1000: (1100, claim("a")), 900: (1001, claim("b")), 800: (1000, claim("c"))})
    assert (found.claim, solver.asked) == (claim("a"), [1000, 900, 800])
    found, solver = cheapest(monkeypatch, {1000: (2000, claim("a")), 800: (1001, claim("b"))})
    assert solver.asked == [1000, 800]
    assert (found.claim, solver.ran[1:]) == (claim("a"), (800, 1000))
    found, solver = cheapest(monkeypatch, {1000: (1001, claim("a"))}, last=1000)
    assert (found.claim, solver.asked, solver.ran[1:]) == (claim("a"), [1000], (1000, 1000))


def test_from_the_least_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    small, dear, cheap = made(790, claim("least"), cost=30), made(1000, claim("stage"), cost=40), made(1000, claim("stage"), cost=20)
    monkeypatch.setattr(fit_least, "run", lambda _model, found, peak, limit, _traced: fits.Fit(*found, None, peak, limit))  # type: ignore[arg-type]
    for found, cost in ((dear, 30), (cheap, 20)):
        monkeypatch.setattr(fit_least, "fit_stage", lambda *_given, found=found: found)
        best = fit_least.cheapest(MODEL, 1000, traced("stage"), small)
        assert (best.schedule.simulate(GRAPH).cost, best.claim) == (cost, claim("stage"))

    def nothing(*_given: Any) -> Any:
        raise impossible()

    monkeypatch.setattr(fit_least, "fit_stage", nothing)
    best = fit_least.cheapest(MODEL, 1000, traced("stage"), small)
    assert (best.peak_bytes, best.claim) == (790, NOTHING)


def test_the_least_of_all_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flight(int):
        order = "1f1b"

    reserved: list[int] = []
    tried: list[int] = []
    given = traced(SimpleNamespace(flight=Flight(3)))
    given.build = lambda reserve_bytes: reserved.append(reserve_bytes) or "reserved"

    def least_within(model: Any, _traced: Any, solves: int | None) -> fits.Fit:
        assert solves == 2
        return made(900, claim("r")) if model == "reserved" else made(1000, claim("a"), below=120)

    monkeypatch.setattr(fit_least, "_least", least_within)

    def stage(_model: Any, limit: int, _traced: Any, _stage: Any, any_fit: bool) -> fits.Fit:
        tried.append(limit)
        if limit < 600:
            raise impossible()
        return made(limit - 10)

    monkeypatch.setattr(fit_least, "fit_stage", stage)
    best = fit_least.least_of_all(MODEL, given, 2)
    assert reserved == [120 - GRAPH.fixed_bytes - MODEL.input_bytes]
    # 0.8 of 900, 710, then 0.95 of 710 and so on, as long as something fits.
    assert tried == [720, 568, 674, 630, 589]
    assert given.said == ["710 bytes are enough", "664 bytes are enough", "620 bytes are enough"]
    assert (best.peak_bytes, best.claim) == (620, claim("a"))
    given.stage.flight = Flight(1)
    assert fit_least.least_of_all(MODEL, given, 2).peak_bytes == 1000 and len(tried) == 5


def test_the_least_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []
    patience: list[float] = []
    real = checkmate.Schedule.baseline(GRAPH)
    peak = real.simulate(GRAPH).peak_bytes
    given = traced(strategy="auto", time_limit=2.0, gap=0.1, seed=5, extra_gathers=None)

    def search(_graph: Any, _options: Any, seconds: float, real_peak: Any, *solves: int) -> Any:
        searched.append((seconds, *solves))
        assert real_peak(real) == 77
        return real, claim("s")

    def first_come(_graph: Any, budget: Any, _settings: Any, find: Any, seconds: float) -> Any:
        assert budget is None
        patience.append(seconds)
        return find()

    monkeypatch.setattr(fit_least.least, "search", search)
    monkeypatch.setattr(fit_least.ranks, "first_come", first_come)
    monkeypatch.setattr(fit_least.partition, "split", lambda _model, _schedule: "halves")
    monkeypatch.setattr(fit_least, "peak_with", lambda *_given: (77, None))
    monkeypatch.setattr(fit_least, "run", lambda _model, found, *rest: (found[1], found[2], *rest[:2]))
    for cache, solves, origin in ((False, None, "solver"), (True, 2, "solver"), (True, 2, "cache"), (True, None, "solver"), (True, 2, "cache"),
                                  (True, 0, "cache")):  # fmt: skip
        given.options.cache = cache
        assert fit_least._least(MODEL, given, solves) == (claim("s"), origin, peak, 0)
    assert searched == [(2.0,), (2.0, 2), (2.0,)]  # one with more solves does for one with fewer
    assert given.said == [f"looking for the least that is enough, for {seconds} s at most" for seconds in (16, 8, 16)]
    assert set(patience) == {least.longest(2.0) + 60}
    assert [path.name for path in (fit_least.plan_cache.directory() / "plans").iterdir()].count(
        fit_least.plan_cache.path_of(GRAPH, 0, (*solving.settings_of(given.options), "least")).name) == 1  # fmt: skip


# ---- A stage of a pipeline


def staged(
    monkeypatch: pytest.MonkeyPatch, flight: int, answers: dict[int, Any], saved: list[int], limit: int = 1000, *, kept: int = 2000, most: int = 300
) -> Any:
    """`fit_stage` for a stage that saves one of `saved` bytes; others hold twice that and 100 more. A run takes what the answers say."""
    attempts: list[Any] = []
    solves: list[tuple[int, Any]] = []
    reserves: list[int] = []
    stage = SimpleNamespace(
        flight=type("Flight", (int,), {"description": "so many"})(flight), outputs=10, output_gradients=15,
        least_others=lambda outputs: 100 + outputs, most_others=lambda s: 100 + 2 * s,
    )  # fmt: skip
    given = traced(stage)
    given.build = lambda reserve_bytes: reserves.append(reserve_bytes) or SimpleNamespace(graph=GRAPH)

    def solve(_graph: Any, target: int, _options: Any, start: Any = None) -> Any:
        solves.append((target, start))
        answer = answers.get(target, (target, claim("?")))
        if isinstance(answer, Exception):
            raise answer
        return schedule(), answer[1], "solver"

    def run(_model: Any, found: Any, target: int, _limit: int, _traced: Any) -> fits.Fit:
        return fits.Fit(found[0], found[1], "solver", None, answers.get(target, (target,))[0] + 100, target)  # type: ignore[arg-type]

    def search(attempt: Any, _cost: Any, low: int, high: int, first: bool) -> Any:
        attempts.append((low, high, first))
        found = [fit for s in saved if (fit := attempt(s)) is not None]
        return found[0] if found else None

    everything = made(kept, claim("all"), parts=SimpleNamespace(saved=most))
    monkeypatch.setattr(fit_stage, "keeping_all", lambda *_given: everything)
    monkeypatch.setattr(fit_stage.solving, "solve_together", solve)
    monkeypatch.setattr(fit_stage, "run", run)
    monkeypatch.setattr(fit_stage.pipeline, "cheapest", search)
    found = fit_stage.fit_stage(MODEL, limit, given, stage)  # type: ignore[arg-type]
    return found, everything, attempts, solves, reserves


def test_a_stage_keeps_everything_where_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    found, everything, attempts, solves, _reserves = staged(monkeypatch, 3, {}, [], kept=1000)
    assert found is everything and not attempts and not solves


def test_a_stage_claims_what_no_pass_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _all, attempts, solves, reserves = staged(monkeypatch, 3, {890: (0, claim("relaxed")), 860: (900, claim("own"))}, [20])
    # Alone there are 1000 - 100 - 10 bytes; with 20 saved 1000 - 140, of which 860 - 20 - 40 are left free between the passes.
    assert [target for target, _start in solves] == [890, 860]
    assert solves[1][1] is not None
    assert reserves == [860 - 20 - (GRAPH.fixed_bytes + 20 + 15 + 2 + 3)]
    assert found.claim == Claim("relaxed", "any", 1000, 1.0)
    assert attempts == [(10, min(300, (1000 - GRAPH.fixed_bytes - 40) // 3), False)]
    _found, _all, attempts, solves, reserves = staged(monkeypatch, 1, {}, [20])
    assert reserves == [0]  # there is nothing between the passes
    assert attempts == [(300, 300, False)]
    _found, _all, attempts, _solves, _reserves = staged(monkeypatch, 1, {}, [20], most=5000)
    assert attempts == [(1000 - GRAPH.fixed_bytes - 40,) * 2 + (False,)]


def test_a_stages_target_is_lowered_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {860: (1000, claim("a")), 760: (910, claim("b")), 750: (900, claim("c"))}
    _found, _all, _attempts, solves, _reserves = staged(monkeypatch, 1, answers, [20])
    assert [target for target, _start in solves] == [890, 860, 760, 750]
    answers[750] = (901, claim("c"))
    with pytest.raises(checkmate.InfeasibleError) as caught:
        staged(monkeypatch, 1, answers, [20])
    assert not caught.value.proven and caught.value.largest_impossible == GRAPH.memory_floor - 1
    with pytest.raises(checkmate.InfeasibleError):
        staged(monkeypatch, 1, {860: impossible()}, [20])
    with pytest.raises(checkmate.InfeasibleError):
        staged(monkeypatch, 3, {}, [290])  # 1000 - 100 - 580 is less than is saved and held between the passes


def test_a_stage_at_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    floor = GRAPH.memory_floor
    for more in (0, -1):
        try:
            staged(
                monkeypatch, 1, {floor + 20 * 2 - 10 + more: (floor, claim("a")), floor: (floor - 100, claim("b"))}, [20], limit=140 + floor + more
            )
            assert more == 0
        except checkmate.InfeasibleError:
            assert more == -1  # a target below the floor is not tried
    with pytest.raises(checkmate.InfeasibleError, match="within 50 bytes"):
        staged(monkeypatch, 1, {1: impossible()}, [20], limit=50)  # a budget is a byte at least


@pytest.mark.parametrize(("largest", "proven"), [(889, False), (890, True)])
def test_what_no_pass_can_do_none_can_in_flight(monkeypatch: pytest.MonkeyPatch, largest: int, proven: bool) -> None:
    with pytest.raises(checkmate.InfeasibleError, match="within 1,000 bytes with so many: none") as caught:
        staged(monkeypatch, 3, {890: impossible(largest, "order")}, [20])
    error = caught.value
    assert (error.proven, error.budget_bytes, error.largest_impossible, error.covers) == (proven, 1000, largest + 110, "order")


def test_a_stage_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_stage, "keeping_all", lambda _model, limit, _traced: ("all", limit))
    monkeypatch.setattr(fit_stage, "fit_stage", lambda _model, limit, _traced, stage: (limit, stage))
    given = traced("stage")
    assert fit_stage.fit_in_flight(MODEL, None, given) == ("all", 0)
    assert fit_stage.fit_in_flight(MODEL, 7, given) == (7, "stage")

    def nothing(*_given: Any) -> Any:
        raise impossible()

    monkeypatch.setattr(fit_stage, "fit_stage", nothing)
    assert fit_stage.fit_in_flight(MODEL, 7, given) is None


# ---- What runs, and its peak


def test_the_peak_of_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits.peak, "sides", lambda *_given: SimpleNamespace(peak=100, crossing="crossing"))
    model: Any = SimpleNamespace(graph=SimpleNamespace(fixed_bytes=5), input_bytes=20, store=None)
    given = traced()
    given.reserved = lambda _model, _halves: 130
    assert fits.peak_with(model, None, given) == (100, None)  # type: ignore[arg-type]
    given.options.counts = "reserved"
    assert fits.peak_with(model, None, given) == (130, None)  # type: ignore[arg-type]
    given.reserved = lambda _model, _halves: None
    assert fits.peak_with(model, None, given) == (100, None)  # type: ignore[arg-type]
    monkeypatch.setattr(fits.partition, "split", lambda _model, _schedule: None)
    assert fits.peak_of(model, schedule(), given) == 100
    given.stage = SimpleNamespace(at_peak=lambda _sides, held: SimpleNamespace(total=1000 + held))
    total, parts = fits.peak_with(model, None, given)  # type: ignore[arg-type]
    assert total == 1025 and parts is not None


@pytest.mark.parametrize(
    ("compiler", "limit", "draws", "peaks", "expected"),
    [("eager", 100, True, [100, 90], 90), ("eager", 100, False, [100], 100), ("eager", 99, True, [100], 100), ("inductor", 100, True, [100], 100)],
)
def test_noise_is_drawn_once_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, compiler: str, limit: int, draws: bool, peaks: list[int], expected: int
) -> None:
    asked: list[int] = []
    left = iter(peaks)
    monkeypatch.setattr(fits.partition, "split", lambda _model, _schedule: "halves")
    monkeypatch.setattr(fits, "peak_with", lambda *_given: (next(left), None))
    monkeypatch.setattr(fits.dropout, "draw_noise", lambda _halves, room, _levels: asked.append(room) or draws)
    found = fits.run(MODEL, (schedule(), claim("a"), "cache"), 50, limit, traced(compiler=compiler))
    assert (found.peak_bytes, found.solved_bytes, found.claim, found.origin) == (expected, 50, claim("a"), "cache")
    assert asked == ([limit] if compiler == "eager" and limit == 100 else [])
    assert next(left, None) is None


def test_noise_leaves_room_for_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(fits.partition, "split", lambda _model, _schedule: "halves")
    monkeypatch.setattr(fits, "peak_with", lambda *_given: (60, None))
    monkeypatch.setattr(fits.peak, "sides", lambda *_given: SimpleNamespace(crossing=7))
    monkeypatch.setattr(fits.dropout, "draw_noise", lambda _halves, room, _levels: asked.append(room))
    fits.run(MODEL, (schedule(), NOTHING, "solver"), 50, 100, traced(SimpleNamespace(most_others=lambda crossing: 10 * crossing), compiler="eager"))
    assert asked == [30]


def test_what_is_given_runs_within_its_own_peak_and_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "run", lambda *given: given)
    given = traced()
    own = schedule(peak=77)
    assert fits.as_given(MODEL, own, given) == (MODEL, (own, NOTHING, "solver"), 77, 77, given)
    assert fits.as_given(MODEL, own, given, 99) == (MODEL, (own, NOTHING, "solver"), 77, 99, given)
    _model, (kept, proven, _origin), target, limit, _traced = fits.keeping_all(MODEL, 5, given)  # type: ignore[misc]
    assert proven == Claim.of_everything_kept(GRAPH)
    assert (target, limit) == (kept.simulate(GRAPH).peak_bytes, 5)


# ---- From the disk, or from the solver


def test_seconds_for_the_solver() -> None:
    def of(ops: int, time_limit: float | None = None) -> float:
        return solving.time_limit(SimpleNamespace(ops=range(ops)), SimpleNamespace(time_limit=time_limit))  # type: ignore[arg-type]

    assert [of(0), of(800), of(800 * 29), of(800 * 40), of(800 * 40, 0.0), of(0, 99.0)] == [1.0, 2.0, 30.0, 30.0, 0.0, 99.0]


def test_a_plan_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    said: list[str] = []
    stored: list[Any] = []
    options: Any = SimpleNamespace(
        strategy="auto", time_limit=3.0, gap=0.1, seed=5, threads=2, cache=True, progress=print, say=said.append, counts="allocated"
    )
    real = checkmate.solve(GRAPH, 5, time_limit=1)
    interrupted = False

    def solve(graph: Any, limit: int, progress: Any, **kwargs: Any) -> Any:
        asked.append({"limit": limit} | kwargs)
        for seconds, cost, gap in ((0.0, None, None), (0.5, 2 * GRAPH.total_cost, None), (1.4, GRAPH.total_cost, 0.5), (1.5, GRAPH.total_cost, 0.25)):
            if progress is not None:
                progress(SimpleNamespace(seconds=seconds, cost=cost, gap=gap, source="search"))
        return SimpleNamespace(
            **{k: getattr(real, k) for k in ("bound_covers", "budget_bytes", "bound")}, interrupted=interrupted, require=lambda: real
        )

    monkeypatch.setattr(solving, "solve", solve)
    store = solving.plan_cache.store
    monkeypatch.setattr(solving.plan_cache, "store", lambda *given: stored.append(given[0]) or store(*given))
    start = schedule()
    found, proven, origin = solving.solve_together(GRAPH, 5, options, start)
    assert asked == [{"limit": 5, "strategy": "auto", "time_limit": 3.0, "gap": 0.1, "threads": 2, "seed": 5, "start": start}]
    assert (origin, proven.bound_cost, proven.budget_bytes) == ("solver", real.bound, 5)
    assert found.verify(GRAPH, 5)
    assert said == ["0 s: overhead 100.00 % (search)", "2 s: overhead 0.00 %, gap 25 % (search)"]  # a second between them
    _found, again, origin = solving.solve_together(GRAPH, 5, options)
    assert (origin, again, len(asked)) == ("cache", proven, 1)
    options.cache, options.progress = False, None
    assert solving.solve_together(GRAPH, 5, options)[2] == "solver"
    assert len(asked) == 2 and len(stored) == 1
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        solving.solve_together(GRAPH, 5, options)
    monkeypatch.setattr(solving.caching_allocator, "expandable_segments", lambda: True)
    assert solving.of_allocator(options) == ()
    options.counts = "reserved"
    assert solving.of_allocator(options) == ("reserved", True)
    assert solving.settings_of(options) == ("auto", 3.0, 0.1, 5)
