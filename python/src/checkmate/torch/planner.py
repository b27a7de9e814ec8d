# SPDX-License-Identifier: Apache-2.0
"""Plans one joint graph: costs, budget, solve, split, and the check that what will run fits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import fx

from ..errors import InfeasibleError
from ..graph import Graph
from ..planning import budget, least, plan_cache
from ..planning.tidy import tidied
from ..schedule import Schedule
from ..solver import Progress, solve
from . import breaks, copies, cost, devices, dropout, effects, gathered, joint, partition, peak, policies, random_state, ranks
from .places import model_called
from .ranges import Range, Ranges, UpperEnds
from .ranges import check as check_ranges
from .symbols import materialize
from .updates import unread
from .verify import Verification
from .views import reseat

#: The title of a graph whose model is not known.
UNNAMED = "torch"


@dataclass(frozen=True)
class Options:
    """What `compile` and `backend` take; see there."""

    budget: int | float | str
    costs: str = "measure"
    compiler: str = "eager"
    fixed_bytes: int = 0
    time_limit: float | None = None
    gap: float = 0.001
    threads: int = 2
    seed: int = 1
    strategy: str = "auto"
    random: str = "replay"
    checkpoint_policy: policies.Binding = "must"
    autocast_backward: bool = False
    cache: bool = True
    shapes: int = 0
    dynamic: bool | UpperEnds = False
    progress: Callable[[str], None] | None = field(default=None, compare=False)
    held_now_bytes: int = 0  # of fixed_bytes, what is on the device already
    title: str = UNNAMED  # of the graph

    def check(self) -> None:
        """ValueError for what is no choice."""
        choices = {"costs": ("estimate", "measure"), "random": ("replay", "keep"), "compiler": ("eager", "inductor"),
                   "checkpoint_policy": policies.BINDINGS}  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                quoted = " or ".join(f'"{choice}"' for choice in allowed)
                raise ValueError(f'{name} must be {quoted}, not "{getattr(self, name)}"')
        if self.budget not in ("auto", budget.LEAST) and not budget.is_share(self.budget):
            budget.in_bytes(self.budget)
        check_ranges(self.dynamic)

    def say(self, text: str) -> None:
        if self.progress is None:
            return
        try:
            self.progress(f"checkmate: {text}")
        except Exception as error:
            error.__dict__[_FROM_PROGRESS] = True
            raise


_FROM_PROGRESS = "_checkmate_progress"


def from_progress(error: BaseException) -> bool:
    """Whether it was raised by the user's `progress`, and so says nothing of the model."""
    return _FROM_PROGRESS in error.__dict__


@dataclass(frozen=True)
class Plan:
    """One planned graph. Bytes count parameters, inputs, gradients, `fixed_bytes` and `held_bytes`: what the model's other
    graphs hold, and what the model and the call have that no graph takes. Costs are nanoseconds of one step. `bound`, `gap` and
    `status` are about schedules within `solved_bytes`, which is less than the budget where PyTorch needs room that the dataflow
    graph does not count. `origin` is "solver", "cache", "another shape" whose schedule serves this one too, or such as "rank 0"
    where that process of a distributed job sent it. `detached`: outputs that are planned not to be differentiated.
    `ranges`: the sizes that it is for, proven at their upper ends, where the bytes are those of; empty for static shapes.
    `verification`: how the first step compares with eager mode, with verify=True."""

    graph: Graph
    schedule: Schedule
    budget_bytes: int
    solved_bytes: int
    peak_bytes: int
    baseline_peak_bytes: int
    floor_bytes: int
    saved_bytes: int
    held_bytes: int
    cost: int
    baseline_cost: int
    bound: float | None
    gap: float | None
    status: str
    recomputed: list[str]
    seconds: float
    origin: str
    detached: list[str] = field(default_factory=list)
    verification: Verification | None = None
    ranges: tuple[Range, ...] = ()

    @property
    def cached(self) -> bool:
        """Whether it was on disk."""
        return self.origin == "cache"

    @property
    def overhead(self) -> float:
        return self.cost / self.baseline_cost - 1 if self.baseline_cost else 0.0

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page: memory over the step, what is live when, what is computed again and why, by the model's modules,
        and what keeping everything or a checkpoint around every block would take."""
        from .report import write_plan

        write_plan(self, path)

    def __str__(self) -> str:
        gap = "no bound" if self.gap is None else f"gap {100 * self.gap:.2g} %"
        origin = {"solver": f"{self.seconds:.1f} s", "cache": "from the cache"}.get(self.origin, f"from {self.origin}")
        return (
            f"{len(self.graph.ops)} operators, peak {self.peak_bytes:,} of {self.budget_bytes:,} bytes "
            f"({self.baseline_peak_bytes:,} without rematerialization), {len(self.recomputed)} recomputed, "
            f"overhead {100 * self.overhead:.2f} %, {gap}, {origin}{_some('; not differentiated:', self.detached)}"
            f"{_some('; for', list(map(str, self.ranges)))}{'' if self.verification is None else f'; verified: {self.verification}'}"
        )

    def __repr__(self) -> str:
        return f"<Plan: {self}>"


def _some(title: str, names: list[str], most: int = 4) -> str:
    """The first of the names behind a title; nothing where there are none."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{title} {', '.join(names[:most])}{more}" if names else ""


def _device(module: fx.GraphModule) -> torch.device:
    """Where the step runs: an accelerator, if any tensor is on one."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    devices = [value.device for value in values if isinstance(value, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


class Traced:
    """A joint graph, ready to be made a dataflow graph of."""

    def __init__(self, module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True) -> None:
        self.module, self.num_fwd_outputs, self.options, self.name = module, num_fwd_outputs, options, name
        self.workspace: dict[str, int] = {}
        self.title = options.title if options.title != UNNAMED else model_called() or UNNAMED
        self.measured = cost.Measured(plan_cache.directory() if options.cache else None) if options.costs == "measure" else None
        self.loss_outside = loss_outside
        self.replay = options.random == "replay" and options.compiler == "eager"
        materialize(module)
        if options.compiler == "eager":
            copies.apply(module)
            dropout.rewrite(module)
            gathered.apply(module)
            unread(module)
        joint.snapshot_mutated(module, num_fwd_outputs)
        reseat(module)
        policies.apply(module, num_fwd_outputs, options.checkpoint_policy, replay=self.replay)
        if self.measured is not None:
            options.say(f"measuring what the calls of {name} cost")
            self.measured.prepare(module.graph.nodes)

    def _cost(self, node: fx.Node) -> tuple[int, int]:
        nanoseconds, extra = (self.measured or cost.estimate)(node)
        self.workspace[node.name] = extra
        return nanoseconds, extra

    def build(self, *, reserve_bytes: int = 0) -> joint.Joint:
        """`reserve_bytes`: what has to be free between the forward and the backward pass."""
        loss = joint.LossOutside.of(list(self.module.graph.nodes)) if self.loss_outside else joint.LossOutside()
        return joint.build(self.module, self.num_fwd_outputs, self._cost, name=self.title, fixed_bytes=self.options.fixed_bytes,
                           replay=self.replay, overwrite=self.options.compiler == "eager", reserve_bytes=reserve_bytes,
                           loss=loss)  # fmt: skip


def trace(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True) -> Traced:
    """Marks in the module what may be computed again, and measures its calls. `name` is for messages. `loss_outside`: whether the
    caller makes a loss of outputs that are no scalars, and needs room for it."""
    return Traced(module, num_fwd_outputs, options, name, loss_outside=loss_outside)


def plan(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str,
         around: breaks.Surroundings = breaks.Surroundings(),  # noqa: B008 - frozen
         detached: list[str] | None = None, others: Sequence[Schedule] = (),
         within: Ranges | None = None) -> tuple[Plan, partition.Halves]:  # fmt: skip
    """Plans a joint graph. `detached`: for the plan. `others`: schedules for other shapes; the cheapest that is valid for this graph
    too, and whose run is within the budget, is used, and nothing is solved. `within`: the ranges of its symbols, which have the values
    of the upper ends when this is called. InfeasibleError when no schedule is found within the
    budget, KeyboardInterrupt on Ctrl-C."""
    begin = time.perf_counter()
    options = replace(options, fixed_bytes=options.fixed_bytes + around.held_bytes)
    traced = trace(module, num_fwd_outputs, options, name, loss_outside=not around.followed)
    if within is not None:
        within.bind(module.graph.nodes)
    model = traced.build()
    baseline = Schedule.baseline(model.graph).simulate(model.graph)
    size = f"{name}: {len(model.graph.ops)} operators, {baseline.peak_bytes:,} bytes without rematerialization"
    if options.budget == budget.LEAST:
        options.say(f"{size}, budget: the least")
        smallest = _least(model, traced)
        limit = smallest.peak_bytes
        fit = _cheapest(model, limit, traced, smallest)
    else:
        present = model.input_bytes if within is None else within.present_bytes(model)
        limit = budget.in_bytes(options.budget, baseline_bytes=baseline.peak_bytes, free_bytes=lambda: devices.free_bytes(_device(module)),
                                held_bytes=present + around.held_bytes + options.held_now_bytes)  # fmt: skip
        options.say(f"{size}, budget {limit:,}")
        known = _fit_of_others(model, limit, traced, others)
        model, fit = (model, known) if known is not None else _fit_among(model, limit, traced, around)
    total = fit.schedule.simulate(model.graph).cost
    made = Plan(
        graph=model.graph, schedule=fit.schedule, budget_bytes=limit, solved_bytes=fit.solved_bytes, peak_bytes=fit.peak_bytes,
        baseline_peak_bytes=baseline.peak_bytes, floor_bytes=model.graph.memory_floor, saved_bytes=fit.halves.saved_bytes,
        held_bytes=around.held_bytes, cost=total, baseline_cost=model.graph.total_cost, bound=fit.claim.bound,
        gap=None if not fit.claim.bound else max(0.0, total / fit.claim.bound - 1), status=fit.claim.status,
        recomputed=fit.halves.recomputed, seconds=time.perf_counter() - begin, origin=fit.origin, detached=detached or [],
        ranges=() if within is None else within.prove(model, fit.halves, traced.workspace, limit, fit.peak_bytes),
    )  # fmt: skip
    options.say(f"{name}: {made}")
    return made, fit.halves


def _fit_of_others(model: joint.Joint, limit: int, traced: Traced, others: Sequence[Schedule]) -> _Fit | None:
    """The cheapest of the schedules for other shapes that is one for this graph, by the verifier, and whose run is within the
    limit; before them, keeping everything. None where there are none."""
    if not others:
        return None
    baseline = Schedule.baseline(model.graph)
    valid = [schedule for schedule in others if schedule.verify(model.graph, limit)]
    for schedule in [baseline, *sorted(valid, key=lambda s: s.simulate(model.graph).cost)]:
        claim = plan_cache.Claim("optimal", float(model.graph.total_cost)) if schedule is baseline else plan_cache.Claim("feasible", None)
        fit = _run(model, (schedule, claim, "another shape"), limit, limit, traced)
        if fit.peak_bytes <= limit:
            return fit
    return None


def _fit_among(model: joint.Joint, limit: int, traced: Traced, around: breaks.Surroundings) -> tuple[joint.Joint, _Fit]:
    """The fit that leaves most to the graphs that follow, and the graph it is of."""
    if not around.followed:
        return model, _fit_or_say(model, limit, traced)
    free = max(0, limit - traced.options.fixed_bytes - model.input_bytes)
    for part in breaks.RESERVES[:-1] if _followed(model) else ():
        try:
            reserved = traced.build(reserve_bytes=int(part * free))
            return reserved, _fit(reserved, limit, traced)
        except InfeasibleError:
            pass
    try:
        return model, _fit_or_say(model, limit, traced)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"{traced.name} of the model, beside which {around.held_bytes} bytes are held: {error} (while no more are held)",
            proven=error.proven, budget_bytes=limit, smallest_known=error.smallest_known, largest_impossible=error.largest_impossible,
        ) from None  # fmt: skip


def _followed(model: joint.Joint) -> bool:
    """Whether another graph may differentiate through this one's outputs: a loss is the end."""
    tangents = [node.meta["val"] for node in model.module.graph.nodes if joint.is_tangent(node)]
    return any(isinstance(value, torch.Tensor) and value.numel() > 1 for value in tangents)


@dataclass(frozen=True)
class _Fit:
    """A schedule that fits, the graphs to run and their peak."""

    schedule: Schedule
    claim: plan_cache.Claim
    origin: str
    halves: partition.Halves
    peak_bytes: int
    solved_bytes: int


def _fit_or_say(model: joint.Joint, limit: int, traced: Traced) -> _Fit:
    """A fit; or an InfeasibleError that names a budget which works when it is passed on."""
    try:
        return _fit(model, limit, traced)
    except InfeasibleError as error:
        failed = error
    traced.options.say(f"{traced.name}: nothing was found within {limit:,} bytes; looking for the least that is enough")
    smallest = _least(model, traced)
    if smallest.peak_bytes <= limit:
        return _cheapest(model, limit, traced, smallest)
    enough, fit = _found_again(model, smallest, traced)
    overhead = fit.schedule.simulate(model.graph).cost / max(1, model.graph.total_cost) - 1
    impossible = max(failed.largest_impossible, int(smallest.claim.bound or 0) - 1)
    proven = failed.proven or limit <= impossible
    raise InfeasibleError(
        f"{'no schedule fits' if proven else 'no schedule was found within'} {limit:,} bytes; budget={enough:,} works, with "
        f"{100 * overhead:.1f} % more computation; {impossible:,} bytes are proven not to",
        proven=proven, budget_bytes=limit, smallest_known=enough, largest_impossible=impossible,
    ) from None  # fmt: skip


def _fit(model: joint.Joint, limit: int, traced: Traced) -> _Fit:
    room = _room_for_states(model, limit)
    target, lowered = limit - room, False
    while True:
        try:
            fit = _run(model, _solve_together(model.graph, target, traced.options), target, limit, traced)
        except InfeasibleError as error:
            if room:
                target, room = limit, 0
                continue
            if not lowered:
                raise
            raise InfeasibleError(f"no schedule was found whose run fits {limit} bytes: {error}", proven=False, budget_bytes=limit,
                                  smallest_known=None, largest_impossible=model.graph.memory_floor - 1) from None  # fmt: skip
        if fit.peak_bytes <= limit:
            return fit
        # The solver counts bytes that PyTorch frees later, or not at all: leave that much room and solve again.
        target, room, lowered = max(0, target - (fit.peak_bytes - limit)), 0, True


def _run(model: joint.Joint, found: ranks.Found, target: int, limit: int, traced: Traced) -> _Fit:
    """What runs a schedule, found for `target` bytes, and its peak, which may be above `limit`."""
    schedule, claim, origin = found
    halves = partition.split(model, schedule)
    levels: dict[fx.Node, int] = {}
    real = peak.peak_bytes(model, halves, traced.workspace, levels)
    if real <= limit and traced.options.compiler == "eager" and dropout.draw_noise(halves, limit, levels):
        real = peak.peak_bytes(model, halves, traced.workspace)
    return _Fit(schedule, claim, origin, halves, real, target)


def _least(model: joint.Joint, traced: Traced) -> _Fit:
    """What runs in least memory, and as its claim's bound the bytes proven to be needed; from the disk, if it is there, and
    the same for all processes of a job."""
    graph, options = model.graph, traced.options
    settings, seconds = (*_settings(options), "least"), time_limit(graph, options)

    def find() -> ranks.Found:
        path = plan_cache.path_of(graph, 0, settings)
        known = plan_cache.load(path, graph, None) if options.cache else None
        if known is not None:
            return *known, "cache"
        schedule, claim = least.search(graph, options, seconds, lambda s: peak.peak_bytes(model, partition.split(model, s), traced.workspace))
        if options.cache:
            plan_cache.store(path, schedule, claim)
        return schedule, claim, "solver"

    found = ranks.first_come(graph, None, settings, find, least.longest(seconds) + 60)
    return _run(model, found, found[0].simulate(graph).peak_bytes, 0, traced)


def _cheapest(model: joint.Joint, limit: int, traced: Traced, smallest: _Fit) -> _Fit:
    """The cheapest fit found from one that is known to fit."""
    target, last = limit, smallest.solved_bytes
    while True:
        fit = _run(model, _solve_together(model.graph, target, traced.options, smallest.schedule), target, limit, traced)
        if fit.peak_bytes <= limit:
            return fit
        if target <= last:
            return _run(model, (smallest.schedule, plan_cache.Claim("feasible", None), smallest.origin), last, limit, traced)
        target = max(last, target - (fit.peak_bytes - limit)) if target == limit else last


def _found_again(model: joint.Joint, smallest: _Fit, traced: Traced) -> tuple[int, _Fit]:
    """The least budget, or a little more, for which another search that knows nothing of this one finds a fit."""
    for percent in least.MARGINS:
        limit = smallest.peak_bytes + smallest.peak_bytes * percent // 100
        try:
            return limit, _fit(model, limit, traced)
        except InfeasibleError:
            traced.options.say(f"{traced.name}: {limit:,} bytes are enough, but were not found to be so again")
    baseline = Schedule.baseline(model.graph)
    fit = _run(model, (baseline, plan_cache.Claim("feasible", None), "solver"), 0, 0, traced)
    return fit.peak_bytes, fit


def _room_for_states(model: joint.Joint, limit: int) -> int:
    """Bytes of the generator states that replays may need, which the dataflow graph does not count; none where nothing
    needs to be computed again, or where that is more than a hundredth of the budget, since few are needed as a rule."""
    if Schedule.baseline(model.graph).simulate(model.graph).peak_bytes <= limit:
        return 0
    room = sum(random_state.state_bytes(op.node) for op in model.ops if op.node is not None and effects.is_random(op.node))
    return room if room <= limit // 100 else 0


def time_limit(graph: Graph, options: Options) -> float:
    """Seconds for the solver; unless they are given, so many that planning takes less than five for a thousand operators."""
    return min(30.0, 1.0 + len(graph.ops) / 800) if options.time_limit is None else options.time_limit


def _settings(options: Options) -> tuple[object, ...]:
    """What a plan depends on beside the graph and the budget."""
    return options.strategy, options.time_limit, options.gap, options.seed


def _solve_together(graph: Graph, limit: int, options: Options, start: Schedule | None = None) -> ranks.Found:
    """As `_solve_cached`; the processes of one distributed job use the schedule of the first one to plan the same graph."""
    settings = (*_settings(options), start is not None)
    return ranks.first_come(graph, limit, settings, lambda: _solve_cached(graph, limit, options, start), time_limit(graph, options) + 60)


def _solve_cached(graph: Graph, limit: int, options: Options, start: Schedule | None) -> ranks.Found:
    """A schedule of the same graph, budget and options found before, if the verifier accepts it; else solves, from `start`."""
    path = plan_cache.path_of(graph, limit, _settings(options))
    if options.cache:
        known = plan_cache.load(path, graph, limit)
        if known is not None:
            return *known, "cache"
    last = [-1.0]

    def report(p: Progress) -> None:
        if p.cost is not None and p.seconds - last[0] >= 1.0:
            last[0] = p.seconds
            gap = "" if p.gap is None else f", gap {100 * p.gap:.2g} %"
            options.say(f"{p.seconds:.0f} s: overhead {100 * (p.cost / max(1, graph.total_cost) - 1):.2f} %{gap} ({p.source})")

    solution = solve(graph, limit, strategy=options.strategy, time_limit=time_limit(graph, options), gap=options.gap,
                     threads=options.threads, seed=options.seed, start=start, progress=report if options.progress is not None else None)  # fmt: skip
    if solution.interrupted:
        raise KeyboardInterrupt
    schedule = solution.require().schedule
    assert schedule is not None
    schedule = tidied(graph, schedule)
    claim = plan_cache.Claim(solution.status, solution.bound)
    if options.cache:
        plan_cache.store(path, schedule, claim)
    return schedule, claim, "solver"


__all__ = ["InfeasibleError", "Options", "Plan", "from_progress", "plan", "time_limit", "trace"]
