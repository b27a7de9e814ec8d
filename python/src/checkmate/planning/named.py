# SPDX-License-Identifier: Apache-2.0
"""Schedules behind the budgets that errors have named, so that these work when they are passed on.

A search stops by the clock and goes by measured costs, so a second one may miss what the first one found. What was found is kept
in this process, and on disk where plans are, for every graph of the same operators and sizes, whatever its costs.
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

#: By front door and structure.
_SCHEDULES: OrderedDict[tuple[str, str], Schedule] = OrderedDict()


def remember(graph: Graph, schedule: Schedule, front: str, *, on_disk: bool) -> None:
    """In place of what is known of the same structure."""
    key = front, structure.digest(graph)
    _SCHEDULES.pop(key, None)
    _SCHEDULES[key] = schedule
    if len(_SCHEDULES) > _MOST:
        _SCHEDULES.popitem(last=False)
    if on_disk:
        plan_cache.store(_path(*key), schedule, NOTHING)


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
