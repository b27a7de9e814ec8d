# SPDX-License-Identifier: Apache-2.0
"""PyTorch models that train within a memory budget.

import checkmate.torch
model = checkmate.torch.compile(model, budget="4GiB")
"""

from ..errors import InfeasibleError, UnsupportedError, framework_missing, framework_too_old

try:
    import torch as _torch
except ImportError as _error:
    raise framework_missing("torch", "PyTorch", "2.6", "pip install torch", _error) from _error
if (_old := framework_too_old("torch", "PyTorch", "2.6", "pip install --upgrade torch", _torch.__version__)) is not None:
    raise _old

from ..planning.frontier import Frontier
from .collective_planning import plan_together
from .compiler import Backend, backend, compile, plans
from .cost.collectives import Link
from .memory.optimizers import optimizer_bytes
from .memory.pipeline import InFlight, in_flight
from .parallel import Layout, Network, ParallelPlans, Row, pipeline_seconds, plan_parallel
from .plan.result import Plan
from .plan.verify import Difference, Verification, VerificationError
from .predict.tradeoff import explain

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
