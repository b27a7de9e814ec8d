# SPDX-License-Identifier: Apache-2.0
"""One step planned: traced, costed, solved, and built again in the schedule's order."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ..errors import InfeasibleError
from ..graph import Graph
from ..planning import budget as sizes
from ..planning import least, named, plan_cache
from ..planning.claim import NOTHING, Claim, gap_of, status_of
from ..planning.tidy import tidied
from ..schedule import COVERED, Schedule, proven_too_small
from ..solver import Progress, Solution, solve
from . import blocks, lower, measure, operators, program, run
from .report import recipes

FRONT = "tensorflow"

#: Overhead above which a second search follows, and how many times as long it takes.
_TOO_MUCH, _LONGER = 2.0, 3


@dataclass(frozen=True)
class Options:
    """As `checkmate.tf2.compile` documents them."""

    budget: int | float | str = "auto"
    fixed_bytes: int = 0
    costs: str = "measure"
    time_limit: float | None = None
    gap: float = 0.01
    threads: int = 1
    seed: int = 1
    strategy: str = "auto"
    cache: bool = True
    progress: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.budget != sizes.LEAST:
            sizes.in_bytes(self.budget)
        if self.costs not in ("measure", "estimate"):
            raise ValueError(f'costs must be "measure" or "estimate", not {self.costs!r}')
        if self.fixed_bytes < 0:
            raise ValueError(f"fixed_bytes must not be negative: {self.fixed_bytes}")

    def say(self, line: str) -> None:
        if self.progress is not None:
            self.progress(line)


@dataclass(frozen=True)
class Plan:
    """One planned step. Bytes count arguments, variables (the optimizer's too), values and what kernels allocate; costs are
    nanoseconds. `bound`, `gap` and `status` are proven of the schedules of `graph` within `budget_bytes`. `estimated`: calls whose
    measurement failed, and why. `origin`: "solver" or "cache". `next_budgets`: with budget="min", what a little more memory saves."""

    graph: Graph
    schedule: Schedule
    budget_bytes: int
    peak_bytes: int
    baseline_peak_bytes: int
    floor_bytes: int
    cost: int
    baseline_cost: int
    bound: float | None
    gap: float | None
    status: str
    recomputed: list[str]
    seconds: float
    origin: str
    estimated: dict[str, str] = field(default_factory=dict)
    next_budgets: tuple[least.Next, ...] = ()

    @property
    def overhead(self) -> float:
        return self.cost / self.baseline_cost - 1 if self.baseline_cost else 0.0

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page: memory over the step, what is live when, what is computed again and why."""
        self.schedule.report(self.graph, path, name="the plan", recipes=recipes(self.budget_bytes))

    def __str__(self) -> str:
        gap = "no bound" if self.gap is None else f"gap {100 * self.gap:.2g} %"
        origin = "from the cache" if self.origin == "cache" else f"{self.seconds:.1f} s"
        return (
            f"{len(self.graph.ops)} operators, peak {self.peak_bytes:,} of {self.budget_bytes:,} bytes "
            f"({self.baseline_peak_bytes:,} without rematerialization), {len(self.recomputed)} recomputed, "
            f"overhead {100 * self.overhead:.2f} %, {gap}, {origin}"
        )

    def __repr__(self) -> str:
        return f"<Plan: {self}>"


@dataclass(frozen=True)
class Traced:
    """A step that is ready to be solved."""

    lowered: lower.Lowered
    options: Options
    estimated: dict[str, str]

    @property
    def graph(self) -> Graph:
        return self.lowered.graph

    def peak(self, schedule: Schedule) -> int:
        return lower.peak_bytes(self.lowered, self.lowered.sequence(schedule))


@dataclass(frozen=True)
class _Fit:
    schedule: Schedule
    claim: Claim
    origin: str
    peak_bytes: int


def trace(concrete: Any, options: Options, name: str) -> Traced:
    """Reads the concrete function of a step and finds the costs of its operators."""
    return costed(program.read(concrete), options, name)


def costed(traced: operators.Program, options: Options, name: str) -> Traced:
    """Measures what the operators of a step take, or estimates it."""
    path = plan_cache.directory(FRONT) / "costs.json"
    costs = measure.Costs(measure=options.costs == "measure", known=_known(path) if options.cache else {})
    uncounted = measure.uncounted_bytes(costs)
    before = dict(costs.known)
    cut = blocks.of(traced)

    def tell(done: int, of: int) -> None:
        options.say(f"{name}: measuring what operators take: {done} of {of} kinds")

    facts = measure.table(costs, [*traced.calls, *cut.measured], tell)
    if options.cache and costs.known != before:
        plan_cache.keep(path, json.dumps(costs.known))
    return Traced(lower.lower(traced, facts, name=name, fixed_bytes=options.fixed_bytes, uncounted_bytes=uncounted,
                              guessed=not costs.measure or bool(costs.failed), blocks=cut), options, costs.failed)  # fmt: skip


def plan(step: operators.Program, options: Options, name: str, allowed_bytes: int = 0) -> tuple[Plan, Callable[..., list[Any]]]:
    """The plan, and the function that runs it: of the arguments' tensors, it gives the results' tensors. `allowed_bytes`: the budget
    that a step of another shape has already, which this one may use as well. InfeasibleError when nothing fits,
    KeyboardInterrupt on Ctrl-C."""
    begin = time.perf_counter()
    traced = costed(step, options, name)
    graph = traced.graph
    baseline = Schedule.baseline(graph)
    # What TensorFlow would take by itself, whose updates wait for the last gradient, and are made of whole variables.
    whole = traced.lowered.sequence(baseline, traced.lowered.blocks)
    top = max(lower.peak_bytes(traced.lowered, whole), lower.peak_bytes(traced.lowered, traced.lowered.program.traced))
    more: tuple[least.Next, ...] = ()
    if options.budget == sizes.LEAST and top > allowed_bytes:
        fit = _least(traced)
        limit = fit.peak_bytes
        options.say(f"{name}: {len(graph.ops)} operators, {top:,} bytes without rematerialization, {limit:,} at least found; solving")
        fit = _cheapest(traced, limit, fit)
        more = _beyond(traced, fit)
    else:
        held = sum(v.variable if v.is_resource else v.bytes for v in traced.lowered.program.inputs)
        wanted = (
            allowed_bytes
            if options.budget == sizes.LEAST
            else sizes.in_bytes(options.budget, baseline_bytes=top, standing_bytes=graph.standing_bytes, held_bytes=held)
        )
        limit = max(allowed_bytes, wanted)
        options.say(f"{name}: {len(graph.ops)} operators, {top:,} bytes without rematerialization, {graph.memory_floor:,} proven to be "
                    f"needed, budget {limit:,}")  # fmt: skip
        fit = _fit_or_say(traced, limit, top, name)
    sequence, peak = traced.lowered.within(fit.schedule, limit)
    specs = [v.spec for v in traced.lowered.program.inputs[: len(traced.lowered.program.inputs) - len(traced.lowered.program.captured)]]
    built = run.build(traced.lowered.program, sequence, specs)
    cost, bound = fit.schedule.simulate(graph).cost, fit.claim.bound_for(graph, limit)
    made = Plan(graph=graph, schedule=fit.schedule, budget_bytes=limit, peak_bytes=peak, baseline_peak_bytes=top,
                floor_bytes=graph.memory_floor, cost=cost, baseline_cost=graph.total_cost, bound=bound,
                gap=gap_of(cost, bound), status=status_of(cost, bound), recomputed=_recomputed(graph, fit.schedule),
                seconds=time.perf_counter() - begin, origin=fit.origin, estimated=traced.estimated, next_budgets=more)  # fmt: skip
    options.say(f"{name}: {made}")
    for line in least.lines(more, limit, made.overhead):
        options.say(f"{name}: {line}")
    return made, built


def _recomputed(graph: Graph, schedule: Schedule) -> list[str]:
    ops, seen, found = graph.ops, set(), []
    for step in schedule.steps:
        if step.kind == "compute":
            if step.index in seen:
                found.append(ops[step.index].name)
            seen.add(step.index)
    return found


def time_limit(graph: Graph, options: Options) -> float:
    """Seconds for the solver; by default two and one more for every 500 operators, at most 30."""
    return min(30.0, 2.0 + len(graph.ops) / 500) if options.time_limit is None else options.time_limit


def _fit(traced: Traced, limit: int, start: Schedule | None = None) -> _Fit:
    """The cheapest schedule found whose run fits, and the claim proven for the limit. An error is about the target that it names."""
    graph, options = traced.graph, traced.options
    baseline = Schedule.baseline(graph)
    if (peak := traced.peak(baseline)) <= limit:
        return _Fit(baseline, Claim.of_everything_kept(graph), "solver", peak)
    target, proven = limit, NOTHING
    while True:
        schedule, claim, origin = _solved(graph, target, options, start)
        proven = claim if target == limit else proven  # proofs for a lower target do not hold for the limit
        peak = traced.peak(schedule)
        if peak <= limit:
            return _Fit(schedule, proven, origin, peak)
        # TensorFlow frees later, or writes over less, than the dataflow graph has it: leave that much room and solve again.
        target = max(0, target - (peak - limit))


def _fit_or_say(traced: Traced, limit: int, top: int, name: str) -> _Fit:
    try:
        return _fit(traced, limit)
    except InfeasibleError as error:
        failed = error
    graph, on_disk = traced.graph, traced.options.cache
    known = named.recall(graph, FRONT, on_disk=on_disk)
    if known is not None and (peak := traced.peak(known)) <= limit:
        return _cheapest(traced, limit, _Fit(known, NOTHING, "solver", peak))
    proven = limit <= failed.largest_impossible
    traced.options.say(f"{name}: {f'no {COVERED[failed.covers]} fits' if proven else 'nothing was found within'} {limit:,} bytes; "
                       + proven_too_small(failed.largest_impossible, failed.covers, failed.impossible_for_all))  # fmt: skip
    smallest = _least(traced, least.AFTER_PROOF if proven else least.AFTER_SEARCH)
    if smallest.peak_bytes <= limit:
        return _cheapest(traced, limit, smallest)
    named.remember(graph, smallest.schedule, FRONT, on_disk=on_disk)
    overhead = smallest.schedule.simulate(graph).cost / max(1, graph.total_cost) - 1
    proofs = smallest.claim.impossible(graph, failed)
    # Of a run, which may need less than the graph counts.
    impossible, for_all = (min(traced.lowered.needed_bytes(1 + proof), smallest.peak_bytes) - 1 for proof in (proofs[0], proofs[2]))
    covers = proofs[1] if impossible > for_all else "any"
    proven = limit <= impossible
    raise InfeasibleError(
        f"{f'no {COVERED[covers]} fits' if proven else 'no schedule was found within'} {limit:,} bytes; budget={smallest.peak_bytes:,} works, "
        f"with {100 * overhead:.1f} % more computation at most; {proven_too_small(impossible, covers, for_all)}, {traced.lowered.basis}; without "
        f"rematerialization it takes {top:,}{sizes.in_shares(traced.options.budget, top, graph.standing_bytes, smallest.peak_bytes)}",
        proven=proven, budget_bytes=limit, smallest_known=smallest.peak_bytes, largest_impossible=impossible, covers=covers,
        impossible_for_all=for_all,
    ) from None  # fmt: skip


def _cheapest(traced: Traced, limit: int, smallest: _Fit) -> _Fit:
    """The cheapest fit found from one that is known to fit."""
    try:
        found = _fit(traced, limit, smallest.schedule)
    except InfeasibleError:
        return smallest
    cheapest = min(found, smallest, key=lambda f: f.schedule.simulate(traced.graph).cost)
    return replace(cheapest, claim=found.claim)


def _least(traced: Traced, solves: int | None = None) -> _Fit:
    """The fit in the least memory found; cached on disk. `solves`: a limit below that of the search."""
    graph, options = traced.graph, traced.options
    seconds = time_limit(graph, options)
    efforts: list[tuple[object, ...]] = [()] if solves is None else [(), ("solves", solves)]
    limited: tuple[int, ...] = () if solves is None else (solves,)
    paths = [plan_cache.path_of(graph, 0, (*_settings(options), "least", *effort), FRONT) for effort in efforts]
    for path in paths if options.cache else ():
        if (known := plan_cache.load(path, graph, None)) is not None:
            return _Fit(*known, "cache", traced.peak(known[0]))
    options.say(f"looking for the least that is enough, for {least.longest(seconds, *limited):.0f} s at most")
    schedule, claim = least.search(graph, options, seconds, traced.peak, *limited)
    if options.cache:
        plan_cache.store(paths[-1], schedule, claim)
    return _Fit(schedule, claim, "solver", traced.peak(schedule))


def _beyond(traced: Traced, fit: _Fit) -> tuple[least.Next, ...]:
    """The savings of budgets slightly above the least."""
    graph, options = traced.graph, traced.options
    path = plan_cache.path_of(graph, fit.peak_bytes, (*_settings(options), "beyond", fit.schedule.simulate(graph).cost), FRONT)
    return least.kept(path if options.cache else None,
                      lambda: least.beyond(graph, fit.schedule, options, time_limit(graph, options), traced.peak))  # fmt: skip


def _settings(options: Options) -> tuple[object, ...]:
    return options.strategy, options.time_limit, options.gap, options.seed, tf.__version__


def _solved(graph: Graph, limit: int, options: Options, start: Schedule | None) -> tuple[Schedule, Claim, str]:
    """A schedule of the same graph, budget and options found before, if the verifier accepts it; else solves, from `start`."""
    path = plan_cache.path_of(graph, limit, _settings(options), FRONT)
    known = plan_cache.load(path, graph, limit) if options.cache else None
    if known is not None:
        return *known, "cache"
    last = [-1.0]

    def report(p: Progress) -> None:
        if p.cost is not None and p.seconds - last[0] >= 1.0:
            last[0] = p.seconds
            gap = "" if p.gap is None else f", gap {100 * p.gap:.2g} %"
            options.say(f"{p.seconds:.0f} s: overhead {100 * (p.cost / max(1, graph.total_cost) - 1):.2f} %{gap} ({p.source})")

    def search(seconds: float, seed: int, start: Schedule | None) -> Solution:
        last[0] = -1.0
        found = solve(graph, limit, strategy=options.strategy, time_limit=seconds, gap=options.gap, threads=options.threads, seed=seed,
                      start=start, progress=report if options.progress is not None else None)  # fmt: skip
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    seconds = time_limit(graph, options)
    solution = search(seconds, options.seed, start)
    if solution.schedule is not None and (solution.overhead or 0.0) > _TOO_MUCH and solution.status != "optimal":
        options.say(f"{100 * (solution.overhead or 0.0):.0f} % more computation is a sign of too little time; searching again")
        again = search(_LONGER * seconds, options.seed + 1, solution.schedule)
        if again.cost is not None and solution.cost is not None and again.cost < solution.cost:
            solution = again
    found = solution.require().schedule
    assert found is not None
    schedule = tidied(graph, found)
    verdict = schedule.verify(graph, limit)
    if not verdict:
        raise AssertionError(f"the verifier refuses what the solver found: {verdict.why}")
    claim = Claim.of(graph, solution)
    if options.cache:
        plan_cache.store(path, schedule, claim)
    return schedule, claim, "solver"


def _known(path: os.PathLike[str]) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(open(path).read())  # noqa: SIM115 - read whole
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: record for key, record in found.items() if measure.is_record(record)} if isinstance(found, dict) else {}
