# SPDX-License-Identifier: Apache-2.0
"""What devices have free."""

from __future__ import annotations

import torch

from ..planning.budget import free_host_bytes


def free_bytes(device: torch.device) -> int:
    """What this process could still allocate: on CUDA, what the device has free and what PyTorch's allocator holds in
    reserve; on the CPU, what the machine has."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_host_bytes()
