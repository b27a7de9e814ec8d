# SPDX-License-Identifier: Apache-2.0
"""The example with Hugging Face's Trainer, as it is."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import checkmate

pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_trainer_saves_what_it_trained() -> None:
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, EXAMPLES / "torch_trainer.py"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "load back" in line]
    assert [line.partition(":")[0] for line in lines] == ["plain", "gradient checkpointing", "bf16"]
    assert all("bit for bit what it is without a budget" in line and line.endswith("load back equal") for line in lines), done.stdout
