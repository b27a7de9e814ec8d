# SPDX-License-Identifier: Apache-2.0
"""The bytes that kernels request from TensorFlow's allocator.

The allocator's counters add up the chunks that it gives, and a chunk may be larger than the request by a fifth, or by a remainder too small
to split off. Its profiler reports the requests. All calls are profiled in one session, since each session writes lines to the log.
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
    """Calls that run one after another."""

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
    """For each name, the maximum over its runs; None if a run is missing, for example because events were dropped."""
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
    """Begin and end of each event, in picoseconds, the names of the relevant ones, and their content."""
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
