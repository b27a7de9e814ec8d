# SPDX-License-Identifier: Apache-2.0
"""Random numbers of Python and numpy inside a model: as in eager mode, or refused by name."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

from steps import FAST, Model  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402

DRAWS: dict[str, Callable[[Any], Any]] = {
    "a random.Random": lambda self: self.generator.uniform(0.5, 1.5),
    "the module random": lambda _self: random.randint(1, 9),
    "random.random": lambda _self: random.random(),
    "numpy": lambda _self: numpy.random.rand(),
    "numpy's array": lambda _self: torch.from_numpy(numpy.random.rand(1)),
    "a numpy generator": lambda self: float(self.numbers.random()),
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_those_of_eager_mode_or_refused(name: str) -> None:
    def drawn(run: Callable[[Any], Any]) -> list[float]:
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)
        return [run(torch.ones(4)).item() for _ in range(3)]

    def made() -> Model:
        parts = {"generator": random.Random(5), "numbers": numpy.random.default_rng(1), "layer": nn.Linear(4, 4)}
        return Model(lambda self, x: (self.layer(x) * 0 + x * DRAWS[name](self)).sum(), **parts)

    expected = drawn(made())
    assert len(set(expected)) > 1
    run = ct.compile(made(), "100%", **FAST)
    try:
        assert drawn(run) == expected
    except ct.UnsupportedError as error:
        assert "test_torch_random.py:" in str(error)
        assert name != "the module random"


class Masked(nn.Module):
    """As SpecAugment of transformers: spans that numpy draws are written into the caller's batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))

    def forward(self, x: Any) -> Any:
        share = numpy.random.rand(1).item()
        chosen = numpy.random.choice(numpy.arange(x.shape[-1]), 4 + int(share), replace=False)
        mask = numpy.zeros(tuple(x.shape), dtype=bool)
        numpy.put_along_axis(mask, numpy.broadcast_to(chosen, (x.shape[0], chosen.size)), True, -1)
        x[torch.tensor(mask, dtype=torch.bool)] = 0
        return self.layer(x).square().mean()


def test_masks_that_numpy_draws_are_those_of_eager_mode_in_parts() -> None:
    torch.manual_seed(0)
    batch, plain = torch.randn(8, 40), Masked()
    planned = copy.deepcopy(plain)

    def trained(run: Callable[[Any], Any], model: nn.Module) -> list[Any]:
        found = []
        numpy.random.seed(0)
        for _ in range(3):
            given = batch.clone()
            loss = run(given)
            loss.backward()
            found += [loss.detach(), given, torch.tensor(numpy.random.rand()), *(p.grad.clone() for p in model.parameters())]
            model.zero_grad()
        return found

    expected = trained(plain, plain)
    assert not torch.equal(expected[1], expected[8])  # another mask in each step
    run = ct.compile(planned, 10_000_000, graph_breaks="split", **FAST)
    for ours, theirs in zip(trained(run, planned), expected, strict=True):
        assert torch.equal(ours, theirs)
    assert ct.plans(run)
