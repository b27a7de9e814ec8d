# SPDX-License-Identifier: Apache-2.0
"""On a GPU: the budget holds for what PyTorch's allocator counts, and a model trains that otherwise does not fit."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from models import make  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

DEVICE = torch.device("cuda")


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def on_gpu(name: str) -> tuple[Any, tuple[Any, ...]]:
    model, inputs = make(name)
    return model.to(DEVICE), tuple(x.to(DEVICE) for x in inputs)


def step(model: Any, run: Any, inputs: tuple[Any, ...]) -> list[Any]:
    torch.manual_seed(5)
    model.zero_grad(set_to_none=True)
    loss = run(*inputs)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("name", ["perceptron", "gpt", "resnet"])
def test_what_the_allocator_counts_is_within_the_budget_and_as_planned(name: str) -> None:
    model, inputs = on_gpu(name)
    start = copy.deepcopy(model.state_dict())
    expected = step(model, model, inputs)
    model.load_state_dict(start)
    compiled = ct.compile(model, "65%", time_limit=4)
    found = step(model, compiled, inputs)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    model.zero_grad(set_to_none=True)
    del expected, found
    (plan,) = ct.plans(compiled)
    assert plan.recomputed
    measured = meter.peak_bytes(lambda: compiled(*inputs).backward(), model, inputs)
    assert measured <= plan.budget_bytes
    assert measured >= 0.98 * plan.peak_bytes


def test_a_model_trains_that_does_not_fit_otherwise() -> None:
    """The process is given less memory than the default run needs, and enough for the budget."""
    width, layers = 1024, 24
    torch.manual_seed(0)
    body = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh()) for _ in range(layers)))
    model = body.to(DEVICE)
    x = torch.randn(65536, width, device=DEVICE)

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model

        def forward(self, x: Any) -> Any:
            return self.body(x).square().mean()

    whole = Loss()
    before = torch.cuda.memory_reserved(DEVICE)
    needed = meter.peak_bytes(lambda: whole(x).backward(), whole, x)
    whole.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    limit = needed // 2
    # The allocator's cache is coarser than what is live: a quarter on top of the budget, and still less than the default needs.
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction((before + limit * 5 // 4) / total)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        whole(x).backward()
    whole.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    compiled = ct.compile(whole, limit, costs="estimate", time_limit=5)
    for _ in range(2):
        compiled(x).backward()
        whole.zero_grad(set_to_none=True)
    assert ct.plans(compiled)[0].peak_bytes <= limit


def test_auto_takes_what_is_free() -> None:
    model, inputs = on_gpu("perceptron")
    compiled = ct.compile(model, "auto", costs="estimate", time_limit=2)
    compiled(*inputs).backward()
    free, total = torch.cuda.mem_get_info(DEVICE)
    assert 0 < ct.plans(compiled)[0].budget_bytes <= total
    assert free > 0
