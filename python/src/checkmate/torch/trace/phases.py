# SPDX-License-Identifier: Apache-2.0
"""What planning takes, part by part: PyTorch's tracing by Dynamo and by AOTAutograd, and what is done here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Phases:
    """Seconds in each part, those in parts within it left out, by the clock and of the processor, threads together."""

    seconds: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    _inner: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        begin, begin_processor = time.perf_counter(), time.process_time()
        self._inner.append((0.0, 0.0))
        try:
            yield
        finally:
            spent, spent_processor = time.perf_counter() - begin, time.process_time() - begin_processor
            inner, inner_processor = self._inner.pop()
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - inner
            self.processor[name] = self.processor.get(name, 0.0) + spent_processor - inner_processor
            outer, outer_processor = self._inner[-1]
            self._inner[-1] = outer + spent, outer_processor + spent_processor

    @contextlib.contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """As `part`; what is below counts its parts here."""
        token = _NOW.set(self)
        try:
            with self.part(name):
                yield
        finally:
            _NOW.reset(token)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        return f"{sum(self.seconds.values()):.1f} s, {sum(self.processor.values()):.1f} of the processor: {parts}"


_NOW: ContextVar[Phases | None] = ContextVar("checkmate_phases", default=None)

#: Names of parts, in the order in which they begin.
DYNAMO, AOT, REWRITING, MEASURING, SOLVING, SPLITTING, CODE = (
    "Dynamo", "AOTAutograd", "rewriting", "measuring", "solving", "splitting", "code",
)  # fmt: skip


def part(name: str) -> contextlib.AbstractContextManager[None]:
    """While this lasts, it is that part of the planning under way."""
    now = _NOW.get()
    return contextlib.nullcontext() if now is None else now.part(name)
