# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import checkmate

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(*arguments: object) -> str:
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_plan(line: str) -> None:
    peak, budget, whole = (int(number.replace(",", "")) for number in re.findall(r"[\d,]{5,}(?= |$)", line)[:3])
    assert peak <= min(budget, whole), line


def test_vgg19() -> None:
    lines = run(EXAMPLES / "tf2_vgg19.py").splitlines()
    losses = [float(found[1]) for line in lines if (found := re.search(r"loss ([\d.]+)", line))]
    assert len(losses) == 4 and losses[-2] < losses[0], lines
    plans = [line for line in lines if line.startswith("plan:")]
    assert len(plans) == 2, "one for the batch and one for the last, smaller one"
    check_plan(plans[0])
    assert ", 0 recomputed" not in plans[0]


def test_the_tutorial() -> None:
    lines = run(EXAMPLES / "tf2_tutorial.py").splitlines()
    assert [line.split(":")[0] for line in lines[::2]] == ["by_hand", "by_fit"]
    for result, plan in zip(lines[::2], lines[1::2], strict=True):
        assert result.endswith("weights bit for bit what they are without recomputation"), lines
        check_plan(plan)
        assert ", 0 recomputed" not in plan


def test_the_readme_runs_as_it_is() -> None:
    """Its two examples about TensorFlow belong together; the step in the second one is called here."""
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    compiles, others = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "tf2" in code)
    called = """
assert model.optimizer.iterations == 2
step(pictures, labels)
assert model.optimizer.iterations == 3
print(checkmate.tf2.plans(model)[0], checkmate.tf2.plans(step)[0], sep="\\n")
"""
    lines = run("-c", compiles + others + called).splitlines()
    plans = [line for line in lines if " operators, peak " in line]
    assert len(plans) == 3, lines
    for plan in plans:
        check_plan(plan)
    assert ", 0 recomputed" not in plans[0]
