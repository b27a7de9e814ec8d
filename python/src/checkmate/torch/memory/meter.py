# SPDX-License-Identifier: Apache-2.0
"""Measures the bytes a training step really holds, by means that know nothing of schedules.

On the CPU the allocator's own events are read from PyTorch's profiler; on CUDA, its statistics. Both count what kernels
allocate inside, too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from ...errors import UnsupportedError


def tensor_bytes(*groups: object) -> int:
    """Bytes of the distinct storages under modules, optimizers, tensors and nested containers of them."""
    storages: dict[int, int] = {}

    def add(value: object) -> None:
        if isinstance(value, torch.nn.Module):
            add([*value.parameters(), *value.buffers()])
        elif isinstance(value, torch.optim.Optimizer):
            add(list(value.state.values()))
        elif isinstance(value, torch.Tensor):
            storages[value.untyped_storage()._cdata] = value.untyped_storage().nbytes()
            if value.grad is not None:
                add(value.grad)
        elif isinstance(value, (list, tuple, dict)) or (isinstance(value, Iterable) and not isinstance(value, (str, bytes))):
            for leaf in tree_flatten(value)[0]:
                if leaf is not value:
                    add(leaf)

    add(list(groups))
    return sum(storages.values())


def allocated(run: Callable[[], Any], device: torch.device) -> int:
    """The most bytes that were allocated at once while `run` ran, beyond what was before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    if torch._C._autograd._profiler_enabled():
        raise UnsupportedError("what a call takes is measured by PyTorch's profiler, and a profile is running: call the model once before it starts")
    # PyTorch's older profiler: the newer one reports every start on stderr once anybody has used it, and takes longer.
    old: Any = torch.autograd
    old._enable_profiler_legacy(old.ProfilerConfig(old.ProfilerState.CPU, False, True, False, False, False, torch._C._profiler._ExperimentalConfig()))
    try:
        run()
    finally:
        events = old._disable_profiler_legacy()
    live = peak = 0
    for event in (event for thread in events for event in thread if event.kind() == "memory_alloc"):
        live += event.cpu_memory_usage()
        peak = max(peak, live)
    return peak


def left(run: Callable[[], Any], device: torch.device) -> int:
    """The bytes on a CUDA device that are allocated after `run` and its results are gone, beyond what was before."""
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    run()
    gc.collect()
    torch.cuda.synchronize(device)
    return max(0, torch.cuda.memory_allocated(device) - before)


def peak_bytes(step: Callable[[], Any], *held: object) -> int:
    """Peak while `step` runs: bytes of `held` (model, inputs, optimizer), alive before it, and what it allocates on top."""
    device = next((p.device for h in held if isinstance(h, torch.nn.Module) for p in h.parameters()), torch.device("cpu"))
    gc.collect()
    return tensor_bytes(*held) + allocated(step, device)
