# SPDX-License-Identifier: Apache-2.0
"""Schedules behind the budgets that errors have named, so that these work when they are passed on.

A search stops by the clock and uses measured costs, so a second one may miss what the first one found. Its schedule is kept
in this process, and on disk with the plans, for every graph of the same operators and sizes, with any costs.
"""

from __future__ import annotations

import pathlib
from collections import OrderedDict

from ..graph import Graph
from ..schedule import Schedule
from . import plan_cache, structure
from .claim import NOTHING

#: Graphs of which this process keeps a schedule; the one that was named first goes first.
_MOST = 64

#: By front door and structure; and of the plans that were found, for the same, that of the lowest peak.
_SCHEDULES: OrderedDict[tuple[str, str], Schedule] = OrderedDict()
_FOUND: OrderedDict[tuple[str, str], Schedule] = OrderedDict()


def remember(graph: Graph, schedule: Schedule, front: str, *, on_disk: bool) -> None:
    """Replaces what is known of the same structure."""
    key = front, structure.digest(graph)
    _keep(_SCHEDULES, key, schedule)
    if on_disk:
        plan_cache.store(_path(*key), schedule, NOTHING)


def found(graph: Graph, schedule: Schedule, front: str) -> None:
    """Records a plan in this process, so that no error names a larger budget than the plan needs."""
    key = front, structure.digest(graph)
    before = _FOUND.get(key)
    if before is None or not before.verify(graph) or schedule.simulate(graph).peak_bytes < before.simulate(graph).peak_bytes:
        _keep(_FOUND, key, schedule)


def known(graph: Graph, front: str, *, on_disk: bool) -> list[Schedule]:
    """What `recall` gives and what was `found`, if the verifier accepts it."""
    noted = _FOUND.get((front, structure.digest(graph)))
    both = [recall(graph, front, on_disk=on_disk), noted if noted is not None and noted.verify(graph) else None]
    return [schedule for schedule in both if schedule is not None]


def _keep(schedules: OrderedDict[tuple[str, str], Schedule], key: tuple[str, str], schedule: Schedule) -> None:
    schedules.pop(key, None)
    schedules[key] = schedule
    if len(schedules) > _MOST:
        schedules.popitem(last=False)


def recall(graph: Graph, front: str, *, on_disk: bool) -> Schedule | None:
    """What is known of the same structure, if the verifier accepts it for this graph under some budget."""
    key = front, structure.digest(graph)
    schedule = _SCHEDULES.get(key)
    if schedule is not None:
        return schedule if schedule.verify(graph) else None
    found = plan_cache.load(_path(*key), graph, None) if on_disk else None
    return None if found is None else found[0]


def _path(front: str, digest: str) -> pathlib.Path:
    return plan_cache.directory(front) / "named" / f"{digest[:40]}.json"
