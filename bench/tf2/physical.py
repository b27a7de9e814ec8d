# SPDX-License-Identifier: Apache-2.0
"""A meter of TensorFlow's CPU allocator that knows nothing of the planner: every allocation and release that the profiler reports.

The allocator's own counters (`tf.config.experimental.get_memory_info`) add up what the C library's heap gave, which may be more
than was asked for. This adds up what was asked for. TensorFlow's default allocator reports what is 256 kB or larger; with
TF_CPU_ALLOCATOR_USE_BFC=1 in the environment, set before TensorFlow starts, it reports everything.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def allocator_peak(step: Callable[[], Any]) -> int:
    """Bytes that are allocated at most in `step`, beyond what there was when it began."""
    live = most = 0
    sizes: dict[int, int] = {}
    for name, facts in _events(step):
        if name == "MemoryAllocation":
            sizes[facts["addr"]] = facts["requested_bytes"]
            live += facts["requested_bytes"]
            most = max(most, live)
        elif name == "MemoryDeallocation":  # of what was there before, such as what a variable was, too
            live -= sizes.pop(facts["addr"], facts["requested_bytes"])
    return most


def _events(step: Callable[[], Any]) -> list[tuple[str, dict[str, int]]]:
    """Of memory, in the order of time."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=tf.profiler.experimental.ProfilerOptions(host_tracer_level=3, python_tracer_level=0))
        try:
            held = step()
        finally:
            tf.profiler.experimental.stop()
        del held
        (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
    found: list[tuple[int, str, dict[str, int]]] = []
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if name.startswith("Memory"):
                    facts = {plane.stat_metadata[s.metadata_id].name: s.int64_value or s.uint64_value for s in event.stats}
                    found.append((line.timestamp_ns * 1000 + event.offset_ps, name, facts))
    found.sort(key=lambda e: e[0])
    return [(name, facts) for _, name, facts in found]
