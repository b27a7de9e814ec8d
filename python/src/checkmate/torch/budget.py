# SPDX-License-Identifier: Apache-2.0
"""Budgets as people write them, in bytes; what a device has free."""

from __future__ import annotations

import pathlib

import torch

from ..errors import CheckmateError

_SUFFIXES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
             "k": 10**3, "m": 10**6, "g": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip


def parse_bytes(text: str) -> int:
    """Bytes from "4GiB", "512MB" or "123"."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text.strip()[len(number) :].strip().lower()
    try:
        size = int(float(number) * _SUFFIXES[suffix])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f'"{text}" is no size: write bytes, or such as "512MB" or "4GiB"') from None
    if size <= 0:
        raise ValueError(f"budget must be positive, not {text}")
    return size


def is_share(budget: int | float | str) -> bool:
    """Whether it is a share of the step's peak, such as "60%"."""
    return isinstance(budget, str) and budget.strip().endswith("%")


def in_bytes(budget: int | float | str, *, baseline_bytes: int, device: torch.device, held_bytes: int) -> int:
    """`baseline_bytes`: the peak without rematerialization, which "60%" is a share of. `held_bytes`: what of the step is
    on the device already; "auto" adds it to what is free."""
    if isinstance(budget, str) and budget.strip() == "auto":
        return (free_bytes(device) * 9 // 10) + held_bytes
    if isinstance(budget, str) and budget.strip().endswith("%"):
        try:
            share = float(budget.strip()[:-1])
        except ValueError:
            raise ValueError(f'"{budget}" is no size: write such as "60%"') from None
        if not 0 < share < float("inf"):
            raise ValueError(f"budget must be positive, not {budget}")
        return int(share * baseline_bytes / 100)
    if isinstance(budget, str):
        return parse_bytes(budget)
    if not 0 < budget < float("inf"):
        raise ValueError(f"budget must be positive, not {budget}")
    return int(budget)


def free_bytes(device: torch.device) -> int:
    """What this process could still allocate: on CUDA, what the device has free and what PyTorch's allocator holds in
    reserve; on the CPU, what the kernel calls available, or what a control group leaves where that is less."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
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
