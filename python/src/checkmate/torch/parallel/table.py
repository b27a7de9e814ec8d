# SPDX-License-Identifier: Apache-2.0
"""Layouts side by side: memory, recomputation and the time of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...planning.frontier import seconds as time_of
from ...planning.frontier import size
from .layouts import Layout


@dataclass(frozen=True)
class Row:
    """A layout within the memory of a device. `peak_bytes`: of the device that needs most, None where the layout does not fit or nothing
    was found, for the reason in `why`. `overhead`: computation more than without rematerialization, of the stage with most; `least_overhead`:
    what any schedule of that stage is proven to need. `idle`: share of the step in which the slowest stage waits. `exchange_seconds`: of
    gradients between copies, beyond what the last backward pass hides. `ends`: of stages, by part."""

    layout: Layout
    peak_bytes: int | None = None
    overhead: float = 0.0
    least_overhead: float = 0.0
    step_seconds: float | None = None
    idle: float = 0.0
    exchange_seconds: float = 0.0
    ends: tuple[int, ...] = ()
    why: str = ""

    @property
    def samples_per_second(self) -> float | None:
        return None if self.step_seconds is None else self.layout.batch / self.step_seconds


@dataclass(frozen=True)
class ParallelPlans:
    """All layouts, the fastest first, those that do not fit last. `notes`: what they assume."""

    rows: list[Row]
    memory_bytes: int
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Row | None:
        return self.rows[0] if self.rows and self.rows[0].step_seconds is not None else None

    def __str__(self) -> str:
        return "\n".join([*table(self.rows, self.memory_bytes), "", *self.notes])

    def __repr__(self) -> str:
        return f"<ParallelPlans: {len(self.rows)} layouts, best {self.best.layout if self.best else 'none'}>"


#: Rows that do not fit are listed up to so many.
_MISSING = 12


def table(rows: list[Row], memory_bytes: int) -> list[str]:
    """Lines a person reads."""
    fits = [row for row in rows if row.step_seconds is not None]
    others = [row for row in rows if row.step_seconds is None]
    width = max([len(str(row.layout)) for row in rows] + [len("layout, micro-batches x samples")])
    lines = [f"{'layout, micro-batches x samples':{width}}  {'peak':>9} {'recompute':>9} {'at least':>8} {'idle':>5} {'exchange':>9} {'step':>9} "
             f"{'samples/s':>9}"] if fits else []  # fmt: skip
    lines += [_line(row, width) for row in fits]
    if others:
        lines += ["", f"{len(others)} layouts have no plan within {size(memory_bytes)}:"]
        lines += [f"  {row.layout}: {row.why}" for row in others[:_MISSING]]
        lines += [f"  and {len(others) - _MISSING} more"] if len(others) > _MISSING else []
    return lines


def _line(row: Row, width: int) -> str:
    more, least, idle = 100 * row.overhead, 100 * row.least_overhead, 100 * row.idle
    exchange, step = (time_of(round(1e9 * seconds)) for seconds in (row.exchange_seconds, row.step_seconds or 0.0))
    return (f"{row.layout!s:{width}}  {size(row.peak_bytes or 0):>9} {more:>8.1f}% {least:>7.1f}% {idle:>4.0f}% {exchange:>9} {step:>9} "
            f"{row.samples_per_second or 0:>9.1f}")  # fmt: skip
