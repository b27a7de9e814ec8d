# SPDX-License-Identifier: Apache-2.0
"""Schedules on disk, one file a graph, budget and set of solver options.

A file replaces another as a whole, so that processes may share the folder. It is used only if its digest is right and the
verifier accepts its schedule for this graph and budget; else the problem is solved anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pathlib
from dataclasses import asdict

from ..errors import CheckmateError, replace_file
from ..graph import Graph
from ..schedule import Schedule
from .claim import Claim

log = logging.getLogger("checkmate")

_VERSION = 2


def directory(front: str = "torch") -> pathlib.Path:
    """Of a front door."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "checkmate" / front


def path_of(graph: Graph, budget: int, settings: tuple[object, ...], front: str = "torch") -> pathlib.Path:
    from .. import __version__

    key = repr((_VERSION, __version__, graph.to_json(places=False), budget, settings))
    return directory(front) / "plans" / (hashlib.sha256(key.encode()).hexdigest()[:40] + ".json")


def _digest(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load(path: pathlib.Path, graph: Graph, budget: int | None) -> tuple[Schedule, Claim] | None:
    try:
        file = json.loads(path.read_text())
        content = file["content"]
        if file["digest"] != _digest(content):
            return None
        schedule, claim = Schedule.parse(content["schedule"]), Claim(**content["claim"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, CheckmateError):
        return None
    return (schedule, claim) if schedule.verify(graph, budget) else None


def store(path: pathlib.Path, schedule: Schedule, claim: Claim) -> None:
    content: dict[str, object] = {"name": path.stem, "schedule": schedule.to_json(), "claim": asdict(claim)}
    keep(path, json.dumps({"digest": _digest(content), "content": content}))


def keep(path: pathlib.Path, text: str) -> None:
    """Replaces a file atomically. If the folder cannot be written to, the next process solves again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except (OSError, CheckmateError) as error:
        log.warning("%s cannot be kept: %s", path.name, error)
