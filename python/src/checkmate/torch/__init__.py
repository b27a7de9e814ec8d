# SPDX-License-Identifier: Apache-2.0
"""PyTorch models that train within a memory budget.

import checkmate.torch
model = checkmate.torch.compile(model, budget="4GiB")
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError("checkmate.torch needs PyTorch 2.6 or newer: pip install torch") from _error

from ..errors import InfeasibleError
from .compiler import Backend, backend, compile, optimizer_bytes, plans
from .joint import UnsupportedError
from .planner import Plan
from .tradeoff import Frontier, explain

__all__ = ["Backend", "Frontier", "InfeasibleError", "Plan", "UnsupportedError", "backend", "compile", "explain", "optimizer_bytes", "plans"]
