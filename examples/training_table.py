# SPDX-License-Identifier: Apache-2.0
"""Trains a model for a few steps in eager mode and under memory budgets, and prints both side by side."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence

import torch

import checkmate.torch
from checkmate.torch.memory import meter

HEADER = f"{'budget':>7} {'budget MB':>10} {'planned':>9} {'measured':>9} {'overhead':>9} {'gap':>7} {'step s':>7} {'last loss':>10}  same as eager"


class Run:
    """Losses, and what the last of `steps` training steps left in gradients, parameters and buffers."""

    def __init__(self, model: torch.nn.Module, step_of: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], steps: int) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        self.losses, times = [], []
        for i in range(steps):
            torch.manual_seed(1000 + i)
            optimizer.zero_grad(set_to_none=True)
            begin = time.perf_counter()
            loss = step_of(*inputs)
            loss.backward()
            times.append(time.perf_counter() - begin)
            optimizer.step()
            self.losses.append(loss.item())
        self.seconds = statistics.median(times[1:]) if steps > 1 else times[0]  # the first one compiles
        self.tensors = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        self.tensors += [t.detach().clone() for t in [*model.parameters(), *model.buffers()]]
        optimizer.zero_grad(set_to_none=True)
        del optimizer
        self.peak = meter.peak_bytes(lambda: step_of(*inputs).backward(), model, inputs)
        model.zero_grad(set_to_none=True)

    def same_as(self, other: Run) -> bool:
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in zip(self.tensors, other.tensors, strict=True))


def table(name: str, model: torch.nn.Module, inputs: Sequence[torch.Tensor], budgets: Sequence[str] = ("70%", "50%", "30%"), steps: int = 3) -> bool:
    """`model(*inputs)` is the loss. Prints a line for eager mode and one a budget; true when all of them agree and fit."""
    start = copy.deepcopy(model.state_dict())
    eager = Run(model, model, inputs, steps)
    mb = 1e6
    print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters")
    print(HEADER)
    print(f"{'eager':>7} {'':>10} {'':>9} {eager.peak / mb:9.1f} {'':>9} {'':>7} {eager.seconds:7.2f} {eager.losses[-1]:10.5f}", flush=True)
    good = True
    for budget in budgets:
        torch._dynamo.reset()
        model.load_state_dict(start)
        compiled = checkmate.torch.compile(model, budget, time_limit=10)
        try:
            run = Run(model, compiled, inputs, steps)
        except checkmate.InfeasibleError as error:
            print(f"{budget:>7} {error}", flush=True)
            good = False
            continue
        plan = checkmate.torch.plans(compiled)[-1]
        same, fits = run.same_as(eager), run.peak <= plan.budget_bytes
        good = good and same and fits
        gap = "" if plan.gap is None else f"{100 * plan.gap:6.2f}%"
        print(
            f"{budget:>7} {plan.budget_bytes / mb:10.1f} {plan.peak_bytes / mb:9.1f} {run.peak / mb:9.1f} {100 * plan.overhead:8.1f}% {gap:>7} "
            f"{run.seconds:7.2f} {run.losses[-1]:10.5f}  {'yes, bit for bit' if same else 'NO'}{'' if fits else ', OVER THE BUDGET'}",
            flush=True,
        )
    return good
