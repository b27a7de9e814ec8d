# SPDX-License-Identifier: Apache-2.0
"""What devices have free, and which tensors are planned for as on CUDA."""

from __future__ import annotations

from contextvars import ContextVar

import torch

from ...planning.budget import free_host_bytes

#: Whether all tensors are, wherever they lie: they stand for those of a GPU that you do not have.
AS_ON_CUDA: ContextVar[bool] = ContextVar("checkmate_as_on_cuda", default=False)


def on_cuda(device: torch.device) -> bool:
    return device.type == "cuda" or AS_ON_CUDA.get()


def on_cpu(device: torch.device) -> bool:
    return device.type == "cpu" and not AS_ON_CUDA.get()


def allocated(size: int, device: torch.device) -> int:
    """What PyTorch's allocator hands out for this many bytes: CUDA's counts multiples of 512."""
    return -(-size // 512) * 512 if on_cuda(device) else size


def free_bytes(device: torch.device) -> int:
    """What this process could still allocate: on CUDA, what the device has free and what PyTorch's allocator holds in
    reserve; on the CPU, what the machine has."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_host_bytes()
