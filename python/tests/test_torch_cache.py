# SPDX-License-Identifier: Apache-2.0
"""Plans and costs on disk."""

from __future__ import annotations

import json
import multiprocessing
import pathlib
import shutil
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from graphs import chain  # noqa: E402
from models import make  # noqa: E402
from steps import FAST  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.planning import plan_cache  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def test_a_cached_plan_keeps_its_bound() -> None:
    model, inputs = make("perceptron")
    found = []
    for _ in range(2):
        torch._dynamo.reset()
        compiled = ct.compile(model, "85%", **FAST)
        compiled(*inputs)
        found.append(ct.plans(compiled)[0])
    assert [p.cached for p in found] == [False, True]
    assert found[0].bound is not None
    assert (found[0].bound, found[0].gap, found[0].status) == (found[1].bound, found[1].gap, found[1].status)


def _chain_plan() -> tuple[Any, Any, int]:
    graph = chain(6)
    solution = checkmate.solve(graph, 5, time_limit=5).require()
    return graph, solution.schedule, 5


def test_damaged_plans_are_solved_anew() -> None:
    graph, schedule, limit = _chain_plan()
    path = plan_cache.path_of(graph, limit, ())
    assert plan_cache.load(path, graph, limit) is None
    plan_cache.store(path, schedule, plan_cache.Claim("optimal", 1.0))
    assert plan_cache.load(path, graph, limit) is not None
    whole = path.read_text()
    file = json.loads(whole)
    file["content"]["claim"]["bound"] = 99.0
    for text in (whole[:50], "", "[]", "{}", '{"digest": 1, "content": {}}', json.dumps(file), whole.replace('"digest"', '"other"')):
        path.write_text(text)
        assert plan_cache.load(path, graph, limit) is None
    path.write_bytes(b"\xff\xfe\x00")
    assert plan_cache.load(path, graph, limit) is None
    plan_cache.store(path, schedule, plan_cache.Claim("optimal", 1.0))
    other = plan_cache.path_of(graph, limit - 1, ())
    shutil.copy(path, other)
    assert plan_cache.load(other, graph, limit - 1) is None, "the verifier must refuse a schedule that needs more"


def _writer(_: int) -> bool:
    graph, schedule, limit = _chain_plan()
    path = plan_cache.path_of(graph, limit, ())
    good = True
    for _round in range(30):
        plan_cache.store(path, schedule, plan_cache.Claim("optimal", 1.0))
        good = good and plan_cache.load(path, graph, limit) is not None
    return good


def test_writers_do_not_disturb_each_other() -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert all(pool.map(_writer, range(3)))
    assert [f.suffix for f in (plan_cache.directory() / "plans").iterdir()] == [".json"]


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    model, inputs = make("perceptron")
    ct.compile(model, "90%", time_limit=2)(*inputs).backward()


def test_damaged_costs_are_measured_anew() -> None:
    model, inputs = make("perceptron")
    path = plan_cache.directory() / "costs.json"
    plan_cache.keep(path, '{"a": [1.0, 2, 4], "could not be run": [1.0, 2]}')
    ct.compile(model, "90%", time_limit=2)(*inputs)
    whole = json.loads(path.read_text())
    assert whole.pop("a") == [1.0, 2, 4], "what others measured stays"
    assert "could not be run" not in whole, "which has no bytes of outputs, and is tried again"
    assert whole
    for text in ("", "[]", '{"a": 3}', json.dumps({key: "x" for key in whole}), json.dumps({key: [] for key in whole})):
        torch._dynamo.reset()
        path.write_text(text)
        ct.compile(model, "90%", time_limit=2)(*inputs)
        assert json.loads(path.read_text()).keys() == whole.keys()
