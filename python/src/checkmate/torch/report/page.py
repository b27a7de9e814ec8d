# SPDX-License-Identifier: Apache-2.0
"""A training step run in other ways, side by side; what a page about a schedule says of a PyTorch model."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from ...graph import Graph
from ...schedule import Recipe, Schedule, Way
from .blocks import Checkpointed, checkpointed


def keeping_all(graph: Graph) -> Way:
    return Way("keep everything", Schedule.baseline(graph).simulate(graph).peak_bytes, graph.total_cost, "as PyTorch does by itself")


def checkpointing(found: Checkpointed) -> Way:
    """Checkpoints around every block, said in the names of the model."""
    first, last = found.blocks[0], found.blocks[-1]
    return Way(
        "checkpoint every block", found.peak_bytes, found.cost, f"torch.utils.checkpoint around each of {len(found.blocks)}: {first} to {last}"
    )


def recipes(budget: int, offload: str | None = None) -> list[Recipe]:
    """What to do in Python with a schedule found for a budget. `offload`: where it moves tensors to."""
    more = "" if offload is None else f", offload={json.dumps(offload)}"
    return [
        Recipe(
            "Train within it",
            "import checkmate.torch\n\n"
            f"model = checkmate.torch.compile(\n    model, budget={budget:_}, optimizer=optimizer{more}\n)\n"
            "loss = model(*inputs)\nloss.backward()\noptimizer.step()",
            "The model returns its loss. Leave out optimizer= where its state need not fit, as it was when this page was made.",
        ),
        Recipe(
            "Ask what was planned", "for plan in checkmate.torch.plans(model):\n    print(plan)", "After the first step: one plan for each graph."
        ),
        Recipe(
            "See the plan that runs",
            'checkmate.torch.plans(model)[0].report("plan.html")',
            "This page for it. explain(model, inputs, budget=..., report=...) makes one before anything runs.",
        ),
        Recipe(
            "Keep it",
            'plan = checkmate.torch.plans(model)[0]\nplan.graph.write("graph.json")\nplan.schedule.write("schedule.json")',
            "Files that the checkmate program reads; plans are found again on disk without them.",
        ),
    ]


def write(graph: Graph, schedule: Schedule, budget: int, ways: Sequence[Way], name: str, path: str | os.PathLike[str]) -> None:
    """The HTML page of a schedule, which is called `name` among the ways to run the step."""
    second = graph.second_memory
    schedule.report(graph, path, name=name, ways=ways, recipes=recipes(budget, None if second is None else second.name))


def write_plan(graph: Graph, schedule: Schedule, budget: int, path: str | os.PathLike[str]) -> None:
    """The HTML page of what `compile` planned."""
    found = checkpointed(graph)
    ways = [keeping_all(graph)] + ([checkpointing(found)] if found is not None else [])
    write(graph, schedule, budget, ways, "the plan", path)
