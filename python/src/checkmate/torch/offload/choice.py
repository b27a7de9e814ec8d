# SPDX-License-Identifier: Apache-2.0
"""What `offload=`, `offload_memory=` and `offload_speed=` say, and how fast transfers are: given, or measured once and kept."""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from ...errors import CheckmateError, int64
from ...planning import budget, plan_cache
from .store import HOST, Store

#: Bytes of transfers that are timed, large ones for the speed and small ones for the latency, and how often.
_LARGE, _SMALL, _RUNS = 32 << 20, 4096, 3


def check(offload: object, memory: object, speed: object) -> None:
    """TypeError or ValueError for what cannot be asked for; CheckmateError for a folder that cannot be used."""
    if offload is None:
        for name, value in (("offload_memory", memory), ("offload_speed", speed)):
            if value is not None:
                raise ValueError(f'{name}= says more of offload=, which is not given: give offload="host", or a folder')
        return
    if not isinstance(offload, (str, os.PathLike)):
        raise TypeError(f'offload must be "host" or a folder, not {offload!r}')
    where_of(offload)
    limit_of(memory)
    speeds_of(speed)


def where_of(offload: str | os.PathLike[str]) -> str:
    where = os.fspath(offload)
    if where == HOST:
        return where
    path = pathlib.Path(where)
    if not path.is_dir():
        what = "is no folder" if path.exists() else "there is no such folder"
        raise CheckmateError(f'offload: {where}: {what}; make it (mkdir), or give offload="host"', file=where)
    if not os.access(path, os.W_OK | os.X_OK):
        raise CheckmateError(f"offload: {where}: no file can be made there: it may not be written to; give another folder", file=where)
    return str(path.resolve())


def limit_of(memory: object) -> int | None:
    if memory is None:
        return None
    if isinstance(memory, bool) or not isinstance(memory, (str, numbers.Integral)):
        raise TypeError(f'offload_memory must be bytes or such as "4GiB", not {memory!r}')
    try:
        limit = budget.parse_bytes(memory) if isinstance(memory, str) else int64(int(memory), "offload_memory")
    except ValueError as error:
        raise ValueError(f'offload_memory: {memory!r} is no size: write bytes, or such as "4GiB"') from error
    if limit <= 0:
        raise ValueError(f"offload_memory must be positive, not {memory!r}")
    return limit


def speeds_of(speed: object) -> tuple[int, int] | None:
    """Bytes a second out and in."""
    if speed is None:
        return None
    pair = [speed, speed] if isinstance(speed, numbers.Real) else list(speed) if isinstance(speed, Sequence) and not isinstance(speed, str) else []
    if len(pair) != 2 or not all(isinstance(s, numbers.Real) and not isinstance(s, bool) and float(s) >= 1 for s in pair):
        raise ValueError(f"offload_speed must be bytes a second, or a pair of them, out and in, at least 1, not {speed!r}")
    return int64(int(float(pair[0])), "offload_speed"), int64(int(float(pair[1])), "offload_speed")


def speeds(store: Store, speed: object, *, cache: bool, say: Callable[[str], None]) -> tuple[int, int, int]:
    """Bytes a second out and in, and nanoseconds that a small transfer takes: as given, or measured."""
    given = speeds_of(speed)
    return _known(store, cache=cache, say=say) if given is None else (*given, 0)


def room(store: Store, most_bytes: int, taken_bytes: int) -> int | None:
    """Bytes that a planner may move at one time, in addition to `taken_bytes` that a step moves in any case. None: no limit, also where all
    tensors of the graph, `most_bytes`, fit, so that plans do not depend on what else is on a disk."""
    limit = None if store.limit_bytes is None else store.limit_bytes - store.resident_bytes
    if limit is None:
        free = budget.free_host_bytes() if store.where == HOST else os.statvfs(store.where).f_bavail * os.statvfs(store.where).f_frsize
        limit = None if free >= most_bytes + taken_bytes else free
    if limit is not None and limit < taken_bytes:
        raise CheckmateError(f"offload: {store.where}: what checkpoint policies move takes {taken_bytes:,} bytes of {limit:,}: give a larger "
                             'offload_memory= or disk, or checkpoint_policy="override", which ignores policies')  # fmt: skip
    return None if limit is None else limit - taken_bytes


def _known(store: Store, *, cache: bool, say: Callable[[str], None]) -> tuple[int, int, int]:
    """As `speeds`, from the cache or measured."""
    key = hashlib.sha256(repr((store.where, 0 if store.where == HOST else os.stat(store.where).st_dev)).encode()).hexdigest()[:40]
    path = plan_cache.directory() / "links" / f"{key}.json"
    if cache:
        try:
            out, back, latency = json.loads(path.read_text())
            return max(1, int(out)), max(1, int(back)), max(0, int(latency))
        except (OSError, ValueError, TypeError):
            pass
    say(f"measuring how fast bytes go to {store.where} and back")
    found = measured(store)
    if cache:
        plan_cache.keep(path, json.dumps(found))
    return found


def measured(store: Store) -> tuple[int, int, int]:
    """Medians of a few transfers, to two digits. With a folder the system's page cache is part of what is measured, as it is in training."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        return _measured(store)


def _measured(store: Store) -> tuple[int, int, int]:
    large = _LARGE if store.limit_bytes is None else min(_LARGE, store.limit_bytes)
    source = torch.arange(-(-large // 8), dtype=torch.int64, device="cpu").view(torch.uint8)[:large].clone().untyped_storage()
    target = torch.empty(large, dtype=torch.uint8, device="cpu").untyped_storage()
    small = torch.zeros(min(_SMALL, large), dtype=torch.uint8, device="cpu").untyped_storage()

    def once(storage: torch.UntypedStorage) -> tuple[float, float]:
        begin = time.perf_counter()
        copy, transfer = store.out(storage)
        transfer.wait()
        between = time.perf_counter()
        store.back(copy, target, 0).wait()
        return between - begin, time.perf_counter() - between

    once(source)  # makes the file
    times = [once(source) for _ in range(_RUNS)]
    latency = statistics.median(seconds for _ in range(_RUNS) for seconds in once(small))
    out, back = (large / max(1e-9, statistics.median(pair[way] for pair in times)) for way in (0, 1))
    return _rounded(out), _rounded(back), _rounded(1e9 * latency)


def _rounded(value: float) -> int:
    return max(1, int(float(f"{value:.2g}")))
