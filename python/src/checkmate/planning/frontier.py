# SPDX-License-Identifier: Apache-2.0
"""What a memory budget would cost a model: overhead against budget, printed, drawn and as a page."""

from __future__ import annotations

import numbers
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import replace_file
from ..graph import Graph
from ..schedule import BOUND_CLASSES, COVERED, Recipe, Way
from ..solver import NEAR_MIN, Solution
from . import budget as sizes
from .device import Device
from .figure import frontier_svg


@dataclass(frozen=True)
class Frontier:
    """Memory against overhead: the least overhead found at each budget, the largest budget first.

    `graph`: the model's training step, which `graph.write` saves for the `checkmate` program. `chosen`: the schedule that
    the page shows. `ways`: keeping everything, checkpoints around every block, and what the chosen one is called. `recipes`:
    what to do in Python with a schedule for a budget in bytes, for the page. `device`: the one that costs were modelled for, None
    where the step is to run here; `notes`: what fits on it, what is modelled and what is not known.
    """

    graph: Graph
    baseline_peak_bytes: int
    floor_bytes: int
    solutions: list[Solution]
    chosen: Solution | None = None
    ways: list[Way] = field(default_factory=list)
    recipes: Callable[[int], list[Recipe]] = field(default=lambda _budget: [], repr=False)
    device: Device | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        top, timed = self.baseline_peak_bytes, self.device is not None
        ways = ["", *table(self.graph, self.ways, timed=timed)] if self.ways else []
        return "\n".join([*head(self.graph, top, timed=timed), *(line(s, top, timed=timed) for s in self.solutions), *ways, *self.notes])

    def __repr__(self) -> str:
        return f"<Frontier: {len(self.graph.ops)} operators, {len(self.solutions)} budgets>"

    @property
    def step_seconds(self) -> float | None:
        """What a forward and a backward pass of the chosen schedule take on `device`, by its model; of keeping everything where nothing
        was found. None without a device."""
        cost = self.chosen.cost if self.chosen is not None and self.chosen.cost is not None else self.graph.total_cost
        return None if self.device is None else cost / 1e9

    @property
    def _modelled(self) -> str:
        """For what is drawn: that its costs were not measured."""
        return "" if self.device is None else f", modelled for {self.device.name}"

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws it as SVG."""
        require_svg(path)
        found = [(s.budget_bytes / 1e6, 100 * (s.overhead or 0.0)) for s in self.solutions if s.cost is not None]
        proven = [(s.budget_bytes / 1e6, 100 * least) for s in self.solutions if (least := least_overhead(s)) is not None]
        if not found:
            raise ValueError("no schedule was found at any budget: nothing to draw")
        title = f"Overhead against memory budget, {len(self.graph.ops)} operators{self._modelled}"
        # A bound holds for every narrower class too: all of them together for the narrowest.
        classes = [s.bound_covers for s in self.solutions if least_overhead(s) is not None]
        covered = COVERED[max(classes, key=BOUND_CLASSES.index, default="any")]
        _write(path, frontier_svg(title, found, proven, self.floor_bytes / 1e6, covered))

    def report(self, path: str | os.PathLike[str], budget: int | float | str | None = None) -> None:
        """Writes the HTML page of one schedule: memory over the step, what is live when, what is computed again and why, the
        graph. It is the chosen one; with a `budget`, bytes or such as "4GiB" or "60%", the cheapest one whose peak is at most
        that."""
        limit = None if budget is None else sizes.in_bytes(budget, baseline_bytes=self.baseline_peak_bytes, standing_bytes=self.graph.standing_bytes)
        known = [*self.solutions, *([self.chosen] if self.chosen is not None else [])]
        fits = [s for s in known if s.schedule is not None and (limit is None or (s.peak_bytes or 0) <= limit)]
        if not fits:
            raise ValueError("no schedule of this frontier fits" + ("" if limit is None else f" {limit:,} bytes"))
        best = min(fits, key=lambda s: (s.peak_bytes or 0) if budget is None else (s.cost or 0))
        if budget is None and self.chosen is not None and self.chosen.schedule is not None:
            best = self.chosen
        assert best.schedule is not None
        name = (self.ways[-1].name if self.ways and best is self.chosen else "this schedule") + self._modelled
        others = self.ways[:-1] if best is self.chosen else self.ways
        best.schedule.report(self.graph, path, name=name, ways=others, recipes=self.recipes(best.budget_bytes))


def require_points(budgets: int | str) -> None:
    """That budgets are a number of them, or those near the least."""
    if budgets != NEAR_MIN and (not isinstance(budgets, numbers.Integral) or budgets < 1):
        raise ValueError(f"budgets must be an integer, at least 1, or {NEAR_MIN!r}, not {budgets!r}")


def require_svg(path: str | os.PathLike[str]) -> None:
    if pathlib.Path(path).suffix.lower() != ".svg":
        raise ValueError(f"{os.fspath(path)}: the drawing is SVG, so its name must end in .svg")


def require_folder(path: str | os.PathLike[str]) -> None:
    if not pathlib.Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)} cannot be written: there is no such folder")


def _write(path: str | os.PathLike[str], text: str) -> None:
    """The file is replaced as a whole or left alone."""
    require_folder(path)
    replace_file(path, text)


def head(graph: Graph, top: int, *, timed: bool = False) -> list[str]:
    """`timed`: with a column of the step's time."""
    return [
        f"{len(graph.ops)} operators; without rematerialization {top:,} bytes; at least {graph.memory_floor:,} bytes are needed",
        f"{'budget':>8}  {'peak bytes':>16}  {'overhead':>9}  {'proven least of':>17}{'  predicted' if timed else ''}",
    ]


#: What a bound covers, in a word: every schedule, those in the graph's order, those of them that advance by stages.
_CLASSES = {"none": "?", "any": "all", "order": "in order", "frontier": "by stages"}


def least_overhead(s: Solution) -> float | None:
    """The overhead that schedules within the budget are proven to have at least."""
    return None if s.bound is None or s.status == "infeasible" else s.bound / s.baseline_cost - 1 if s.baseline_cost else 0.0


def line(s: Solution, top: int, *, timed: bool = False) -> str:
    share = f"{100 * s.budget_bytes / top:7.1f}%"
    if s.cost is None:
        return f"{share:>8}  {'none fits' if s.status == 'infeasible' else 'none found':>16}"
    least = least_overhead(s)
    proven = "" if least is None else f"{100 * least:.2f}% {_CLASSES[s.bound_covers]}"
    overhead = 100 * (s.overhead or 0.0)
    bar = round(overhead / 2.5)
    time = f"  {seconds(s.cost):>9}" if timed else ""
    return f"{share:>8}  {s.peak_bytes:>16,}  {overhead:8.2f}%  {proven:>17}{time}  {'#' * min(40, bar)}{'+' if bar > 40 else ''}".rstrip()


def size(count: int) -> str:
    """Bytes for people: "725 MB"."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.{0 if unit == 'B' or value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"


def seconds(nanoseconds: int) -> str:
    """A time for people: "1.28 s"."""
    value, unit = float(nanoseconds), "ns"
    for larger in ("us", "ms", "s"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"


def table(graph: Graph, ways: Sequence[Way], *, timed: bool = False) -> list[str]:
    """Lines of text: what each way takes, in all and compared with the first, which keeps everything."""
    top, least = ways[0].peak_bytes, graph.total_cost
    wide = max(24, *(len(way.name) for way in ways))
    lines = [f"{'one training step':<{wide}}  {'memory':>9}  {'of all':>7}  {'more computation':>16}{'  predicted' if timed else ''}"]
    for way in ways:
        extra = way.cost / least - 1 if least else 0.0
        time = f"  {seconds(way.cost):>9}" if timed else ""
        lines.append(
            f"{way.name:<{wide}}  {size(way.peak_bytes):>9}  {100 * way.peak_bytes / top:6.1f}%  {100 * extra:15.1f}%{time}  {way.note}".rstrip()
        )
    return lines
