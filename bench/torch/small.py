# SPDX-License-Identifier: Apache-2.0
"""Steps so short that starting the kernels is most of them: eager mode, ours with everything kept, and PyTorch's aot_eager.

small.py [--steps N]

All three are one process and take turns, a step each; the medians are printed, and those of the ratios to eager mode in the same
round. One thread; seconds are the processor's, which what else the machine does disturbs less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import checkmate.torch
import torch

import cases

WARM = 10


def encoder() -> cases.Case:
    """Of width 8, one sequence of 128 tokens."""
    return cases.Case(cases.Encoder(512, 128, 8, 6, 4), (torch.randint(0, 512, (1, 128)), torch.randint(0, 512, (1, 128))), [])


def resnet() -> cases.Case:
    """Two images of 8 x 8."""
    return cases.Case(cases.resnet().model, (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,))), [])


def measure(case: cases.Case, steps: int) -> str:
    model = case.model.train()
    ours = checkmate.torch.compile(model, "100%", costs="estimate", cache=False)
    runs: list[Callable[..., Any]] = [model, ours, torch.compile(model, backend="aot_eager", dynamic=False)]

    def step(run: Callable[..., Any]) -> float:
        model.zero_grad(set_to_none=True)
        begin = time.thread_time()
        run(*case.inputs).backward()
        return time.thread_time() - begin

    for _ in range(WARM):
        for run in runs:
            step(run)
    times: list[list[float]] = [[], [], []]
    for i in range(steps):
        for k in range(len(runs)):
            times[(k + i) % 3].append(step(runs[(k + i) % 3]))
    over = [statistics.median(a / b for a, b in zip(taken, times[0], strict=True)) for taken in times]
    eager, mine, theirs = (1e3 * statistics.median(taken) for taken in times)
    (plan,) = checkmate.torch.plans(ours)
    return f"{len(plan.graph.ops):,} | {eager:.2f} | {mine:.2f} | {over[1]:.3f} | {theirs:.2f} | {over[2]:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| network | operators | eager, ms | ours, ms | over eager | aot_eager, ms | over eager |\n" + "|---" * 7 + "|")
    for name, make in (("encoder", encoder), ("ResNet-18", resnet)):
        print(f"| {name} | {measure(make(), options.steps)}", flush=True)


if __name__ == "__main__":
    main()
