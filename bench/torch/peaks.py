# SPDX-License-Identifier: Apache-2.0
"""The small networks of the tests at shares of their peak: the planned and the measured peak.

peaks.py [--shares 100,70] [--seconds N]

Measured by the allocator's reports (physical.py), as in python/tests/test_torch_peak.py, and so is eager mode's peak. Nothing is
timed; a search at less than the peak is led by measured costs, so its figures differ a little from run to run.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import sys
from collections.abc import Callable
from typing import Any

import physical
import torch

import checkmate.torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python" / "tests"))

from models import MODELS, make  # noqa: E402


def peak(model: torch.nn.Module, inputs: list[Any], call: Callable[..., torch.Tensor]) -> int:
    def step() -> None:
        call(*inputs).backward()

    step()
    model.zero_grad(set_to_none=True)
    held: int = physical.held_bytes(model, inputs)
    found: int = held + physical.allocator_peak(step)
    model.zero_grad(set_to_none=True)
    return found


def row(name: str, shares: list[float], seconds: float) -> str:
    model, inputs = make(name)
    cells = [name, f"{peak(model, inputs, model) / 1e6:.3f}"]
    for share in shares:
        torch._dynamo.reset()
        model, inputs = make(name)
        compiled = checkmate.torch.compile(model, f"{share:g}%", time_limit=seconds, cache=False)
        measured = peak(model, inputs, compiled)
        (plan,) = checkmate.torch.plans(compiled)
        apart = 100 * (measured / plan.peak_bytes - 1)
        cells += [f"{plan.budget_bytes / 1e6:.3f}", f"{plan.peak_bytes / 1e6:.3f}", f"{measured / 1e6:.3f}", f"{apart:+.2f} %"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=[100.0, 70.0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of a search")
    options = parser.parse_args()
    titles = ["network", "eager mode"]
    for share in options.shares:
        titles += [f"budget, {share:g} %", "planned", "measured", "difference"]
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads on {len(os.sched_getaffinity(0))} cores ({platform.machine()}); MB\n")
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for name in MODELS:
        print(row(name, options.shares, options.seconds), flush=True)


if __name__ == "__main__":
    main()
