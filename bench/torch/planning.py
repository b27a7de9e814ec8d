# SPDX-License-Identifier: Apache-2.0
"""How long planning takes, part by part: a GPT of some depth, at some share of its peak.

planning.py [--operators N]... [--budget SHARE] [--costs measure|estimate]

The first step of `checkmate.torch.compile` is timed with an empty cache. "trace" is what PyTorch takes to make the joint
graph, and is not ours; "seconds" is all that comes on top of it.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import checkmate
import checkmate.torch
import torch
from checkmate.torch.cost import cost
from checkmate.torch.fx import dataflow, partition, program
from checkmate.torch.memory import peak
from checkmate.torch.plan import planner, solving

import cases

#: About the number of operators of a layer, forward and backward together.
A_LAYER = 92
HEAD = "| operators | trace | costs | extract | solve | split | peak | code | other | seconds | overhead | gap |\n" + "|---" * 12 + "|"


class Parts:
    """Seconds in each part, those in parts within it left out."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            self.inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - begin
                self.seconds[name] = self.seconds.get(name, 0.0) + spent - self.inner.pop()
                self.inner[-1] += spent

        return call


def watch(parts: Parts) -> None:
    for name, owner, attribute in (
        ("costs", cost.Measured, "prepare"), ("extract", planner, "trace"), ("solve", solving, "solve"), ("split", partition, "split"),
        ("peak", peak, "peak_bytes"), ("other", planner, "plan"), ("extract", dataflow, "build"),
    ):  # fmt: skip
        setattr(owner, attribute, parts.timed(name, getattr(owner, attribute)))
    from checkmate.torch import compiler

    compiler.plan = parts.timed("other", compiler.plan)  # type: ignore[attr-defined]
    compiler.compile_boxed = parts.timed("code", program.compile_boxed)  # type: ignore[attr-defined]


def measure(operators: int, budget: str, costs: str) -> str:
    torch.manual_seed(0)
    case = cases.gpt(depth=max(1, operators // A_LAYER), width=64, batch=8, length=64)
    parts = Parts()
    watch(parts)
    compiled = checkmate.torch.compile(case.model, budget, costs=costs)
    begin = time.perf_counter()
    compiled(*case.inputs).backward()
    total = time.perf_counter() - begin
    (plan,) = checkmate.torch.plans(compiled)
    ours = sum(parts.seconds.values())
    columns = [f"{parts.seconds.get(name, 0.0):.2f}" for name in ("costs", "extract", "solve", "split", "peak", "code", "other")]
    gap = "none" if plan.gap is None else f"{100 * plan.gap:.1f} %"
    return f"| {len(plan.graph.ops):,} | {total - ours:.1f} | {' | '.join(columns)} | {ours:.1f} | {100 * plan.overhead:.1f} % | {gap} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, action="append")
    parser.add_argument("--budget", default="60%")
    parser.add_argument("--costs", default="measure")
    options = parser.parse_args()
    sizes = options.operators or [1000, 10000]
    if len(sizes) > 1:  # a process each, so that none finds the other's caches
        for size in sizes:
            status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, "--operators", str(size), "--budget", options.budget,
                                                           "--costs", options.costs])  # fmt: skip
            if status:
                return status
        return 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        if sizes[0] == 1000:
            print(HEAD)
        print(measure(sizes[0], options.budget, options.costs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
