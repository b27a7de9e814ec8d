# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

import pytest
from graphs import branches, chain

from checkmate import CheckmateError, Graph, Schedule, Step


def test_what_was_built_is_read_back() -> None:
    graph = Graph("g", cost_unit="us", fixed_bytes=7)
    x = graph.tensor(bytes=10, name="x")
    y = graph.tensor(bytes=20, name="y")
    view = graph.tensor(bytes=0, name="view", alias_of=y)
    graph.op(name="f", cost=3, workspace_bytes=5, recomputable=False, inputs=[x], outputs=[y])
    graph.op(name="v", cost=0, kind="backward", inputs=[y], outputs=[view])
    graph.result(view)
    assert (graph.name, graph.cost_unit, graph.fixed_bytes, graph.total_cost) == ("g", "us", 7, 3)
    assert [t.name for t in graph.tensors] == ["x", "y", "view"]
    assert graph.tensors[2].alias_of == y
    first, second = graph.ops
    assert (first.cost, first.workspace_bytes, first.recomputable, first.inputs, first.outputs) == (3, 5, False, (x,), (y,))
    assert second.kind == "backward"
    assert graph.results == [view]
    assert graph.producer(x) is None
    assert graph.producer(view) == 1
    assert graph.memory_floor == 7 + 10 + 20 + 5


def test_memory_floor_counts_what_waits() -> None:
    assert branches().memory_floor == 14


def test_json_there_and_back(tmp_path: pathlib.Path) -> None:
    graph = chain(4)
    assert Graph.parse(graph.to_json()).to_json() == graph.to_json()
    graph.write(tmp_path / "g.json")
    assert json.loads((tmp_path / "g.json").read_text())["format"] == "checkmate-graph"
    assert Graph.read(tmp_path / "g.json").to_json() == graph.to_json()


def test_errors_carry_code_and_message(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckmateError, match=r"negative|bytes") as caught:
        Graph().tensor(bytes=-1)
    assert caught.value.kind in ("argument", "format", "overflow")
    with pytest.raises(CheckmateError) as caught:
        Graph.read(tmp_path / "absent.json")
    assert caught.value.kind == "io"
    assert "absent.json" in str(caught.value)
    with pytest.raises(CheckmateError) as caught:
        Graph.parse('{"format": "checkmate-graph", "version": 1')
    assert caught.value.kind == "format"
    unordered = Graph()
    x = unordered.tensor(bytes=1)
    with pytest.raises(CheckmateError):
        unordered.op(cost=1, inputs=[x + 5], outputs=[x])
        unordered.finish()


def test_baseline_simulated_and_verified() -> None:
    graph = chain(8)
    schedule = Schedule.baseline(graph)
    simulation = schedule.simulate(graph)
    assert (simulation.cost, simulation.peak_bytes) == (17, 10)
    assert max(simulation.timeline) == simulation.timeline[simulation.peak_step] == 10
    verdict = schedule.verify(graph, 10)
    assert verdict
    assert (verdict.cost, verdict.peak_bytes) == (17, 10)
    tight = schedule.verify(graph, 9)
    assert not tight
    assert tight.why


def test_illegal_schedule_is_found_out() -> None:
    graph = chain(2)
    verdict = Schedule([Step("compute", 1)]).verify(graph)
    assert not verdict
    assert verdict.cost is None
    with pytest.raises(CheckmateError):
        Schedule([Step("compute", 1)]).simulate(graph)


def test_schedule_file(tmp_path: pathlib.Path) -> None:
    graph = chain(3)
    schedule = Schedule.baseline(graph)
    schedule.write(tmp_path / "s.json")
    assert Schedule.read(tmp_path / "s.json").steps == schedule.steps
    assert Schedule(schedule.steps).verify(graph)
