# SPDX-License-Identifier: Apache-2.0
"""Plans and costs on disk."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

from tf2_models import FAST, difference, make, train  # noqa: E402

import checkmate  # noqa: E402
import checkmate.tf2 as c2  # noqa: E402
from checkmate.planning import plan_cache  # noqa: E402


def folder() -> pathlib.Path:
    return plan_cache.directory("tensorflow")


def planned(budget: Any = "60%", **options: Any) -> c2.Plan:
    return train(make("penalties", batches=1), budget, **options)[1]


def test_a_second_instance_finds_the_plan() -> None:
    first, second = planned(), planned()
    assert (first.origin, second.origin) == ("solver", "cache")
    assert "from the cache" in str(second)
    assert (first.bound, first.gap, first.status, first.peak_bytes, first.recomputed) == (
        second.bound, second.gap, second.status, second.peak_bytes, second.recomputed)  # fmt: skip
    assert planned("61%").origin == "solver", "another budget is another problem"
    assert planned(gap=0.2).origin == "solver"


def test_without_the_cache_nothing_is_kept() -> None:
    assert [planned(cache=False).origin for _ in range(2)] == ["solver", "solver"]
    assert not folder().exists()


def test_a_second_process_finds_the_plan() -> None:
    here = str(pathlib.Path(__file__).parent)
    code = f"""
import sys
sys.path.insert(0, {here!r})
from tf2_models import make, train
print("origin", train(make("penalties", batches=1), "60%")[1].origin)
"""
    assert planned().origin == "solver"
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["origin cache"], done.stdout + done.stderr


def test_damaged_plans_are_made_again() -> None:
    whole, plan = train(make("penalties"), "60%")
    assert plan.origin == "solver"
    files = list((folder() / "plans").iterdir())
    texts = {path: path.read_text() for path in files}
    for damage in (lambda t: t[: len(t) // 2], lambda t: "", lambda t: "[]", lambda t: t.replace('"digest"', '"other"')):
        for path, text in texts.items():
            path.write_text(damage(text))
        assert planned().origin == "solver"
        assert planned().origin == "cache", "it is whole again"
    for path in files:
        path.write_text("[" * 200_000)
    assert planned().origin == "solver"
    for path in files:
        path.write_bytes(b"\xff\xfe\x00")
    found, plan = train(make("penalties"), "60%")
    assert plan.origin == "solver" and difference(found, whole) == ""


def test_costs_are_measured_once() -> None:
    path = folder() / "costs.json"
    options = {"costs": "measure", "time_limit": 2}
    planned("100%", **options)
    kept = json.loads(path.read_text())
    assert kept and all(record["how"] in ("measured", "estimated") for record in kept.values())
    before = path.stat().st_mtime_ns
    planned("100%", **options)
    assert path.stat().st_mtime_ns == before and json.loads(path.read_text()) == kept


@pytest.mark.parametrize("text", ("", "[]", '{"a": 3}', "half", pytest.param("[" * 200_000, id="deep")))
def test_damaged_costs_are_measured_again(text: str) -> None:
    path = folder() / "costs.json"
    step = c2.function(lambda x: tf.tanh(x @ x), "100%", costs="measure")
    step.prepare(tf.TensorSpec((256, 256)))
    kept = json.loads(path.read_text())
    damaged = json.dumps({key: {**record, "nanoseconds": "x"} for key, record in kept.items()}) if text == "half" else text
    path.write_text(damaged)
    c2.function(lambda x: tf.tanh(x @ x), "100%", costs="measure").prepare(tf.TensorSpec((256, 256)))
    assert json.loads(path.read_text()).keys() >= kept.keys()
    assert all(isinstance(json.loads(path.read_text())[key]["nanoseconds"], int) for key in kept)


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert planned().origin == "solver"


def test_options_of_the_solver_are_part_of_the_key() -> None:
    assert FAST["time_limit"] == 2
    assert planned().origin == "solver"
    assert planned(seed=7).origin == "solver"
    assert planned(time_limit=3).origin == "solver"
    assert planned().origin == "cache"
