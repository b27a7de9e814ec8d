# SPDX-License-Identifier: Apache-2.0
"""Budgets as people write them, in bytes; what a device has free.

A percentage is of the peak without rematerialization, or of activations: what that peak has beyond the bytes that are there in any
case, such as parameters and their gradients. `src/cli/cli_budget.c` reads the same for the program.
"""

from __future__ import annotations

import math
import numbers
import pathlib
import re
from collections.abc import Callable

from .._library import lib
from ..errors import CheckmateError, int64

_SUFFIXES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
             "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


#: The smallest budget that a plan is found for.
LEAST = "min"


def device_bytes(name: str) -> int | None:
    """The memory of a device that `checkmate devices` lists, "H100"; None for another name, or where it has none of its own."""
    product = lib.ckm_device_product_find(name.strip().encode())
    return (product.contents.memory_bytes or None) if product else None


def parse_bytes(text: str) -> int:
    """Bytes from "4GiB", "512MB" or "123", or those of a device, "H100"."""
    if (device := device_bytes(text)) is not None:
        return device
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text.strip()[len(number) :].strip().lower()
    try:
        size = int(float(number) * _SUFFIXES[suffix])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(
            f'"{text}" is no size: write bytes, "512MB", "4GiB", "60%" of the peak, "60%act" of activations, "H100" for a device\'s memory, '
            '"auto" for what is free, or "min"'
        ) from None
    if size <= 0:
        raise ValueError(f"budget must be positive, not {text}")
    return int64(size, "budget")


#: Behind the number and "%".
_OF = re.compile(r"\s*(?:of\s+)?(\S*)\s*")
_ACTIVATIONS = "activations"


def share(budget: int | float | str) -> tuple[float, bool] | None:
    """Of a percentage, the number and whether it is of activations (any prefix of that word); None for
    another budget. ValueError for a malformed percentage."""
    if not isinstance(budget, str) or "%" not in budget:
        return None
    number, _, of = budget.partition("%")
    what = _OF.fullmatch(of.lower())
    try:
        percent = float(number)
        if what is None or not _ACTIVATIONS.startswith(what[1]) or (of.strip() and not what[1]):
            raise ValueError
    except ValueError:
        raise ValueError(f'"{budget}" is no size: write such as "60%", or "60% of activations"') from None
    if not 0 < percent < float("inf"):
        raise ValueError(f"budget must be positive, not {budget}")
    return percent, bool(what[1])


def is_share(budget: int | float | str) -> bool:
    """Whether it is a share of the step's peak or of activations; ValueError for a malformed one."""
    return share(budget) is not None


def in_bytes(budget: int | float | str, *, baseline_bytes: int = 0, standing_bytes: int = 0, held_bytes: int = 0,
             free_bytes: Callable[[], int] | None = None) -> int:  # fmt: skip
    """`baseline_bytes`: the peak without rematerialization, which "60%" is a share of. `standing_bytes`: the part of it that is there in
    any case; "60% of activations" is of the rest. `held_bytes`: the part of the step that is
    on the device already; "auto" adds it to what is free there, by default on this machine."""
    if isinstance(budget, str) and budget.strip() == "auto":
        return ((free_bytes or free_host_bytes)() * 9 // 10) + held_bytes
    if (part := share(budget)) is not None:
        percent, of_activations = part
        standing = standing_bytes if of_activations else 0
        return standing + int(percent * (baseline_bytes - standing) / 100)
    if isinstance(budget, str):
        return parse_bytes(budget)
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise TypeError(f'budget must be bytes, "4GiB", "60%" of the peak, "auto" or "min", not {budget!r}')
    if not 0 < budget < float("inf"):
        raise ValueError(f"budget must be positive, not {budget}")
    if budget < 1:
        raise ValueError(f'a budget of {budget} is less than a byte; a share of the peak is written "{100 * budget:g}%"')
    return int64(int(budget), "budget")


def in_shares(budget: int | float | str, baseline_bytes: int, standing_bytes: int, enough_bytes: int | None) -> str:
    """For an error about a budget that is a share of the peak and too small: what no schedule can do without, and the share of activations that
    `enough_bytes` are. Empty for another budget, or a peak of no activations."""
    part, activations = share(budget), baseline_bytes - standing_bytes
    if part is None or activations <= 0:
        return ""
    text = (f"; of {baseline_bytes:,} bytes without rematerialization {standing_bytes:,} are there whatever is computed again, such as parameters "
            f"and their gradients, and {activations:,} are activations")  # fmt: skip
    if enough_bytes is not None and standing_bytes <= enough_bytes:
        text += f': budget="{max(1, math.ceil(100 * (enough_bytes - standing_bytes) / activations))}% of activations" works'
    return text


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
