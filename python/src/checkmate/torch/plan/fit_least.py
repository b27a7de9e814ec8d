# SPDX-License-Identifier: Apache-2.0
"""The fit with the least peak that is found, from which the cheapest within a limit is looked for."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InfeasibleError
from ...planning import least, plan_cache
from ...planning.claim import NOTHING
from ..distributed import ranks
from ..fx import dataflow, partition
from ..trace import phases
from . import gather_limit
from .fit import Fit, peak_with, run
from .fit_stage import fit_stage
from .prepare import Traced
from .solving import of_allocator, settings_of, time_limit

#: For a stage of a pipeline: the shares of what one micro-batch takes that are left free between the passes to find the least of all
#: that is in flight, and the budgets that are tried then, as shares of the least found, each as long as something fits.
_RESERVES, _DESCENTS = (1.0,), (0.8, 0.95)


def _least(model: dataflow.Joint, traced: Traced, solves: int | None = None) -> Fit:
    """What runs in least memory, and the bytes proven to be needed; from the disk, if it is there, and
    the same for all processes of a job. `solves`: fewer than the search for it takes where somebody asks for the least."""
    graph, options = model.graph, traced.options
    calls = gather_limit.limit_of(model, options)
    settings = (*settings_of(options), "least", *_of_stage(traced), *of_allocator(options), *([] if calls is None else [calls.most]))
    seconds = time_limit(graph, options)
    efforts: list[tuple[object, ...]] = [()] if solves is None else [(), ("solves", solves)]
    limited: tuple[int, ...] = () if solves is None else (solves,)

    def find() -> ranks.Found:
        paths = [plan_cache.path_of(graph, 0, settings + effort) for effort in efforts]
        for path in paths if options.cache else ():
            if (known := plan_cache.load(path, graph, None)) is not None:
                return *known, "cache"
        options.say(f"looking for the least that is enough, for {least.longest(seconds, *limited):.0f} s at most")
        with phases.part(phases.SOLVING):
            schedule, claim = least.search(graph, options, seconds, lambda s: peak_with(model, partition.split(model, s), traced)[0], *limited)
        if calls is not None and not calls.allow(schedule):
            schedule = gather_limit.least(calls, model, schedule, options)
        if options.cache:
            plan_cache.store(paths[-1], schedule, claim)
        return schedule, claim, "solver"

    found = ranks.first_come(graph, None, settings + efforts[-1], find, least.longest(seconds) + 60)
    return run(model, found, found[0].simulate(graph).peak_bytes, 0, traced)


def _of_stage(traced: Traced) -> tuple[object, ...]:
    """What else the least peak depends on."""
    return () if traced.stage is None else (traced.stage.flight.order, repr(traced.stage))


def least_of_all(model: dataflow.Joint, traced: Traced, solves: int | None = None) -> Fit:
    """As `_least`; for a stage of a pipeline the least with all that is in flight, for which less may have to be saved than the least
    peak of one micro-batch leaves room for: searched with room left free between the passes."""
    smallest = _least(model, traced, solves)
    if traced.stage is None or int(traced.stage.flight) == 1:
        return smallest
    working = smallest.schedule.simulate(model.graph).peak_bytes - model.graph.fixed_bytes - model.input_bytes
    tried = [_least(traced.build(reserve_bytes=int(share * working)), traced, solves) for share in _RESERVES]
    best = min([smallest, *tried], key=lambda fit: fit.peak_bytes)
    for share in _DESCENTS:
        try:
            while True:
                fit = fit_stage(model, int(share * best.peak_bytes), traced, traced.stage, any_fit=True)
                traced.options.say(f"{fit.peak_bytes:,} bytes are enough")
                best = fit
        except InfeasibleError:
            pass
    return replace(best, claim=smallest.claim)


def cheapest(model: dataflow.Joint, limit: int, traced: Traced, smallest: Fit) -> Fit:
    """The cheapest fit found from one that is known to fit, and what is proven for the limit."""
    if traced.stage is not None:
        known = run(model, (smallest.schedule, NOTHING, smallest.origin), smallest.peak_bytes, limit, traced)
        try:
            found = fit_stage(model, limit, traced, traced.stage)
        except InfeasibleError:
            return known
        return replace(min(known, found, key=lambda fit: fit.schedule.simulate(model.graph).cost), claim=found.claim)
    target, last, proven = limit, smallest.solved_bytes, NOTHING
    while True:
        fit = run(model, gather_limit.solve(model, target, traced.options, smallest.schedule), target, limit, traced)
        proven = fit.claim if target == limit else proven  # what is proven for a lower target is not proven for the limit
        if fit.peak_bytes <= limit:
            return replace(fit, claim=proven)
        if target <= last:
            return run(model, (smallest.schedule, proven, smallest.origin), last, limit, traced)
        target = max(last, target - (fit.peak_bytes - limit)) if target == limit else last
