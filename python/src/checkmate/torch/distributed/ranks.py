# SPDX-License-Identifier: Apache-2.0
"""Several processes that train one model: the plan of whichever gets there first is everybody's.

Costs are measured, and solvers stop by the clock, so processes that plan by themselves find different schedules. They
agree through the key-value store behind torch.distributed, not by a collective call: a process that compiles a graph
which the others never see, such as one for a shorter last batch, waits for no other process.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.distributed as dist

from ...errors import CheckmateError
from ...graph import Graph
from ...planning import structure
from ...planning.claim import Claim
from ...schedule import Schedule

#: A schedule, what was proven of it, and where it is from: see `planned.Plan.origin`.
Found = tuple[Schedule, Claim, str]


def size() -> int:
    """How many processes there are; one where the others are only made believe."""
    there = dist.is_available() and dist.is_initialized() and dist.get_backend() != "fake"
    return dist.get_world_size() if there else 1


def first_come(graph: Graph, budget: int | None, settings: tuple[object, ...], find: Callable[[], Found], patience: float) -> Found:
    """What `find` gives; or what it gave the first process to ask for a graph that differs in costs at most, where the
    verifier accepts that here. Processes plan by themselves when that one failed or took longer than `patience` seconds.
    What another process proved names its graph, costs included: under other costs there is no bound."""
    if size() == 1:
        return find()
    key = "checkmate/" + structure.digest(graph, graph.fixed_bytes, budget, settings)
    store = dist.distributed_c10d._get_default_store()
    if store.add(f"{key}/asked", 1) == 1:
        answer = ""
        try:
            schedule, claim, origin = find()
            answer = json.dumps({"schedule": schedule.to_json(), "claim": asdict(claim), "rank": dist.get_rank()})
        finally:
            store.set(f"{key}/answer", answer)
        return schedule, claim, origin
    try:
        store.wait([f"{key}/answer"], datetime.timedelta(seconds=patience))
        given = json.loads(store.get(f"{key}/answer").decode() or "null")
    except (RuntimeError, dist.DistError):
        given = None
    if given is not None:
        try:
            schedule = Schedule.parse(given["schedule"])
            if schedule.verify(graph, budget):
                return schedule, Claim(**given["claim"]), f"rank {given['rank']}"
        except CheckmateError:
            pass  # not a schedule of this graph
    return find()


def bucket_bytes(model: torch.nn.Module) -> int:
    """What DistributedDataParallel holds in addition to the model: a copy of every gradient."""
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
