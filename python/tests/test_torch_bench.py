# SPDX-License-Identifier: Apache-2.0
"""bench/gpu runs: two small networks on the CPU, one budget each."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

BENCH = pathlib.Path(__file__).parents[2] / "bench"


def test_two_networks_hold_a_budget_and_the_page_says_that_there_was_no_gpu(tmp_path: pathlib.Path) -> None:
    if not BENCH.is_dir():
        pytest.skip("bench/ is not beside this package")
    path = os.pathsep.join([str(BENCH / "gpu"), str(BENCH / "torch"), *sys.path])
    options = ["--device", "cpu", "--small", "--parts", "budgets", "--settings", "50", "--seconds", "1", "--rounds", "1", "--minutes", "4"]
    command = [
        sys.executable,
        str(BENCH / "gpu" / "measure.py"),
        *options,
        "--case",
        "gpt2",
        "--case",
        "mixer",
        "--output",
        str(tmp_path / "gpu.json"),
    ]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    cases = json.loads((tmp_path / "gpu.json").read_text())["cases"]
    assert [case["network"] for case in cases] == ["gpt2", "mixer"]
    for case in cases:
        eager, ours = case["rows"]
        assert eager["bitwise"] and ours["bitwise"] and ours["within"]
        assert ours["allocated"] <= ours["budget"] < eager["allocated"]
    text = (tmp_path / "gpu.md").read_text()
    assert "No GPU: CPU, small models; CUDA graphs and reserved bytes not measured" in text
    assert "2 of 2 budgets held; 2 of 2 bit for bit" in text
