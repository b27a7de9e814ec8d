# SPDX-License-Identifier: Apache-2.0
"""Schedules: lists of steps that run an operator or free a tensor. They can be simulated and verified."""

from __future__ import annotations

import ctypes as c
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ._library import CRecipe, CScheduleInfo, CSimulation, CStep, CVerdict, CWay, CWords, int32, int64, lib
from .errors import call
from .graph import Graph

BoundClass = Literal["none", "any", "order", "frontier"]
BOUND_CLASSES: list[BoundClass] = ["none", "any", "order", "frontier"]
#: The schedules of each class, after "no": what a bound speaks of.
COVERED: dict[str, str] = {
    "none": "schedule of the class that the bound covers",
    "any": "schedule",
    "order": "schedule in this order",
    "frontier": "schedule that advances by stages",
}


def proven_too_small(bytes_: int, covers: str, for_all: int) -> str:
    """ "5 bytes are proven too small": for the schedules that `covers` names, and for all of them where that is less."""
    if covers == "any":
        return f"{bytes_:,} bytes are proven too small"
    return f"{bytes_:,} bytes are proven too small for any {COVERED[covers]}, {for_all:,} for any schedule"


def proven_needed(bytes_: int, covers: str, for_all: int) -> str:
    """ "5 are needed": bytes, by the schedules that `covers` names, and by all of them where that is less."""
    if covers == "any":
        return f"{bytes_:,} are needed"
    return f"{bytes_:,} are needed by any {COVERED[covers]}, {for_all:,} by any schedule"


StepKind = Literal["compute", "free", "out", "in", "wait_out", "wait_in"]

_KINDS: list[StepKind] = ["compute", "free", "out", "in", "wait_out", "wait_in"]


@dataclass(frozen=True)
class Step:
    """`compute` for an operator, with the in-place pairs that it uses; `free` for a tensor; and where the graph has a second memory,
    `out` and `in`, which begin a copy of a tensor's storage there and back, and `wait_out` and `wait_in`, which wait for it."""

    kind: StepKind
    index: int
    inplace: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Simulation:
    """`timeline[i]`: bytes in use while step i runs (for a free, after it)."""

    cost: int
    peak_bytes: int
    peak_step: int
    end_bytes: int
    timeline: list[int]
    second_peak_bytes: int = 0


@dataclass(frozen=True)
class Verdict:
    """True when the schedule is legal (and fits the budget, if one was given); `why` says what is wrong."""

    ok: bool
    cost: int | None
    peak_bytes: int | None
    why: str
    second_peak_bytes: int | None = None

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Way:
    """Another way to run the same step, to compare a schedule with. `cost` is in the graph's unit."""

    name: str
    peak_bytes: int
    cost: int
    note: str = ""


@dataclass(frozen=True)
class Recipe:
    """A few lines of Python that do something with a schedule."""

    title: str
    code: str
    note: str = ""


_RECIPES = (
    Recipe("Keep it", 'graph.write("graph.json")\nschedule.write("schedule.json")', "The checkmate program reads these files too."),
    Recipe(
        "Follow it",
        'for step in schedule.steps:\n    if step.kind == "compute":\n        run(graph.ops[step.index])\n    else:\n        free(step.index)',
        "Operators and tensors are numbered in the order in which they were added.",
    ),
    Recipe("Check it", "assert schedule.verify(graph, budget)", "Replays every step with code that shares nothing with the solvers."),
    Recipe("Draw it", 'schedule.figure(graph, "memory", "memory.svg")', "Also arena, matrices, graph; as .svg, .pdf or .png."),
)


class Schedule:
    """Computations and frees in the order in which they happen. It comes from `solve` or from your own steps."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._handle = c.c_void_p()
        call("ckm_schedule_create", c.byref(self._handle))
        for step in steps:
            pairs = ((int32 * 2) * len(step.inplace))(*[(int32 * 2)(*pair) for pair in step.inplace])
            record = CStep(_KINDS.index(step.kind), step.index, len(pairs), c.cast(pairs, c.POINTER(int32 * 2)))
            call("ckm_schedule_append", self._handle, c.byref(record))

    @classmethod
    def _adopt(cls, handle: c.c_void_p) -> Schedule:
        schedule = cls.__new__(cls)
        schedule._handle = handle
        return schedule

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.ckm_schedule_free(self._handle)

    def __reduce__(self) -> tuple[object, ...]:
        return Schedule.parse, (self.to_json(),)  # pickled and copied as text

    def __repr__(self) -> str:
        return f"<Schedule: {len(self)} steps>"

    def __len__(self) -> int:
        return lib.ckm_schedule_step_count(self._handle)

    @property
    def steps(self) -> list[Step]:
        result = []
        for i in range(len(self)):
            r = lib.ckm_schedule_get_step(self._handle, i)
            pairs = tuple((r.inplace[k][0], r.inplace[k][1]) for k in range(r.n_inplace))
            result.append(Step(_KINDS[r.kind], r.index, pairs))
        return result

    def with_steps(self, steps: Iterable[Step]) -> Schedule:
        """A schedule of other steps for the same graph and budget. It takes over what is known about this one, such as the
        bound, but not the cost, the peak, or that it is optimal."""
        made, info = Schedule(steps), CScheduleInfo.from_buffer_copy(self._info)
        info.cost, info.peak_bytes, info.optimal = -1, -1, False
        lib.ckm_schedule_set_info(made._handle, c.byref(info))
        return made

    @property
    def _info(self) -> CScheduleInfo:
        return lib.ckm_schedule_get_info(self._handle).contents

    @property
    def strategy(self) -> str:
        return self._info.strategy.decode()

    @classmethod
    def baseline(cls, graph: Graph) -> Schedule:
        """Runs every operator once and frees each tensor after its last use."""
        handle = c.c_void_p()
        call("ckm_schedule_baseline", graph.handle, c.byref(handle))
        return cls._adopt(handle)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schedule:
        """Reads checkmate-schedule JSON."""
        handle = c.c_void_p()
        call("ckm_schedule_read", os.fsencode(path), c.byref(handle))
        return cls._adopt(handle)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parses checkmate-schedule JSON text."""
        handle, data = c.c_void_p(), text.encode()
        call("ckm_schedule_parse", data, len(data), b"<text>", c.byref(handle))
        return cls._adopt(handle)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes checkmate-schedule JSON, first to a temporary file."""
        call("ckm_schedule_write", self._handle, os.fsencode(path))

    def to_json(self) -> str:
        """The schedule as checkmate-schedule JSON text."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "schedule.json"
            self.write(path)
            return path.read_text()

    def report(
        self, graph: Graph, path: str | os.PathLike[str], *, name: str = "", ways: Iterable[Way] = (), recipes: Iterable[Recipe] = _RECIPES
    ) -> None:
        """Writes one self-contained HTML page: memory over time, what is live when, what is computed again and why, and the
        graph. `ways`: other ways to run the same step, for a table in which this schedule is called `name`. `recipes`: what
        the page says about using the schedule. Raises CheckmateError when the schedule is not legal."""
        rows = [CWay(way.name.encode(), way.note.encode(), way.peak_bytes, way.cost) for way in ways]
        texts = [CRecipe(recipe.title.encode(), recipe.code.encode(), recipe.note.encode()) for recipe in recipes]
        words = CWords(None, None, name.encode(), len(rows), len(texts), (CWay * len(rows))(*rows), (CRecipe * len(texts))(*texts))
        self._emit(graph, lambda facts: call("ckm_emit_page_with", facts, c.byref(words), os.fsencode(path)))

    def figure(self, graph: Graph, name: str, path: str | os.PathLike[str]) -> None:
        """Draws the figure "memory", "arena", "matrices", "transfers" or "graph" to an .svg, .pdf or .png file. Needs gnuplot and graphviz."""
        self._emit(graph, lambda facts: call("ckm_emit_figure", facts, name.encode(), os.fsencode(path)))

    def _emit(self, graph: Graph, draw: Callable[[c.c_void_p], None]) -> None:
        facts = c.c_void_p()
        call("ckm_emit_facts_create", graph.handle, self._handle, c.byref(facts))
        try:
            draw(facts)
        finally:
            lib.ckm_emit_facts_free(facts)

    def simulate(self, graph: Graph) -> Simulation:
        """Computes cost, peak and memory over time. Raises CheckmateError when a step is illegal."""
        result, timeline = CSimulation(), (int64 * max(1, len(self)))()
        call("ckm_schedule_simulate", graph.handle, self._handle, timeline, c.byref(result))
        return Simulation(result.cost, result.peak_bytes, result.peak_step, result.end_bytes, list(timeline[: len(self)]), result.second_peak_bytes)

    def verify(self, graph: Graph, budget_bytes: int | None = None) -> Verdict:
        """Checks the schedule independently: the verifier shares no code with solvers or the simulator."""
        result = CVerdict()
        budget = -1 if budget_bytes is None else budget_bytes
        call("ckm_schedule_verify", graph.handle, self._handle, budget, c.byref(result))
        legal = result.cost >= 0
        cost, peak, second = (result.cost, result.peak_bytes, result.second_peak_bytes) if legal else (None, None, None)
        return Verdict(result.ok, cost, peak, result.why.decode("utf-8", "replace"), second)
