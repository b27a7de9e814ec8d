# SPDX-License-Identifier: Apache-2.0
"""Training within a memory budget: optimal rematerialization schedules for any dataflow graph.

    from checkmate import Graph, solve

`checkmate.torch` does this for PyTorch models, `checkmate.tf2` for TensorFlow and Keras. They are imported when they are used, so
this package needs nothing but Python.
"""

import importlib as _importlib
import types as _types

from ._library import lib as _lib
from .errors import CheckmateError, InfeasibleError
from .graph import Graph, Op, SecondMemory, Tensor
from .schedule import Recipe, Schedule, Simulation, Step, Verdict, Way
from .solver import MinBudget, MinBudgetProgress, Progress, Solution, frontier, min_budget, solve, solve_frontier, strategies


def __getattr__(name: str) -> _types.ModuleType:
    if name in ("tf2", "torch"):
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__: str = _lib.ckm_version().decode()

__all__ = [
    "CheckmateError",
    "Graph",
    "InfeasibleError",
    "MinBudget",
    "MinBudgetProgress",
    "Op",
    "Progress",
    "Recipe",
    "Schedule",
    "SecondMemory",
    "Simulation",
    "Solution",
    "Step",
    "Tensor",
    "Verdict",
    "Way",
    "frontier",
    "min_budget",
    "solve",
    "solve_frontier",
    "strategies",
]
