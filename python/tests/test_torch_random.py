# SPDX-License-Identifier: Apache-2.0
"""Random numbers of Python and numpy inside a model: as in eager mode, or refused by name."""

from __future__ import annotations

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
