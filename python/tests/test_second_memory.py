# SPDX-License-Identifier: Apache-2.0
"""A second memory in Python: graphs and schedules keep it, and a schedule that moves is found and checked."""

import pathlib
import pickle
import shutil

import pytest

import checkmate


def chain(n: int = 6, memory: bool = True) -> checkmate.Graph:
    """Layers of 100 bytes and 1,000 ns; backward, each reads what its layer gave. A transfer takes as long as a layer."""
    g = checkmate.Graph("chain", cost_unit="ns")
    x = g.tensor(bytes=1, name="in")
    outputs = [x]
    for _ in range(n):
        y = g.tensor(bytes=100)
        g.op(cost=1000, inputs=[outputs[-1]], outputs=[y])
        outputs.append(y)
    grad = outputs[-1]
    for y in reversed(outputs[1:]):
        d = g.tensor(bytes=100)
        g.op(cost=1000, kind="backward", inputs=[grad, y], outputs=[d])
        grad = d
    g.result(grad)
    if memory:
        g.second_memory = checkmate.SecondMemory(out_bytes_per_second=200_000_000, in_bytes_per_second=200_000_000, latency_ns=10)
    return g


def test_a_graph_keeps_it() -> None:
    g = chain()
    memory = checkmate.SecondMemory(200_000_000, 200_000_000, 10)
    assert g.second_memory == memory
    again = pickle.loads(pickle.dumps(g))
    assert again.second_memory == memory
    assert again.to_json() == g.to_json()
    assert checkmate.Graph("plain").second_memory is None
    with pytest.raises(checkmate.CheckmateError, match="out_bytes_per_second"):
        checkmate.Graph("g", cost_unit="ns").second_memory = checkmate.SecondMemory(0, 1)


def test_loads_are_kept() -> None:
    g = checkmate.Graph("load", cost_unit="ns")
    w = g.tensor(bytes=8)
    g.op(cost=5, kind="load", load_bytes=4, inputs=[], outputs=[w])
    again = pickle.loads(pickle.dumps(g))
    assert (again.ops[0].kind, again.ops[0].load_bytes) == ("load", 4)


def test_moving_is_found_where_it_is_cheaper(tmp_path: pathlib.Path) -> None:
    g = chain()
    plain = chain(memory=False)
    recomputed = checkmate.solve(plain, budget=500, time_limit=1)
    moved = checkmate.solve(g, budget=500, time_limit=2)
    assert moved.schedule is not None and recomputed.schedule is not None
    assert moved.cost < recomputed.cost
    kinds = {step.kind for step in moved.schedule.steps}
    assert {"out", "in", "wait_out", "wait_in"} <= kinds
    verdict = moved.schedule.verify(g, 500)
    assert verdict and verdict.second_peak_bytes
    assert moved.schedule.simulate(g).second_peak_bytes == verdict.second_peak_bytes
    again = checkmate.Schedule(moved.schedule.steps)
    assert again.verify(g, 500).cost == moved.cost
    if shutil.which("gnuplot"):
        lanes = tmp_path / "transfers.svg"
        moved.schedule.figure(g, "transfers", str(lanes))
        assert "waits for a copy" in lanes.read_text() or "back" in lanes.read_text()


def test_the_smallest_budget_moves() -> None:
    least = checkmate.min_budget(chain(), time_limit=2)
    assert least.budget_bytes <= checkmate.min_budget(chain(memory=False), time_limit=2).budget_bytes
    assert least.schedule.verify(chain(), least.budget_bytes)
