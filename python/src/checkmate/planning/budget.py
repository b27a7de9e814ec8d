# SPDX-License-Identifier: Apache-2.0
"""Budgets as people write them, in bytes; what a device has free."""

from __future__ import annotations

import numbers
import pathlib
from collections.abc import Callable

from ..errors import CheckmateError, int64

_SUFFIXES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
             "k": 10**3, "m": 10**6, "g": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


#: The smallest budget that a plan is found for.
LEAST = "min"


def parse_bytes(text: str) -> int:
    """Bytes from "4GiB", "512MB" or "123"."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text.strip()[len(number) :].strip().lower()
    try:
        size = int(float(number) * _SUFFIXES[suffix])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f'"{text}" is no size: write bytes, "512MB", "4GiB", "60%" of the peak, "auto" for what is free, or "min"') from None
    if size <= 0:
        raise ValueError(f"budget must be positive, not {text}")
    return int64(size, "budget")


def is_share(budget: int | float | str) -> bool:
    """Whether it is a share of the step's peak, such as "60%"; ValueError where it is meant as one and is none."""
    if not isinstance(budget, str) or not budget.strip().endswith("%"):
        return False
    try:
        share = float(budget.strip()[:-1])
    except ValueError:
        raise ValueError(f'"{budget}" is no size: write such as "60%"') from None
    if not 0 < share < float("inf"):
        raise ValueError(f"budget must be positive, not {budget}")
    return True


def in_bytes(budget: int | float | str, *, baseline_bytes: int = 0, held_bytes: int = 0, free_bytes: Callable[[], int] | None = None) -> int:
    """`baseline_bytes`: the peak without rematerialization, which "60%" is a share of. `held_bytes`: what of the step is
    on the device already; "auto" adds it to what is free there, by default on this machine."""
    if isinstance(budget, str) and budget.strip() == "auto":
        return ((free_bytes or free_host_bytes)() * 9 // 10) + held_bytes
    if isinstance(budget, str):
        return int(float(budget.strip()[:-1]) * baseline_bytes / 100) if is_share(budget) else parse_bytes(budget)
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise TypeError(f'budget must be bytes, "4GiB", "60%" of the peak, "auto" or "min", not {budget!r}')
    if not 0 < budget < float("inf"):
        raise ValueError(f"budget must be positive, not {budget}")
    if budget < 1:
        raise ValueError(f'a budget of {budget} is less than a byte; a share of the peak is written "{100 * budget:g}%"')
    return int64(int(budget), "budget")


def free_host_bytes() -> int:
    """What this process could still allocate: what the kernel calls available, or what a control group leaves where that is less."""
    available = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and used and limit[0].isdigit():
        available.append(max(0, int(limit[0]) - int(used[0])))
    if not available:
        raise CheckmateError('budget "auto": the free memory of this machine is not known; give it in bytes')
    return min(available)


def _lines(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []
