# SPDX-License-Identifier: Apache-2.0
"""Plans one joint graph: costs, budget, solve, split, and the check that what will run fits."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

import torch
from torch import fx

from ...errors import CheckmateError, InfeasibleError
from ...planning import budget, least, plan_cache, structure
from ...planning.claim import NOTHING, Claim, gap_of, status_of
from ...schedule import Schedule
from ..cost import collectives
from ..distributed import ranks, rendezvous, shards
from ..distributed.rendezvous import meet
from ..fx import dataflow, devices, partition
from ..memory import pipeline
from ..memory.ranges import Ranges
from ..options import Options
from ..trace import phases, subgraphs
from . import solving
from .fit import Fit, as_given, keeping_all, peak_of, run
from .fit_least import cheapest, least_of_all
from .fit_within import fit_or_say, fit_within
from .prepare import Traced, device_of, trace
from .result import Plan

Made = tuple[Plan, partition.Halves]


def plan(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str,
         around: subgraphs.Surroundings = subgraphs.Surroundings(),  # noqa: B008 - frozen
         detached: list[str] | None = None, others: Sequence[Schedule] = (),
         within: Ranges | None = None, stage: pipeline.Stage | None = None, *, frozen: Mapping[int, str] | None = None,
         fallback: bool = False) -> Made:  # fmt: skip
    """Plans a joint graph. `detached`: for the plan. `others`: schedules for other shapes; the cheapest that is valid for this graph
    too, and whose run is within the budget, is used, and nothing is solved. `within`: the ranges of its symbols, which have the values
    of the upper ends when this is called. `stage`: of a pipeline, whose peak counts all micro-batches in flight. `frozen`: as in `trace`.
    Processes that share a call fail together; with `fallback`, only where nothing fits. InfeasibleError when no schedule is found within the budget,
    KeyboardInterrupt on Ctrl-C."""
    begin = time.perf_counter()
    options = replace(options, fixed_bytes=options.fixed_bytes + around.held_bytes)
    traced = trace(module, num_fwd_outputs, options, name, loss_outside=not around.followed, stage=stage, frozen=frozen)
    find = functools.partial(_plan, traced, name, begin, around, detached or [], others, within)
    if ranks.size() > 1:
        for members, key in rendezvous.agree(collectives.between(module)).items():
            find = functools.partial(_with_others, members, key, find, fallback=fallback)
    return find()


def _with_others(members: Sequence[int], key: str, find: Callable[[], Made], *, fallback: bool) -> Made:
    """Plans while these processes do. What all processes plan together is told there."""
    return find() if rendezvous.planning_under else rendezvous.together(members, key, find, fallback=fallback)


def _plan(traced: Traced, name: str, begin: float, around: subgraphs.Surroundings, detached: list[str], others: Sequence[Schedule],
          within: Ranges | None) -> Made:  # fmt: skip
    options, module, stage = traced.options, traced.module, traced.stage
    if within is not None:
        within.bind(module.graph.nodes)
    model = traced.build()
    baseline_bytes = Schedule.baseline(model.graph).simulate(model.graph).peak_bytes if stage is None else keeping_all(model, 0, traced).peak_bytes
    floor = model.graph.memory_floor
    size = f"{name}: {len(model.graph.ops)} operators, {baseline_bytes:,} bytes without rematerialization, {floor:,} proven to be needed"
    given: int | None = None
    if options.budget != budget.LEAST:
        present = model.input_bytes if within is None else within.present_bytes(model)
        largest = max(baseline_bytes, options.largest_bytes)
        given = budget.in_bytes(options.budget, baseline_bytes=largest, standing_bytes=model.graph.standing_bytes,
                                free_bytes=lambda: devices.free_bytes(device_of(module)),
                                held_bytes=present + around.held_bytes + options.held_now_bytes)  # fmt: skip
    options.say(f"{size}, budget{': the least' if given is None else f' {given:,}'}")

    def find(limit: int | None) -> tuple[dataflow.Joint, Fit, int]:
        if options.given is not None:
            if not (verdict := options.given.verify(model.graph)):
                raise CheckmateError(f"the given schedule is not one of {name}: {verdict.why}")
            fit = as_given(model, options.given, traced)
            return model, fit, fit.peak_bytes
        if limit is None:
            smallest = least_of_all(model, traced)
            return model, cheapest(model, smallest.peak_bytes, traced, smallest), smallest.peak_bytes
        known = _fit_of_others(model, limit, traced, others)
        return (*((model, known) if known is not None else _fit_among(model, limit, traced, around)), limit)

    members = shards.ranks_of(module)
    model, fit, limit = find(given) if len(members) < 2 else _fit_of_all(members, model, given, traced, find)
    total = fit.schedule.simulate(model.graph).cost
    if model.store is not None:  # what there is no room for is an error now
        model.store.reserve(fit.schedule.simulate(model.graph).second_peak_bytes + traced.left_bytes)
    alone = stage is None and within is None and options.compiler == "eager" and ranks.size() == 1
    more = _beyond(model, fit, traced) if given is None and options.given is None and alone else ()
    within_bytes = limit if fit.claim.budget_bytes is None else min(limit, fit.claim.budget_bytes)
    bound = fit.claim.bound_for(model.graph, within_bytes)
    made = Plan(
        graph=model.graph, schedule=fit.schedule, budget_bytes=limit, solved_bytes=fit.solved_bytes, peak_bytes=fit.peak_bytes,
        baseline_peak_bytes=baseline_bytes, floor_bytes=floor, saved_bytes=fit.halves.saved_bytes,
        held_bytes=around.held_bytes, cost=total, baseline_cost=model.graph.total_cost, bound=bound,
        bound_bytes=within_bytes, gap=gap_of(total, bound), status=status_of(total, bound), recomputed=fit.halves.recomputed,
        seconds=time.perf_counter() - begin, origin=fit.origin, detached=detached,
        ranges=() if within is None else within.prove(model, fit.halves, traced.workspace, limit, fit.peak_bytes),
        input_bytes=model.input_bytes, loss=model.loss, in_flight=None if stage is None else stage.flight, parts=fit.parts,
        reserved_bytes=traced.reserved(model, fit.halves) if within is None and stage is None else None, next_budgets=more,
    )  # fmt: skip
    options.say(f"{name}: {made}")
    for line in least.lines(more, limit, made.overhead):
        options.say(f"{name}: {line}")
    return made, fit.halves


def _beyond(model: dataflow.Joint, fit: Fit, traced: Traced) -> tuple[least.Next, ...]:
    """What a little more memory than the least would save."""
    graph, options = model.graph, traced.options
    path = plan_cache.path_of(graph, fit.peak_bytes, (*solving.settings_of(options), "beyond", fit.schedule.simulate(graph).cost))
    with phases.part(phases.SOLVING):
        return least.kept(path if options.cache else None, lambda: least.beyond(
            graph, fit.schedule, options, solving.time_limit(graph, options), lambda s: peak_of(model, s, traced)))  # fmt: skip


def _fit_of_all(members: set[int], model: dataflow.Joint, limit: int | None, traced: Traced,
                find: Callable[[int | None], tuple[dataflow.Joint, Fit, int]]) -> tuple[dataflow.Joint, Fit, int]:  # fmt: skip
    """What the first of these processes finds. They may differ in what they hold outside the graph, as their parts of an optimizer's state
    do, so it plans for the least room that is left. What it proved names its graph: under other costs there is no bound."""
    fixed = model.graph.fixed_bytes
    meeting = meet(sorted(members), structure.digest(model.graph), None if limit is None else limit - fixed)
    if meeting.leads:
        found: list[tuple[dataflow.Joint, Fit, int]] = []

        def answer() -> str:
            found.append(find(None if meeting.room is None else meeting.room + fixed))
            _model, fit, within = found[0]
            return json.dumps([fit.schedule.to_json(), asdict(fit.claim), fit.solved_bytes - fixed, within - fixed])

        meeting.lead(answer)
        return found[0]
    told, claim, solved, room = json.loads(meeting.follow())
    schedule, within = Schedule.parse(told), room + fixed
    if not schedule.verify(model.graph, within):
        raise CheckmateError(f"the schedule of {meeting.leader} is not one of this process' graph")
    fit = run(model, (schedule, Claim(**claim), meeting.leader), solved + fixed, within, traced)
    if fit.peak_bytes > within:
        raise CheckmateError(f"the plan of {meeting.leader} takes {fit.peak_bytes:,} bytes here, of {within:,}")
    return model, fit, within


def _fit_of_others(model: dataflow.Joint, limit: int, traced: Traced, others: Sequence[Schedule]) -> Fit | None:
    """The cheapest of the schedules for other shapes that is one for this graph, by the verifier, and whose run is within the
    limit; before them, keeping everything. None where there are none."""
    if not others:
        return None
    baseline = Schedule.baseline(model.graph)
    valid = [schedule for schedule in others if schedule.verify(model.graph, limit)]
    for schedule in [baseline, *sorted(valid, key=lambda s: s.simulate(model.graph).cost)]:
        claim = Claim.of_everything_kept(model.graph) if schedule is baseline else NOTHING
        fit = run(model, (schedule, claim, "another shape"), limit, limit, traced)
        if fit.peak_bytes <= limit:
            return fit
    return None


def _fit_among(model: dataflow.Joint, limit: int, traced: Traced, around: subgraphs.Surroundings) -> tuple[dataflow.Joint, Fit]:
    """The fit that leaves most to the graphs that follow, and the graph it is of."""
    if not around.followed:
        return model, fit_or_say(model, limit, traced)
    free = max(0, limit - traced.options.fixed_bytes - model.input_bytes)
    for part in subgraphs.RESERVES[:-1] if _followed(model) else ():
        try:
            reserved = traced.build(reserve_bytes=int(part * free))
            return reserved, fit_within(reserved, limit, traced)
        except InfeasibleError:
            pass
    try:
        return model, fit_or_say(model, limit, traced, followed=_followed(model))
    except InfeasibleError as error:
        raise InfeasibleError(
            f"{traced.name} of the model, while {around.held_bytes} other bytes are held: {error} (if no more are held)",
            **(error.facts() | {"budget_bytes": limit}),
        ) from None


def _followed(model: dataflow.Joint) -> bool:
    """Whether another graph may differentiate through this one's outputs: a loss is the end."""
    tangents = [node.meta["val"] for node in model.module.graph.nodes if dataflow.is_tangent(node)]
    return any(isinstance(value, torch.Tensor) and value.numel() > 1 for value in tangents)
