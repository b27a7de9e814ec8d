# SPDX-License-Identifier: Apache-2.0
"""Run with TF_CPU_ALLOCATOR_USE_BFC=1 in the environment: trains models of tf2_models within budgets and prints, for each,
what was planned and what TensorFlow's allocator handed out, as JSON."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "tf2"))

import tensorflow as tf
from physical import allocator_peak
from tf2_models import make

import checkmate.tf2 as c2


def measured(name: str, budget: str, **settings: Any) -> dict[str, Any]:
    case = make(name, batches=1, **settings)
    batch = case.batches[0]
    step = c2.compile(case.model, case.loss, case.optimizer, *batch, budget, time_limit=2)
    owned = [*case.model.variables, *case.optimizer.variables]
    held = sum(tf.size(v).numpy() * tf.as_dtype(v.dtype).size for v in owned) + sum(t.nbytes for t in [a.numpy() for a in tf.nest.flatten(batch)])
    (plan,) = c2.plans(step)
    return {"name": name, "budget": budget, "budget_bytes": plan.budget_bytes, "planned": plan.peak_bytes, "whole": plan.baseline_peak_bytes,
            "measured": int(held + allocator_peak(lambda: step(*batch))), "recomputed": len(plan.recomputed),
            "failed": plan.estimated}  # fmt: skip


if __name__ == "__main__":
    cases = [(name, budget, dict(settings)) for name, budget, settings in json.loads(sys.argv[1])]
    print(json.dumps([measured(name, budget, **settings) for name, budget, settings in cases]))
