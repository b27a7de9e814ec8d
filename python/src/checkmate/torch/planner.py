# SPDX-License-Identifier: Apache-2.0
"""Plans one joint graph: costs, budget, solve, split, and the check that what will run fits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import fx

from ..errors import InfeasibleError, UnsupportedError
from ..graph import Graph
from ..planning import budget, least, plan_cache
from ..planning.device import Device
from ..planning.tidy import tidied
from ..schedule import Schedule
from ..solver import Progress, solve
from . import (
    breaks,
    copies,
    cost,
    devices,
    dropout,
    effects,
    fusion,
    gathered,
    joint,
    libraries,
    modelled,
    partition,
    peak,
    pipeline,
    policies,
    random_state,
    ranks,
    reserved,
)
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
    counts: str = "allocated"
    checkpoint_policy: policies.Binding = "must"
    autocast_backward: bool = False
    cache: bool = True
    shapes: int = 0
    dynamic: bool | UpperEnds = False
    in_flight: int | None = None
    progress: Callable[[str], None] | None = field(default=None, compare=False)
    held_now_bytes: int = 0  # of fixed_bytes, what is on the device already
    title: str = UNNAMED  # of the graph
    device: Device | None = None  # that costs are modelled for; None where the step will run here

    def check(self) -> None:
        """ValueError for what is no choice."""
        choices = {"costs": ("estimate", "measure"), "random": ("replay", "keep"), "compiler": ("eager", "inductor"),
                   "counts": ("allocated", "reserved"), "checkpoint_policy": policies.BINDINGS}  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                quoted = " or ".join(f'"{choice}"' for choice in allowed)
                raise ValueError(f'{name} must be {quoted}, not "{getattr(self, name)}"')
        if self.counts == "reserved" and (self.compiler != "eager" or self.dynamic or self.in_flight is not None):
            raise ValueError('counts="reserved" needs compiler="eager", fixed sizes and no in_flight: else the order of allocations is not known')
        if self.budget not in ("auto", budget.LEAST) and not budget.is_share(self.budget):
            budget.in_bytes(self.budget)
        check_ranges(self.dynamic)
        if self.in_flight is not None:
            pipeline.InFlight.of(self.in_flight)
            if self.compiler != "eager" or self.dynamic:
                raise ValueError('in_flight= needs compiler="eager" and static shapes: else what micro-batches save is not known')

    def say(self, text: str) -> None:
        if self.progress is None:
            return
        try:
            self.progress(f"checkmate: {text}")
        except Exception as error:
            error.__dict__[_FROM_PROGRESS] = True
            raise


_FROM_PROGRESS = "_checkmate_progress"

#: For a stage of a pipeline: how often a target is lowered because PyTorch needs more than the dataflow graph counts; and the shares of
#: what one micro-batch takes that are left free between the passes to find the least of all that is in flight.
_LOWERED, _RESERVES = 3, (1.0,)
#: Budgets that are tried then, as shares of the least found, each as long as something fits.
_DESCENTS = (0.8, 0.95)


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
    `verification`: how the first step compares with eager mode, with verify=True. `input_bytes`: parameters, buffers and inputs of
    the graph. `loss`: the room for a loss computed outside. `reserved_bytes`: what PyTorch's allocator takes from a GPU for this plan, by
    its rules; None on a CPU. With compiler="inductor" `peak_bytes` is measured, not planned.
    `in_flight`: micro-batches in flight, where that was given; `parts` are then what the peak is made of, and `baseline_peak_bytes` counts
    all micro-batches too, while the graph and `solved_bytes` are of one."""

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
    input_bytes: int = 0
    reserved_bytes: int | None = None
    loss: joint.LossOutside = field(default_factory=joint.LossOutside)
    in_flight: pipeline.InFlight | None = None
    parts: pipeline.Parts | None = None

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
            f"overhead {100 * self.overhead:.2f} %, {gap}, {origin}"
            f"{'' if self.reserved_bytes is None else f'; the allocator reserves {self.reserved_bytes:,}'}"
            f"{_some('; not differentiated:', self.detached)}"
            f"{_some('; for', list(map(str, self.ranges)))}{'' if self.verification is None else f'; verified: {self.verification}'}"
            f"{'' if self.in_flight is None else f'; {self.in_flight.description}: {self.parts}'}"
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

    def __init__(self, module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
                 stage: pipeline.Stage | None = None) -> None:  # fmt: skip
        nodes, device = list(module.graph.nodes), _device(module)
        libraries.check(nodes, device)
        self.on_cuda = devices.on_cuda(device)
        if options.counts == "reserved" and not self.on_cuda:
            raise UnsupportedError(f'counts="reserved" is for PyTorch\'s allocator on CUDA, and the model is on {device}: leave it out')
        if options.counts == "reserved" and reserved.expandable_segments() is None:
            raise UnsupportedError(
                'counts="reserved" knows the allocator with expandable_segments or without, not the other settings of PYTORCH_ALLOC_CONF'
            )
        kept = libraries.kept_bytes(nodes, device)
        options = replace(options, fixed_bytes=options.fixed_bytes + kept, held_now_bytes=options.held_now_bytes + kept)
        self.module, self.num_fwd_outputs, self.options, self.name = module, num_fwd_outputs, options, name
        self.workspace: dict[str, int] = {}
        self.title = options.title if options.title != UNNAMED else model_called() or UNNAMED
        self.measured = (
            cost.Measured(plan_cache.directory() if options.cache else None) if options.costs == "measure" and options.device is None else None
        )
        self.loss_outside = loss_outside and (stage is None or stage.loss_outside)
        self.stage: pipeline.Stage | None = None
        self.replay = options.random == "replay" and options.compiler == "eager"
        materialize(module)
        if options.compiler == "eager":
            copies.apply(module)
        dropout.rewrite(module, decomposed=options.compiler == "inductor")
        if options.compiler == "eager":
            gathered.apply(module)
            unread(module)
        joint.snapshot_mutated(module, num_fwd_outputs)
        reseat(module)
        policies.apply(module, num_fwd_outputs, options.checkpoint_policy, replay=self.replay)
        if self.measured is not None:
            options.say(f"measuring what the calls of {name} cost")
            self.measured.prepare(module.graph.nodes)
        if stage is not None:
            self.stage = self._sized(stage)

    def _sized(self, stage: pipeline.Stage) -> pipeline.Stage:
        """With what only the joint graph tells."""
        nodes = list(self.module.graph.nodes)
        given = [node for node in nodes[-1].args[0][: self.num_fwd_outputs] if isinstance(node, fx.Node)]
        taken = [node.meta.get("val") for node in nodes if node.op == "placeholder" and not joint.is_tangent(node)]
        inputs = {joint.storage_key(value): joint.storage_bytes(value) for value in taken if isinstance(value, torch.Tensor)}
        counted = sum(inputs.values()) - stage.own_inputs  # a part of a batch may be traced with the storage of the whole, or without
        made = [node for node in given if node not in joint.updates(self.module, self.num_fwd_outputs)]
        outputs = {joint.storage_key(v): joint.storage_bytes(v) for v in (node.meta["val"] for node in made) if isinstance(v, torch.Tensor)}
        tangents = [node.meta["val"] for node in nodes if joint.is_tangent(node)]
        return replace(stage, inputs=max(0, stage.inputs - counted), outputs=sum(size for key, size in outputs.items() if key not in inputs),
                       output_gradients=sum(joint.storage_bytes(value) for value in tangents if isinstance(value, torch.Tensor)),
                       loss=joint.LossOutside.of(nodes) if self.loss_outside else joint.LossOutside())  # fmt: skip

    def reserved(self, model: joint.Joint, halves: partition.Halves) -> int | None:
        """What the allocator takes from the GPU; None where there is none, or its rules are others."""
        expandable = reserved.expandable_segments()
        return None if expandable is None or not self.on_cuda else peak.reserved_bytes(model, halves, self.workspace, expandable=expandable)

    def _cost(self, node: fx.Node) -> tuple[int, int]:
        device = self.options.device
        nanoseconds, extra = (self.measured or cost.estimate)(node) if device is None else modelled.nanoseconds(node, device)
        self.workspace[node.name] = extra
        return nanoseconds, extra

    def build(self, *, reserve_bytes: int = 0) -> joint.Joint:
        """`reserve_bytes`: what has to be free between the forward and the backward pass."""
        loss = joint.LossOutside.of(list(self.module.graph.nodes)) if self.loss_outside else joint.LossOutside()
        fused = fusion.fused(list(self.module.graph.nodes)) if self.options.compiler == "inductor" else None
        return joint.build(self.module, self.num_fwd_outputs, self._cost, name=self.title, fixed_bytes=self.options.fixed_bytes,
                           replay=self.replay, overwrite=self.options.compiler == "eager", reserve_bytes=reserve_bytes,
                           loss=loss, fused=fused)  # fmt: skip


def trace(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str, *, loss_outside: bool = True,
          stage: pipeline.Stage | None = None) -> Traced:  # fmt: skip
    """Marks in the module what may be computed again, and measures its calls. `name` is for messages. `loss_outside`: whether the
    caller makes a loss of outputs that are no scalars, and needs room for it. `stage`: of a pipeline."""
    return Traced(module, num_fwd_outputs, options, name, loss_outside=loss_outside, stage=stage)


def plan(module: fx.GraphModule, num_fwd_outputs: int, options: Options, name: str,
         around: breaks.Surroundings = breaks.Surroundings(),  # noqa: B008 - frozen
         detached: list[str] | None = None, others: Sequence[Schedule] = (),
         within: Ranges | None = None, stage: pipeline.Stage | None = None) -> tuple[Plan, partition.Halves]:  # fmt: skip
    """Plans a joint graph. `detached`: for the plan. `others`: schedules for other shapes; the cheapest that is valid for this graph
    too, and whose run is within the budget, is used, and nothing is solved. `within`: the ranges of its symbols, which have the values
    of the upper ends when this is called. `stage`: of a pipeline, whose peak counts all micro-batches in flight. InfeasibleError when
    no schedule is found within the budget, KeyboardInterrupt on Ctrl-C."""
    begin = time.perf_counter()
    options = replace(options, fixed_bytes=options.fixed_bytes + around.held_bytes)
    traced = trace(module, num_fwd_outputs, options, name, loss_outside=not around.followed, stage=stage)
    options = traced.options
    if within is not None:
        within.bind(module.graph.nodes)
    model = traced.build()
    baseline_bytes = Schedule.baseline(model.graph).simulate(model.graph).peak_bytes if stage is None else _keeping_all(model, 0, traced).peak_bytes
    size = f"{name}: {len(model.graph.ops)} operators, {baseline_bytes:,} bytes without rematerialization"
    if options.budget == budget.LEAST:
        options.say(f"{size}, budget: the least")
        smallest = _least_of_all(model, traced)
        limit = smallest.peak_bytes
        fit = _cheapest(model, limit, traced, smallest)
    else:
        present = model.input_bytes if within is None else within.present_bytes(model)
        limit = budget.in_bytes(options.budget, baseline_bytes=baseline_bytes, free_bytes=lambda: devices.free_bytes(_device(module)),
                                held_bytes=present + around.held_bytes + options.held_now_bytes)  # fmt: skip
        options.say(f"{size}, budget {limit:,}")
        known = _fit_of_others(model, limit, traced, others)
        model, fit = (model, known) if known is not None else _fit_among(model, limit, traced, around)
    total = fit.schedule.simulate(model.graph).cost
    made = Plan(
        graph=model.graph, schedule=fit.schedule, budget_bytes=limit, solved_bytes=fit.solved_bytes, peak_bytes=fit.peak_bytes,
        baseline_peak_bytes=baseline_bytes, floor_bytes=model.graph.memory_floor, saved_bytes=fit.halves.saved_bytes,
        held_bytes=around.held_bytes, cost=total, baseline_cost=model.graph.total_cost, bound=fit.claim.bound,
        gap=None if not fit.claim.bound else max(0.0, total / fit.claim.bound - 1), status=fit.claim.status,
        recomputed=fit.halves.recomputed, seconds=time.perf_counter() - begin, origin=fit.origin, detached=detached or [],
        ranges=() if within is None else within.prove(model, fit.halves, traced.workspace, limit, fit.peak_bytes),
        input_bytes=model.input_bytes, loss=model.loss, in_flight=None if stage is None else stage.flight, parts=fit.parts,
        reserved_bytes=traced.reserved(model, fit.halves) if within is None and stage is None else None,
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
    """A schedule that fits, the graphs to run and their peak; of a pipeline's stage, with all that is in flight, and its parts."""

    schedule: Schedule
    claim: plan_cache.Claim
    origin: str
    halves: partition.Halves
    peak_bytes: int
    solved_bytes: int
    parts: pipeline.Parts | None = None


def _fit_or_say(model: joint.Joint, limit: int, traced: Traced) -> _Fit:
    """A fit; or an InfeasibleError that names a budget which works when it is passed on."""
    try:
        return _fit(model, limit, traced)
    except InfeasibleError as error:
        failed = error
    traced.options.say(f"{traced.name}: nothing was found within {limit:,} bytes; looking for the least that is enough")
    smallest = _least_of_all(model, traced)
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
    if traced.stage is not None:
        return _fit_in_flight(model, limit, traced, traced.stage)
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
    real, parts = _peak(model, halves, traced, levels)
    if real <= limit and traced.options.compiler == "eager":
        beside = 0 if traced.stage is None else traced.stage.most_beside(peak.sides(model, halves, traced.workspace).crossing)
        if dropout.draw_noise(halves, limit - beside, levels):
            real, parts = _peak(model, halves, traced)
    return _Fit(schedule, claim, origin, halves, real, target, parts)


def _peak(
    model: joint.Joint, halves: partition.Halves, traced: Traced, levels: dict[fx.Node, int] | None = None
) -> tuple[int, pipeline.Parts | None]:
    """The peak of what runs, and of a pipeline's stage with all that is in flight."""
    sides = peak.sides(model, halves, traced.workspace, levels)
    if traced.stage is None:
        return max(sides.peak, (traced.reserved(model, halves) or 0) if traced.options.counts == "reserved" else 0), None
    parts = traced.stage.at_peak(sides, model.graph.fixed_bytes + model.input_bytes)
    return parts.total, parts


def _keeping_all(model: joint.Joint, limit: int, traced: Traced) -> _Fit:
    """What runs where nothing is computed again."""
    schedule, claim = Schedule.baseline(model.graph), plan_cache.Claim("optimal", float(model.graph.total_cost))
    return _run(model, (schedule, claim, "solver"), schedule.simulate(model.graph).peak_bytes, limit, traced)


def peak_of(model: joint.Joint, schedule: Schedule, traced: Traced) -> int:
    """The bytes that a schedule's run takes."""
    return _peak(model, partition.split(model, schedule), traced)[0]


def fit_in_flight(model: joint.Joint, limit: int | None, traced: Traced) -> _Fit | None:
    """The cheapest fit found for a stage of a pipeline, None where there is none; without a limit, keeping everything."""
    assert traced.stage is not None
    if limit is None:
        return _keeping_all(model, 0, traced)
    try:
        return _fit_in_flight(model, limit, traced, traced.stage)
    except InfeasibleError:
        return None


def _fit_in_flight(model: joint.Joint, limit: int, traced: Traced, stage: pipeline.Stage, *, any_fit: bool = False) -> _Fit:
    """The cheapest fit found for a stage of a pipeline, or the first one: see pipeline.py."""
    everything = _keeping_all(model, limit, traced)
    if everything.peak_bytes <= limit:
        return everything
    # A schedule that fits saves its outputs at least, so that no pass has more than this.
    most = limit - stage.least_beside(stage.outputs)
    try:
        relaxed = _solve_together(model.graph, max(1, most), traced.options)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"no schedule was found within {limit:,} bytes with {stage.flight.description}: {error}",
            proven=error.proven, budget_bytes=limit, smallest_known=None, largest_impossible=error.largest_impossible + limit - most,
        ) from None  # fmt: skip
    between = model.graph.fixed_bytes + model.input_bytes + stage.output_gradients + model.loss.kept + model.loss.more
    start, alone = [relaxed[0]], int(stage.flight) == 1

    def attempt(saved: int) -> _Fit | None:
        room = limit
        for _ in range(_LOWERED):
            target = room - stage.most_beside(saved)
            reserve = 0 if alone else target - between - saved
            if reserve < 0 or target < model.graph.memory_floor:
                return None
            reserved = traced.build(reserve_bytes=reserve)
            known = start[0] if start[0].verify(reserved.graph, target) else None
            try:
                found = _solve_together(reserved.graph, target, traced.options, known)
            except InfeasibleError:
                return None
            fit = _run(reserved, found, target, limit, traced)
            if fit.peak_bytes <= limit:
                start[0] = fit.schedule
                return fit
            room -= fit.peak_bytes - limit
        return None

    assert everything.parts is not None
    high = min(everything.parts.saved, max(stage.outputs, (limit - between) // max(1, int(stage.flight))))
    best = pipeline.cheapest(attempt, lambda fit: fit.schedule.simulate(model.graph).cost, high if alone else stage.outputs, high, first=any_fit)
    if best is None:
        raise InfeasibleError(f"no schedule was found whose run fits {limit:,} bytes with {stage.flight.description}", proven=False,
                              budget_bytes=limit, smallest_known=None, largest_impossible=model.graph.memory_floor - 1)  # fmt: skip
    cost, bound = best.schedule.simulate(model.graph).cost, relaxed[1].bound
    optimal = bound is not None and cost <= bound * (1 + traced.options.gap)
    return replace(best, claim=plan_cache.Claim("optimal" if optimal else "feasible", bound))


def _least(model: joint.Joint, traced: Traced) -> _Fit:
    """What runs in least memory, and as its claim's bound the bytes proven to be needed; from the disk, if it is there, and
    the same for all processes of a job."""
    graph, options = model.graph, traced.options
    settings, seconds = (*_settings(options), "least", *_of_stage(traced), *_of_allocator(options)), time_limit(graph, options)

    def find() -> ranks.Found:
        path = plan_cache.path_of(graph, 0, settings)
        known = plan_cache.load(path, graph, None) if options.cache else None
        if known is not None:
            return *known, "cache"
        schedule, claim = least.search(graph, options, seconds, lambda s: _peak(model, partition.split(model, s), traced)[0])
        if options.cache:
            plan_cache.store(path, schedule, claim)
        return schedule, claim, "solver"

    found = ranks.first_come(graph, None, settings, find, least.longest(seconds) + 60)
    return _run(model, found, found[0].simulate(graph).peak_bytes, 0, traced)


def _of_stage(traced: Traced) -> tuple[object, ...]:
    """What else the least peak depends on."""
    return () if traced.stage is None else (traced.stage.flight.order, repr(traced.stage))


def _least_of_all(model: joint.Joint, traced: Traced) -> _Fit:
    """As `_least`; for a stage of a pipeline the least with all that is in flight, for which less may have to be saved than the least
    peak of one micro-batch leaves room for: searched with room left free between the passes."""
    smallest = _least(model, traced)
    if traced.stage is None or int(traced.stage.flight) == 1:
        return smallest
    working = smallest.schedule.simulate(model.graph).peak_bytes - model.graph.fixed_bytes - model.input_bytes
    tried = [_least(traced.build(reserve_bytes=int(share * working)), traced) for share in _RESERVES]
    best = min([smallest, *tried], key=lambda fit: fit.peak_bytes)
    for share in _DESCENTS:
        try:
            while True:
                fit = _fit_in_flight(model, int(share * best.peak_bytes), traced, traced.stage, any_fit=True)
                traced.options.say(f"{fit.peak_bytes:,} bytes are enough")
                best = fit
        except InfeasibleError:
            pass
    return replace(best, claim=smallest.claim)


def _cheapest(model: joint.Joint, limit: int, traced: Traced, smallest: _Fit) -> _Fit:
    """The cheapest fit found from one that is known to fit."""
    if traced.stage is not None:
        known = _run(model, (smallest.schedule, plan_cache.Claim("feasible", None), smallest.origin), smallest.peak_bytes, limit, traced)
        try:
            return min(known, _fit_in_flight(model, limit, traced, traced.stage), key=lambda fit: fit.schedule.simulate(model.graph).cost)
        except InfeasibleError:
            return known
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


def _of_allocator(options: Options) -> tuple[object, ...]:
    """What the least depends on beside the graph where the allocator's gaps count."""
    return () if options.counts == "allocated" else (options.counts, reserved.expandable_segments())


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


__all__ = ["InfeasibleError", "Options", "Plan", "Traced", "fit_in_flight", "from_progress", "peak_of", "plan", "time_limit", "trace"]
