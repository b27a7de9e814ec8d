# SPDX-License-Identifier: Apache-2.0
"""PyTorch models that train within a memory budget.

import checkmate.torch
model = checkmate.torch.compile(model, budget="4GiB")
"""

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError("checkmate.torch needs PyTorch 2.6 or newer: pip install torch") from _error
if tuple(int(_part) for _part in _torch.__version__.split("+")[0].split(".")[:2]) < (2, 6):
    raise ImportError(f"checkmate.torch needs PyTorch 2.6 or newer, and this is {_torch.__version__}")

from ..errors import InfeasibleError, UnsupportedError
from ..planning.frontier import Frontier
from .collectives import Link
from .compiler import Backend, backend, compile, plans
from .optimizers import optimizer_bytes
from .parallel import Layout, Network, ParallelPlans, Row, pipeline_seconds, plan_parallel
from .pipeline import InFlight, in_flight
from .planned import Plan
from .together import plan_together
from .tradeoff import explain
from .verify import Difference, Verification, VerificationError

__all__ = [
    "Backend",
    "Difference",
    "Frontier",
    "InFlight",
    "InfeasibleError",
    "Layout",
    "Link",
    "Network",
    "ParallelPlans",
    "Plan",
    "Row",
    "UnsupportedError",
    "Verification",
    "VerificationError",
    "backend",
    "compile",
    "explain",
    "in_flight",
    "optimizer_bytes",
    "pipeline_seconds",
    "plan_parallel",
    "plan_together",
    "plans",
]
