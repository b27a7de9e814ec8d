# SPDX-License-Identifier: Apache-2.0
"""Interpolation runs the kernels that eager mode runs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import steps  # noqa: E402

import checkmate.torch as ct  # noqa: E402

MODES: list[dict[str, Any]] = [
    {"scale_factor": 4.0, "mode": "bilinear"}, {"size": (13, 24), "mode": "bilinear", "align_corners": True},
    {"size": (9, 9), "mode": "bilinear", "antialias": True}, {"scale_factor": 2.0, "mode": "nearest"}, {"size": (7, 5), "mode": "nearest"},
    {"scale_factor": 1.5, "mode": "nearest-exact"}, {"size": (11, 11), "mode": "bicubic"}, {"size": (9, 20), "mode": "bicubic", "antialias": True},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
def test_interpolation_is_one_call_each_way(mode: dict[str, Any], layout: Any) -> None:
    torch.manual_seed(0)
    model = steps.Model(
        lambda self, x: (torch.nn.functional.interpolate(self.conv(x), **mode) * self.scale).relu().mean(),
        conv=torch.nn.Conv2d(3, 6, 3), scale=torch.nn.Parameter(torch.randn(6, 1, 1)),
    )  # fmt: skip
    x = torch.randn(2, 3, 10, 12).to(memory_format=layout)
    model.to(memory_format=layout)
    compiled = ct.compile(model, "100%", **steps.FAST)
    assert steps.difference(steps.trace(model, compiled, [x]), steps.trace(model, model, [x])) == ""
    (plan,) = ct.plans(compiled)
    assert sum("upsample" in op.name for op in plan.graph.ops) == 2, [op.name for op in plan.graph.ops]


def test_other_compilers_keep_their_decompositions() -> None:
    overload = torch.ops.aten.upsample_bilinear2d.vec
    before = dict(overload.py_kernels)
    model = steps.Model(
        lambda self, x: torch.nn.functional.interpolate(self.conv(x), scale_factor=2, mode="bilinear").sum(), conv=torch.nn.Conv2d(3, 4, 3)
    )
    ct.compile(model, "100%", **steps.FAST)(torch.randn(1, 3, 8, 8))
    assert before and overload.py_kernels == before
    with pytest.raises(ct.InfeasibleError):
        ct.compile(model, 10, **steps.FAST)(torch.randn(1, 3, 8, 8))
    assert overload.py_kernels == before
