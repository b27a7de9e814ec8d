# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow part of a page about a schedule."""

from __future__ import annotations

from ..schedule import Recipe


def recipes(budget: int) -> list[Recipe]:
    """What to do in Python with a schedule found for a budget."""
    return [
        Recipe(
            "Train within it",
            "import checkmate.tf2\n\n"
            f"train_iteration = checkmate.tf2.compile(\n    model, loss, optimizer, input_spec, label_spec, budget={budget:_}\n)\n"
            "prediction, loss = train_iteration(images, labels)",
        ),
        Recipe("A step of one's own within it", f"step = checkmate.tf2.function(step, budget={budget:_})"),
        Recipe("Train within it by fit", f"checkmate.tf2.keras(model, budget={budget:_})\nmodel.fit(data)", "Before or after model.compile."),
        Recipe("Ask what was planned", "for plan in checkmate.tf2.plans(train_iteration):\n    print(plan)"),
    ]
