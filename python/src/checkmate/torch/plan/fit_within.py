# SPDX-License-Identifier: Apache-2.0
"""A fit within a limit; or an error that names a limit which works."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InfeasibleError
from ...planning import budget, least, named
from ...planning.claim import NOTHING
from ...schedule import COVERED, Schedule, proven_too_small
from ..fx import dataflow, effects, random_state
from . import gather_limit
from .fit import Fit, as_given, run
from .fit_least import cheapest, least_of_all
from .fit_stage import fit_stage
from .prepare import Traced


def fit_or_say(model: dataflow.Joint, limit: int, traced: Traced, *, followed: bool = False) -> Fit:
    """A fit; or an InfeasibleError that names a budget which works when it is passed on, if not `followed` by parts of unknown needs."""
    graph, on_disk = model.graph, traced.options.cache
    try:
        fit = fit_within(model, limit, traced)
    except InfeasibleError as error:
        failed = error
    else:
        named.found(graph, fit.schedule, "torch")
        return fit
    calls = gather_limit.limit_of(model, traced.options)
    allowed = [schedule for schedule in named.known(graph, "torch", on_disk=on_disk) if calls is None or calls.allow(schedule)]
    known = [as_given(model, schedule, traced, limit) for schedule in allowed]
    for fit in known:
        if fit.peak_bytes <= limit:
            return cheapest(model, limit, traced, fit)
    proven = limit <= failed.largest_impossible
    traced.options.say(f"{traced.name}: {f'no {COVERED[failed.covers]} fits' if proven else 'nothing was found within'} {limit:,} bytes; "
                       + proven_too_small(failed.largest_impossible, failed.covers, failed.impossible_for_all))  # fmt: skip
    smallest = least_of_all(model, traced, least.AFTER_PROOF if proven else least.AFTER_SEARCH)
    if smallest.peak_bytes <= limit:
        return cheapest(model, limit, traced, smallest)
    least_known = min([smallest, *known], key=lambda fit: fit.peak_bytes)
    smallest = replace(least_known, claim=smallest.claim)
    # What is kept on disk works in other processes too. Else another search has to find it.
    enough, fit = (smallest.peak_bytes, cheapest(model, smallest.peak_bytes, traced, smallest)) if on_disk else _found_again(model, smallest, traced)
    named.remember(graph, fit.schedule, "torch", on_disk=on_disk)
    named.found(graph, smallest.schedule, "torch")
    overhead = fit.schedule.simulate(graph).cost / max(1, graph.total_cost) - 1
    impossible, covers, for_all = smallest.claim.impossible(graph, failed)
    most = smallest.peak_bytes - 1  # where the graph counts more than what runs
    impossible, for_all = min(impossible, most), min(for_all, most)
    covers = covers if impossible > for_all else "any"
    proven = limit <= impossible
    kept = Schedule.baseline(graph).simulate(graph).peak_bytes
    works = "is enough for this part, while later ones may need more" if followed else "works"
    here = "" if smallest.peak_bytes == enough else f" ({smallest.peak_bytes:,} in this process, which keeps a plan that another search may miss)"
    basis = "measured" if traced.options.costs == "measure" else "estimated"
    raise InfeasibleError(
        f"{f'no {COVERED[covers]} fits' if proven else 'no schedule was found within'} {limit:,} bytes; budget={enough:,} {works}, with "
        f"{100 * overhead:.1f} % more computation at most{here}; "
        f"{proven_too_small(impossible, covers, for_all)}, with kernels' workspaces as they were "
        + basis
        + ("" if traced.stage is not None else budget.in_shares(traced.options.budget, kept, graph.standing_bytes, enough)),
        proven=proven, budget_bytes=limit, smallest_known=enough, largest_impossible=impossible, covers=covers,
        impossible_for_all=for_all,
    ) from None  # fmt: skip


def fit_within(model: dataflow.Joint, limit: int, traced: Traced) -> Fit:
    """The cheapest fit found, and what is proven for the limit, or for as much less as was left for states of generators."""
    if traced.stage is not None:
        return fit_stage(model, limit, traced, traced.stage)
    room = _room_for_states(model, limit)
    target, lowered, proven = limit - room, False, NOTHING
    while True:
        try:
            fit = run(model, gather_limit.solve(model, target, traced.options), target, limit, traced)
        except InfeasibleError as error:
            if room:
                target, room = limit, 0
                continue
            if not lowered:
                raise
            changed = {"proven": limit <= error.largest_impossible, "budget_bytes": limit, "smallest_known": None}
            raise InfeasibleError(f"no schedule was found whose run fits {limit} bytes: {error}", **(error.facts() | changed)) from None
        proven = proven if lowered else fit.claim  # what is proven for a lower target is not proven for the limit
        if fit.peak_bytes <= limit:
            return replace(fit, claim=proven)
        # The solver counts bytes that PyTorch frees later, or not at all: leave that much room and solve again.
        target, room, lowered = max(0, target - (fit.peak_bytes - limit)), 0, True


def _found_again(model: dataflow.Joint, smallest: Fit, traced: Traced) -> tuple[int, Fit]:
    """The least budget, or a little more, for which another search that knows nothing of this one finds a fit."""
    for percent in least.MARGINS:
        limit = smallest.peak_bytes + smallest.peak_bytes * percent // 100
        try:
            return limit, fit_within(model, limit, traced)
        except InfeasibleError:
            traced.options.say(f"{traced.name}: {limit:,} bytes are enough, but were not found to be so again")
    baseline = Schedule.baseline(model.graph)
    fit = run(model, (baseline, NOTHING, "solver"), 0, 0, traced)
    return fit.peak_bytes, fit


def _room_for_states(model: dataflow.Joint, limit: int) -> int:
    """Bytes of the generator states that replays may need, which the dataflow graph does not count; none where nothing
    needs to be computed again, or where that is more than a hundredth of the budget, since few are needed as a rule."""
    if Schedule.baseline(model.graph).simulate(model.graph).peak_bytes <= limit:
        return 0
    room = sum(random_state.state_bytes(op.node) for op in model.ops if op.node is not None and effects.is_random(op.node))
    return room if room <= limit // 100 else 0
