# SPDX-License-Identifier: Apache-2.0
"""The predicted peak is the one that a meter sees which knows nothing of the planner: bench/torch/physical.py."""

from __future__ import annotations

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402
from models import MODELS, make  # noqa: E402

import checkmate.torch as ct  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", ["100%", "70%"])
def test_measured_peak(name: str, budget: str) -> None:
    torch._dynamo.reset()
    model, inputs = make(name)
    compiled = ct.compile(model, budget, time_limit=2)

    def step() -> None:
        compiled(*inputs).backward()

    step()
    model.zero_grad(set_to_none=True)
    held = physical.held_bytes(model, inputs)
    measured = held + physical.allocator_peak(step)
    model.zero_grad(set_to_none=True)
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):  # old versions compile anew under a dispatch mode
        storages = held + physical.storage_peak(step)
    (plan,) = ct.plans(compiled)
    assert measured <= plan.budget_bytes
    assert measured == pytest.approx(plan.peak_bytes, rel=0.02)
    assert storages <= measured
    assert storages >= 0.9 * measured, "most of the peak is in tensors that operators returned"


def test_what_no_graph_takes_is_counted() -> None:
    """A layer and a buffer that the step does not use, and an argument that the model ignores, are there all the same."""

    class Wasteful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
            self.register_buffer("original", torch.ones(16))

        def forward(self, x: torch.Tensor, _mask: torch.Tensor, *, weight: torch.Tensor | None = None) -> torch.Tensor:
            return self.used(x).tanh().square().mean()

    torch._dynamo.reset()
    model, x, mask, weight = Wasteful(), torch.randn(256, 64), torch.ones(256, 64), torch.ones(7)
    compiled = ct.compile(model, "100%", time_limit=1)

    def step() -> None:
        compiled(x, mask, weight=weight).backward()

    step()
    model.zero_grad(set_to_none=True)
    measured = physical.held_bytes(model, [x, mask, weight]) + physical.allocator_peak(step)
    (plan,) = ct.plans(compiled)
    assert plan.held_bytes == 4 * (64 * 64 + 64 + 16 + 256 * 64 + 7)
    assert measured <= plan.peak_bytes
    torch._dynamo.reset()
    frontier = ct.explain(model, {"x": x, "_mask": mask, "weight": weight}, budgets=1, show=None, time_limit=1)
    assert frontier.baseline_peak_bytes == plan.baseline_peak_bytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loss_outside_has_room(dtype: torch.dtype) -> None:
    """Wide logits leave the model; the cross entropy, its gradient and its scalars are within the least budget, too."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 300)).to(dtype)
    x, labels = torch.randn(128, 32, dtype=dtype), torch.randint(0, 300, (128,))
    compiled = ct.compile(model, "min", time_limit=1)

    def step() -> None:
        logits = compiled(x)  # held, as a loop that computes an accuracy holds them
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()

    step()
    model.zero_grad(set_to_none=True)
    measured = physical.held_bytes(model, [x]) + physical.allocator_peak(step)
    (plan,) = ct.plans(compiled)
    assert measured <= plan.budget_bytes <= 1.05 * measured


def test_a_loss_outside_that_lies_in_a_large_buffer_has_room() -> None:
    """The scalar of mse_loss holds the squares through the backward pass, whose own peak comes long after."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64))
    x, wanted = torch.randn(512, 64), torch.randn(512, 64)
    compiled = ct.compile(model, "100%", time_limit=1)

    def step() -> None:
        found = compiled(x)
        loss = torch.nn.functional.mse_loss(found, wanted)
        loss.backward()

    step()
    model.zero_grad(set_to_none=True)
    measured = physical.held_bytes(model, [x]) + physical.allocator_peak(step)
    (plan,) = ct.plans(compiled)
    assert measured <= plan.peak_bytes <= measured + x.numel() * 4 + 64  # between the passes there is room for a cross entropy
