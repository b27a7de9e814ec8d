# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's allocator hands out in a step is what was planned, and within the budget."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import checkmate

HERE = pathlib.Path(__file__).parent
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("conv", "100%", {"count": 64}), ("conv", "50%", {"count": 64}), ("conv", "min", {"count": 64}),
    ("transformer", "60%", {"count": 64}), ("unet", "50%", {"count": 48}), ("grouped", "50%", {"count": 96}),
    ("noisy", "70%", {}),
]  # fmt: skip


def run(cases: list[tuple[str, str, dict[str, Any]]], cache: pathlib.Path, **more: str) -> list[dict[str, Any]]:
    """In a process of its own, whose allocator reports small allocations, too."""
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": source,
                                "XDG_CACHE_HOME": str(cache)} | more  # fmt: skip
    command = [sys.executable, str(HERE / "tf2_peak.py"), json.dumps(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run([*CASES, ("wide", "100%", {}), ("wide", "86%", {})], tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("at", [pytest.param(at, id=f"{name} {budget}") for at, (name, budget, _) in enumerate(CASES)])
def test_the_allocators_peak(found: list[dict[str, Any]], at: int) -> None:
    one = found[at]
    assert (one["name"], one["budget"]) == CASES[at][:2]
    assert one["failed"] == {}, "every operator is measured"
    assert one["planned"] <= one["budget_bytes"]
    assert one["measured"] <= one["budget_bytes"], one
    assert abs(one["planned"] / one["measured"] - 1) <= 0.02, one
    assert (one["recomputed"] == 0) == (one["budget"] == "100%")


def test_the_least_found_is_below_half(found: list[dict[str, Any]]) -> None:
    whole, half, least = found[:3]
    assert least["measured"] < half["measured"] < whole["measured"]


def test_updates_in_blocks_take_no_second_copy(found: list[dict[str, Any]]) -> None:
    """The least is the variables, twice with momentum, the gradient of the largest, and what one block takes."""
    whole, least = found[len(CASES) :]
    largest, held = 1024 * 1024 * 4, 2 * 4 * (64 * 1024 + 1024 * 1024 + 10 * 1024 + 2 * 1024 + 10)
    assert whole["measured"] > held + 2 * largest
    assert held + largest < least["measured"] <= least["planned"] < held + largest + 2.5 * 2**20, least
    assert least["planned"] <= 1.02 * least["measured"]


def test_workspaces_are_what_kernels_ask_for_not_chunks(tmp_path: pathlib.Path) -> None:
    """Without oneDNN convolutions have workspaces, which the allocator serves from larger chunks."""
    (one,) = run([("conv", "100%", {"count": 64})], tmp_path, TF_ENABLE_ONEDNN_OPTS="0")
    assert one["failed"] == {} and one["measured"] <= one["planned"] <= one["measured"] * 1.001, one
