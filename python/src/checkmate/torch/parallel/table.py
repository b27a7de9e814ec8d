# SPDX-License-Identifier: Apache-2.0
"""Layouts side by side: memory, recomputation and the time of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...planning.frontier import seconds as time_of
from ...planning.frontier import size
from .layouts import Layout


@dataclass(frozen=True)
class Row:
    """A layout within the memory of a device.

    `peak_bytes`: of the device that needs most, None where there is no plan, for the reason in `why`; `refused` where that reason is
    another one than memory. `overhead`: computation more than without rematerialization, of the stage with most; `least_overhead`: what any
    schedule of that stage is proven to need. `idle`: share of the step in which the slowest stage waits. `exchange_seconds`: of a step, what
    calls between processes take that is not hidden. `ends`: of a pipeline's stages: stage i is `parts[ends[i - 1]:ends[i]]`."""

    layout: Layout
    peak_bytes: int | None = None
    overhead: float = 0.0
    least_overhead: float = 0.0
    step_seconds: float | None = None
    idle: float = 0.0
    exchange_seconds: float = 0.0
    ends: tuple[int, ...] = ()
    why: str = ""
    refused: bool = False

    @property
    def samples_per_second(self) -> float | None:
        return None if self.step_seconds is None else self.layout.batch / self.step_seconds


@dataclass(frozen=True)
class ParallelPlans:
    """All layouts, the fastest first, those without a plan last. `best`: the fastest, None where nothing fits; its `layout` says how many
    copies, tensor-parallel devices and stages there are. `memory_bytes`: of a device. `notes`: what is assumed. As text: of layouts that
    differ in their micro-batches only, the fastest."""

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


#: Of the first column; and how many reasons are listed.
_TITLE, _MISSING = "layout, micro-batches x samples", 12


def table(rows: list[Row], memory_bytes: int) -> list[str]:
    """Lines a person reads."""
    ways: dict[tuple[object, ...], Row] = {}
    for row in rows:
        ways.setdefault((row.layout.data, row.layout.tensor, row.layout.pipeline, row.layout.sharded), row)
    fits = [row for row in ways.values() if row.step_seconds is not None]
    width = max([len(str(row.layout)) for row in fits] + [len(_TITLE)])
    columns = [("peak", 9), ("recompute", 9), ("at least", 8), ("idle", 5), ("exchange", 9), ("step", 9), ("samples/s", 9)]
    lines = [f"{_TITLE:{width}}  {' '.join(f'{name:>{size}}' for name, size in columns)}"] if fits else []
    lines += [_line(row, width) for row in fits]
    for refused, what in ((False, f"no plan within {size(memory_bytes)}"), (True, "refused")):
        reasons: dict[str, list[Row]] = {}
        for row in ways.values():
            if row.step_seconds is None and row.refused == refused:
                reasons.setdefault(row.why, []).append(row)
        if reasons:
            lines += ["", f"{what}:"]
            lines += [f"  {' and '.join(str(row.layout) for row in alike)}: {why}" for why, alike in list(reasons.items())[:_MISSING]]
            lines += [f"  and {len(reasons) - _MISSING} more reasons"] if len(reasons) > _MISSING else []
    return lines


def _line(row: Row, width: int) -> str:
    more, least, idle = 100 * row.overhead, 100 * row.least_overhead, 100 * row.idle
    exchange, step = (time_of(round(1e9 * seconds)) if seconds > 0 else "0" for seconds in (row.exchange_seconds, row.step_seconds or 0.0))
    return (f"{row.layout!s:{width}}  {size(row.peak_bytes or 0):>9} {more:>8.1f}% {least:>7.1f}% {idle:>4.0f}% {exchange:>9} {step:>9} "
            f"{row.samples_per_second or 0:>9.1f}")  # fmt: skip
