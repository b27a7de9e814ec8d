# SPDX-License-Identifier: Apache-2.0
"""How to spread training over devices that need not be there: every layout within the memory of a device, and how long its step takes."""

from .layouts import Layout
from .links import Network
from .planner import plan_parallel
from .table import ParallelPlans, Row
from .timing import pipeline_seconds

__all__ = ["Layout", "Network", "ParallelPlans", "Row", "pipeline_seconds", "plan_parallel"]
