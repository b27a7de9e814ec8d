# SPDX-License-Identifier: Apache-2.0
"""Where a run takes more than the graph counts and less is solved for, nothing that is proven for less is said of the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.plan import fit, fit_least  # noqa: E402

OPTIONS: dict[str, Any] = {"time_limit": 2, "costs": "estimate", "cache": False, "gap": 0.0}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ct.Plan]:
    def plan(budget: int | str, more: int = 0, **options: Any) -> ct.Plan:
        """Of a chain of layers whose run takes `more` bytes than it does."""
        real = fit.peak_with

        def dearer(*given: Any) -> Any:
            peak, parts = real(*given)
            return peak + more, parts

        torch._dynamo.reset()
        with monkeypatch.context() as patch:
            patch.setattr(fit, "peak_with", dearer)
            patch.setattr(fit_least, "peak_with", dearer)
            torch.manual_seed(0)
            model = torch.nn.Sequential(*(m for _ in range(6) for m in (torch.nn.Linear(32, 32), torch.nn.Tanh())))
            compiled = ct.compile(model, budget, **(OPTIONS | options))
            compiled(torch.randn(256, 32))
        (made,) = ct.plans(compiled)
        return made

    return plan


def test_the_bound_is_one_of_the_budget(planned: Callable[..., ct.Plan]) -> None:
    whole = planned("100%")
    middle = (whole.floor_bytes + whole.peak_bytes) // 2
    more = 256 * 32 * 4  # an activation
    roomy, tight = planned(middle), planned(middle, more)
    assert tight.solved_bytes < middle and tight.peak_bytes <= middle
    assert roomy.cost < tight.cost, "less was solved for"
    assert roomy.bound is not None and tight.bound is not None and tight.bound_bytes == middle
    assert tight.bound <= roomy.cost and tight.status == "feasible" and tight.gap is not None and tight.gap > 0


@pytest.mark.slow
def test_a_proof_for_less_is_none_for_the_budget(planned: Callable[..., ct.Plan]) -> None:
    least = planned("min")
    with pytest.raises(checkmate.InfeasibleError, match=r"^no schedule was found within") as caught:
        planned(least.budget_bytes, 50_000)
    error = caught.value
    assert not error.proven and error.largest_impossible < least.budget_bytes < (error.smallest_known or 0)
    with pytest.raises(checkmate.InfeasibleError, match=r"^no schedule.* fits .* workspaces as they were estimated") as caught:
        planned(least.floor_bytes - 1)
    assert caught.value.proven and caught.value.budget_bytes <= caught.value.largest_impossible


def test_room_left_for_states_of_generators_is_named(planned: Callable[..., ct.Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    from checkmate.torch.plan import fit_within

    whole = planned("100%")
    middle = (whole.floor_bytes + whole.peak_bytes) // 2
    monkeypatch.setattr(fit_within, "_room_for_states", lambda _model, _limit: 1000)
    plan = planned(middle)
    assert plan.bound is not None and plan.bound_bytes == middle - 1000 and f"within {middle - 1000:,} bytes" in str(plan)


def test_of_measured_bytes_nothing_is_proven(planned: Callable[..., ct.Plan]) -> None:
    inductor = pytest.importorskip("checkmate.torch.run.inductor", exc_type=ImportError)
    whole = planned("100%")
    some = planned((whole.floor_bytes + whole.peak_bytes) // 2)
    assert some.bound is not None and some.cost > some.baseline_cost
    _, told = inductor._Trial(lambda: None, some, some.peak_bytes - 5).within(some.budget_bytes + 10)
    assert (told.bound, told.gap, told.status) == (None, None, "feasible")
    assert (told.budget_bytes, told.peak_bytes) == (some.budget_bytes + 10, some.peak_bytes - 5)
    _, told = inductor._Trial(lambda: None, whole, 7).within(9)  # nothing computes less than everything once
    assert (told.bound, told.gap, told.status) == (float(whole.cost), 0.0, "optimal")
