# SPDX-License-Identifier: Apache-2.0
"""What the loop around a step holds in addition: counted, or one warning that says what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model  # noqa: E402
from torch import nn  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.torch import failures  # noqa: E402

ROWS, WIDTH = 256, 32


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _model(*, view: bool = False) -> Model:
    """With `view`, AOTAutograd's own functions run it."""

    def run(self: Any, x: Any) -> Any:
        hidden = []
        for part in self.body:
            x = part(x)
            hidden.append(x)
        found = {"loss": x.square().mean(), "hidden": hidden}
        return found | {"weight": self.body[0][0].weight.view(-1)} if view else found

    return Model(run, body=nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4)]))


def _told(loop: Callable[[Any, Any, Any], None], *, view: bool = False, **options: Any) -> list[str]:
    model, x = _model(view=view), torch.randn(ROWS, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run = ct.compile(model, "100%", **FAST, **options)
        for _ in range(4):
            loop(run, optimizer, x)
    return [str(w.message) for w in found if str(w.message).startswith("checkmate")]


def _plain(run: Any, optimizer: Any, x: Any) -> None:
    optimizer.zero_grad()
    run(x)["loss"].backward()
    optimizer.step()


def _twice(run: Any, optimizer: Any, x: Any) -> None:
    optimizer.zero_grad()
    (run(x)["loss"] + run(x)["loss"]).backward()
    optimizer.step()


def _late(run: Any, optimizer: Any, x: Any) -> None:
    loss = run(x)["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


KEPT: list[Any] = []


def _kept(run: Any, optimizer: Any, x: Any) -> None:
    found = run(x)
    KEPT[:] = [found]
    found["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("view", [False, True], ids=["plain", "view"])
def test_a_loop_that_holds_nothing_is_told_nothing(view: bool) -> None:
    assert _told(_plain, view=view) == []


@pytest.mark.parametrize("view", [False, True], ids=["plain", "view"])
def test_two_calls_before_the_backward_pass(view: bool) -> None:
    (told,) = _told(_twice, view=view)
    assert "in_flight=" in told
    torch._dynamo.reset()
    if not view:
        assert _told(_twice, in_flight=2) == []


def test_gradients_that_are_there_in_the_forward_pass() -> None:
    (told,) = _told(_late)
    assert "accumulate=True" in told and "zero_grad()" in told
    torch._dynamo.reset()
    assert _told(_late, accumulate=True) == []


def test_outputs_of_the_last_call() -> None:
    (told,) = _told(_kept)
    KEPT.clear()
    assert "del out" in told


def test_state_of_parameters_that_are_trained_later_is_counted() -> None:
    model, x = _model(), torch.randn(ROWS, WIDTH)
    model.body[:3].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    run = ct.compile(model, "4MB", optimizer=optimizer, **FAST)
    _plain(run, optimizer, x)
    model.requires_grad_(True)
    _plain(run, optimizer, x)
    before, after = (plan.graph.fixed_bytes for plan in ct.plans(run))
    assert after - before == 3 * 2 * 4 * (WIDTH * WIDTH + WIDTH) + 3 * 2 * 4


def test_a_share_is_of_the_largest_step_so_far() -> None:
    model = Model(lambda self, x: self.body(x).square().mean(), body=_model().body)
    run = ct.compile(model, "80%", **FAST)
    for rows in (ROWS, ROWS // 8):
        run(torch.randn(rows, WIDTH)).backward()
    first, last = ct.plans(run)
    assert last.budget_bytes == first.budget_bytes
    assert last.baseline_peak_bytes < first.budget_bytes


def test_an_error_names_the_shapes_of_the_call() -> None:
    told = failures.for_shapes(
        ct.InfeasibleError("too small", proven=True, budget_bytes=3, smallest_known=5, largest_impossible=3), ((torch.ones(8, 2),), {})
    )
    assert "(8, 2)" in str(told) and told.smallest_known == 5
