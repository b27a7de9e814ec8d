# SPDX-License-Identifier: Apache-2.0
"""What a memory budget would cost a model, before one commits to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..schedule import Schedule
from ..solver import Solution, solve
from .compiler import Backend, optimizer_bytes, require_torch
from .joint import Joint
from .planner import Options, time_limit, trace


@dataclass(frozen=True)
class Frontier:
    """Memory against overhead: the least overhead found at each peak, the largest peak first.

    `graph`: the model's training step, which `graph.write` saves for the `checkmate` program.
    """

    joint: Joint
    baseline_peak_bytes: int
    floor_bytes: int
    solutions: list[Solution]

    @property
    def graph(self) -> Any:
        return self.joint.graph

    def __str__(self) -> str:
        lines = [
            f"{len(self.graph.ops)} operators; without rematerialization {self.baseline_peak_bytes:,} bytes; "
            f"at least {self.floor_bytes:,} bytes are needed",
            f"{'budget':>8}  {'peak bytes':>16}  {'overhead':>9}  {'at best':>9}",
        ]
        for s in self.solutions:
            share = f"{100 * s.budget_bytes / self.baseline_peak_bytes:7.1f}%"
            if s.cost is None:
                lines.append(f"{share:>8}  {'none fits' if s.status == 'infeasible' else 'none found':>16}")
                continue
            best = "" if s.bound is None else f"{100 * (s.bound / s.baseline_cost - 1):8.2f}%"
            overhead = 100 * (s.overhead or 0.0)
            bar = "#" * min(40, round(overhead / 2.5))
            lines.append(f"{share:>8}  {s.peak_bytes:>16,}  {overhead:8.2f}%  {best:>9}  {bar}")
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws it with matplotlib, which must be installed; the path's ending is the format."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        found = [s for s in self.solutions if s.cost is not None]
        mib = 2.0**20
        figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        axes.step([s.budget_bytes / mib for s in found], [100 * (s.overhead or 0) for s in found], where="pre", marker="o", color="#0072B2",
                  label="found")  # fmt: skip
        bounded = [s for s in found if s.bound is not None]
        axes.plot([s.budget_bytes / mib for s in bounded], [100 * ((s.bound or 0) / s.baseline_cost - 1) for s in bounded], color="#D55E00",
                  linestyle="--", label="proven least")  # fmt: skip
        axes.axvline(self.floor_bytes / mib, color="black", linewidth=0.8)
        axes.annotate("memory floor", (self.floor_bytes / mib, axes.get_ylim()[1]), rotation=90, va="top", ha="right", fontsize=8)
        axes.set(xlabel="memory budget (MiB)", ylabel="overhead (% of the step's compute)")
        axes.legend(frameon=False)
        figure.savefig(path)
        pyplot.close(figure)


class _TracedError(Exception):
    """Ends a compilation whose joint graph is all that was wanted."""


def _joint_graph(model: Callable[..., Any], inputs: Sequence[Any], options: Options) -> Joint:
    found: list[Joint] = []

    class Tracer(Backend):
        def partition(self, module: fx.GraphModule, _inputs: Any, *, num_fwd_outputs: int, **_hints: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            found.append(trace(module, num_fwd_outputs, options, "torch")[0])
            raise _TracedError

    try:
        torch.compile(model, backend=Tracer(options), fullgraph=True, dynamic=False)(*inputs)
    except Exception:
        if not found:
            raise
    if not found:
        raise ValueError("nothing was traced: the model needs inputs or parameters that require gradients")
    return found[0]


def explain(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Sequence[Any],
    *,
    budgets: int = 8,
    optimizer: torch.optim.Optimizer | None = None,
    progress: Callable[[Solution], None] | None = None,
    **options: Any,
) -> Frontier:
    """The frontier of memory against overhead of a training step on `inputs`, a tuple; prints it with `print(...)`.

    The model is traced, not run. `budgets` points from the peak without rematerialization down to the memory floor;
    other options as in `compile`. A model that returns its loss is planned whole.
    """
    require_torch()
    fixed = int(options.pop("fixed_bytes", 0)) + (optimizer_bytes(optimizer) if optimizer is not None else 0)
    settings = Options(budget="100%", fixed_bytes=fixed, **options)
    joint = _joint_graph(model, inputs, settings)
    graph = joint.graph
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    solutions = []
    for solution in _frontier(joint, top, budgets, settings):
        solutions.append(solution)
        if progress is not None:
            progress(solution)
    return Frontier(joint, top, graph.memory_floor, solutions)


def _frontier(joint: Joint, top: int, budgets: int, options: Options) -> Iterator[Solution]:
    floor = joint.graph.memory_floor
    for i in range(budgets):
        budget = top - (top - floor) * i // max(1, budgets - 1)
        solution = solve(joint.graph, budget, strategy=options.strategy, time_limit=time_limit(joint.graph, options), gap=options.gap,
                         threads=options.threads, seed=options.seed)  # fmt: skip
        yield solution
        if solution.status == "infeasible":
            return
