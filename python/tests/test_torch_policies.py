# SPDX-License-Identifier: Apache-2.0
"""Regions and policies of torch.utils.checkpoint: kept or computed again as the user says, with the results of eager mode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import checkpoint  # noqa: E402

import checkmate.torch as ct  # noqa: E402

Policy = checkpoint.CheckpointPolicy
ROWS, WIDTH, BLOCKS = 256, 32, 4
ROW_BYTES = ROWS * WIDTH * 4


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def block() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1), nn.BatchNorm1d(WIDTH), nn.GELU())


def model(policy: Callable[..., Any] | None) -> Model:
    options = {} if policy is None else {"context_fn": functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)}

    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = checkpoint.checkpoint(part, x, use_reentrant=False, **options)
        return x.sum()

    return Model(run, body=nn.Sequential(*[block() for _ in range(BLOCKS)]))


def planned(made: Model, budget: str, **options: Any) -> ct.Plan:
    """The plan, after the results were compared with those of the same model without regions: computed again in eager
    mode, a batch norm counts its batch twice."""
    x = torch.randn(ROWS, WIDTH)
    compiled = ct.compile(made, budget, time_limit=2, costs="estimate", **options)
    found = trace(made, compiled, [x])
    made.function = lambda self, x: self.body(x).sum()
    assert not difference(found, trace(made, made, [x]))
    (plan,) = ct.plans(compiled)
    return plan


def runs(plan: ct.Plan, name: str) -> int:
    """How often calls of this kind run a second time: linear layers are addmm, addmm_1 and so on."""
    return sum(r.rstrip("0123456789").rstrip("_") == name for r in plan.recomputed)


def products_saved(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> Any:
    return Policy.MUST_SAVE if operator is torch.ops.aten.addmm.default else Policy.MUST_RECOMPUTE


def preferences(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> Any:
    return Policy.PREFER_SAVE if operator is torch.ops.aten.addmm.default else Policy.PREFER_RECOMPUTE


def test_what_must_be_saved_is_and_the_rest_is_not() -> None:
    free = planned(model(products_saved), "100%", checkpoint_policy="override")
    bound = planned(model(products_saved), "100%", checkpoint_policy="must")
    assert not free.recomputed
    assert runs(bound, "addmm") == 0
    assert runs(bound, "tanh") == BLOCKS
    assert runs(bound, "bernoulli_p") == BLOCKS
    # Of a block without regions: two products' operands, the tanh's result, the dropout's noise, the batch norm's and the
    # GELU's operands. Here the operand of the second product is not among them.
    assert free.saved_bytes - bound.saved_bytes >= BLOCKS * ROW_BYTES


def test_what_must_be_saved_is_not_computed_again_under_pressure() -> None:
    plan = planned(model(lambda *_a, **_k: Policy.MUST_SAVE), "100%", checkpoint_policy="must")
    assert not plan.recomputed
    with pytest.raises(ct.InfeasibleError):
        planned(model(lambda *_a, **_k: Policy.MUST_SAVE), "75%", checkpoint_policy="must")
    assert planned(model(lambda *_a, **_k: Policy.MUST_SAVE), "75%", checkpoint_policy="override").recomputed


def test_preferences_bind_when_asked() -> None:
    assert not planned(model(preferences), "100%").recomputed
    bound = planned(model(preferences), "100%", checkpoint_policy="respect")
    assert runs(bound, "addmm") == 0
    assert runs(bound, "tanh") == BLOCKS


def test_plain_regions_bind_when_asked() -> None:
    """Between the passes only what enters a region is held, and the batch norms, whose statistics the caller gets."""
    free = planned(model(None), "100%")
    bound = planned(model(None), "100%", checkpoint_policy="respect")
    assert not free.recomputed
    # The last block's GELU hands nothing to another region, and nothing in the backward pass needs its result.
    assert runs(bound, "addmm") == 2 * BLOCKS
    assert runs(bound, "_native_batch_norm_legit_functional") == 0
    assert bound.saved_bytes < free.saved_bytes / 2


def test_random_calls_are_kept_though_they_must_be_computed_again() -> None:
    """Where their generator's state is not replayed."""
    plan = planned(model(lambda *_a, **_k: Policy.MUST_RECOMPUTE), "100%", random="keep")
    assert runs(plan, "bernoulli_p") == 0
    assert runs(plan, "addmm") > 0


def test_no_such_policy() -> None:
    with pytest.raises(ValueError, match="checkpoint_policy"):
        planned(model(None), "100%", checkpoint_policy="no such")
