# SPDX-License-Identifier: Apache-2.0
"""The bytes that kernels ask TensorFlow's allocator for.

The allocator's counters add up the chunks that it gives, and a chunk may be larger by a fifth, or by any amount that it thinks too
little to split off. Its profiler reports every request as it was. All calls are watched in one session, since each writes lines to the log.
"""

from __future__ import annotations

import logging
import pathlib
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

log = logging.getLogger("checkmate.tf2")

#: A call is run so often.
_RUNS = 3
#: What the host's tracer is to report: the allocator's events, and no more.
_LEVEL = 2
_NAME = "checkmate/asked/"


class Watch:
    """Calls as they run, one after another."""

    def __init__(self) -> None:
        self._count = 0
        self._now: Any = None

    def begin(self) -> None:
        self._now = tf.profiler.experimental.Trace(f"{_NAME}{self._count}")
        self._now.__enter__()
        self._count += 1

    def end(self) -> None:
        self._now.__exit__(None, None, None)

    def workspaces(self, functions: Iterable[Callable[[], Any]], device: str) -> list[int] | None:
        """Of each call in the functions, which say when it begins and ends, bytes at most beyond those that its results have; None
        where the profiler is in use, or not there."""
        first = 0
        with tempfile.TemporaryDirectory() as folder:
            try:
                tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(_LEVEL, 0, 0))
            except (tf.errors.OpError, RuntimeError) as error:
                log.info("the allocator's counters are all that is known of kernels' bytes: %s", error)
                return None
            try:
                for run in functions:
                    for _ in range(_RUNS):
                        self._count = first
                        run()
                    first = self._count
            finally:
                tf.profiler.experimental.stop()
            events = _events(folder, on_gpu=device.startswith("GPU"))
        return None if events is None else _most(events, first)


Event = tuple[int, int, str, dict[str, int]]


def _most(events: list[Event], count: int) -> list[int] | None:
    """Of each name, the most in any of its runs; None where a run is missing, as where events were dropped."""
    runs: list[list[int]] = [[] for _ in range(count)]
    windows = sorted((at, end, int(name.removeprefix(_NAME))) for at, end, name, _facts in events if name.startswith(_NAME))
    memory = sorted((e for e in events if not e[2].startswith(_NAME)), key=lambda e: e[0])
    place = 0
    for begin, end, call in windows:
        sizes: dict[int, int] = {}
        live = most = 0
        while place < len(memory) and memory[place][0] < begin:
            place += 1
        while place < len(memory) and memory[place][0] <= end:
            _at, _end, name, facts = memory[place]
            if name == "MemoryAllocation":
                sizes[facts["addr"]] = facts["requested_bytes"]
                live += facts["requested_bytes"]
                most = max(most, live)
            else:  # what was there before may go as well
                live -= sizes.pop(facts["addr"], 0)
            place += 1
        runs[call].append(most - live)
    return [max(of_one) for of_one in runs] if all(len(of_one) == _RUNS for of_one in runs) else None


def _events(folder: str, *, on_gpu: bool) -> list[Event] | None:
    """When each began and ended, in picoseconds, the names of those that count, and what they say."""
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError:
        return None
    found: list[Event] = []
    for path in pathlib.Path(folder).rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
        for plane in space.planes:
            names = {key: m.name for key, m in plane.event_metadata.items() if m.name.startswith((_NAME, "MemoryAllocation", "MemoryDeallocation"))}
            stats = {key: m.name for key, m in plane.stat_metadata.items()}
            for line in plane.lines:
                for event in line.events:
                    if event.metadata_id not in names:
                        continue
                    facts = {stats[s.metadata_id]: s.int64_value or s.uint64_value for s in event.stats}
                    texts = {stats[s.metadata_id]: s.str_value or stats.get(s.ref_value, "") for s in event.stats}
                    if names[event.metadata_id].startswith("Memory") and texts.get("allocator_name", "").startswith("GPU") != on_gpu:
                        continue
                    at = line.timestamp_ns * 1000 + event.offset_ps
                    found.append((at, at + event.duration_ps, names[event.metadata_id], facts))
    return found
