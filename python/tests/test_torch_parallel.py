# SPDX-License-Identifier: Apache-2.0
"""Layouts of a step over devices that are not there: what is enumerated, cut, simulated and planned."""

from __future__ import annotations

import itertools
import pathlib
import random
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.cost.collectives import Link, on_ring  # noqa: E402
from checkmate.torch.parallel import balance, planner, stages  # noqa: E402
from checkmate.torch.parallel.layouts import layouts  # noqa: E402

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no torch.distributed")

WIDTH, ROWS = 64, 32


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def _parts(blocks: int = 4) -> list[nn.Module]:
    with torch.device("meta"):
        return [nn.Linear(WIDTH, WIDTH), *(_Block() for _ in range(blocks)), nn.Linear(WIDTH, 8)]


def _inputs() -> tuple[Any]:
    return (torch.empty(ROWS, 16, WIDTH, device="meta"),)


def _styles() -> dict[str, Any]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return {"*.up": ColwiseParallel(), "*.down": RowwiseParallel()}


def _planned(devices: int = 4, batch: int = 16, **options: Any) -> ct.ParallelPlans:
    given: dict[str, Any] = {"device": "H100", "show": None, "time_limit": 0.5, "optimizer": torch.optim.AdamW} | options
    return ct.plan_parallel(given.pop("model") if "model" in given else _parts(), _inputs(), devices=devices, batch=batch, **given)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 2), (4, 8), (8, 8)])
def test_a_pipeline_of_equal_stages_takes_what_the_literature_says(schedule: str, stages: int, micro_batches: int) -> None:
    """(m + p - 1) (f + b): Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2."""
    ends = ct.pipeline_seconds(schedule, [1.0] * stages, [2.0] * stages, micro_batches)
    assert max(ends) == ends[0] == 3.0 * (micro_batches + stages - 1)


@pytest.mark.parametrize(("ranks", "local", "micro_batches"), [(2, 2, 4), (4, 2, 8), (4, 3, 16)])
def test_interleaved_stages_have_shorter_bubbles(ranks: int, local: int, micro_batches: int) -> None:
    """The bubble is 1/v of that of 1F1B with as many processes: Narayanan et al. 2021, section 2.2."""
    stages = ranks * local
    ends = ct.pipeline_seconds("interleaved", [1.0] * stages, [2.0] * stages, micro_batches, ranks=ranks)
    assert max(ends) == 3.0 * (local * micro_batches + ranks - 1)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_passes_wait_for_what_they_need(schedule: str) -> None:
    """Against the longest path through passes, their order in a process and what they need from others."""
    random.seed(1)
    for _ in range(20):
        stages, transfer = random.randint(1, 5), random.random()
        micro_batches = stages + random.randint(0, 4)
        forward, backward = ([random.random() for _ in range(stages)] for _ in range(2))
        before: dict[Any, list[tuple[Any, float]]] = {}
        last = []
        for stage in range(stages):
            order = ct.in_flight(schedule, stage, stages, micro_batches).order
            number = {"F": 0, "B": 0}
            names = []
            for letter in order:
                names.append((letter, stage, number[letter]))
                number[letter] += 1
            for previous, name in itertools.pairwise([None, *names]):
                letter, _stage, k = name
                before[name] = [] if previous is None else [(previous, 0.0)]
                if letter == "F" and stage > 0:
                    before[name].append((("F", stage - 1, k), transfer))
                if letter == "B" and stage < stages - 1:
                    before[name].append((("B", stage + 1, k), transfer))
            last.append(names[-1])
        over: dict[Any, float] = {}

        def end(name: Any, over: dict[Any, float] = over, before: Any = before, times: Any = (forward, backward)) -> float:
            if name not in over:
                over[name] = max([end(other) + more for other, more in before[name]], default=0.0) + times[name[0] == "B"][name[1]]
            return over[name]

        found = ct.pipeline_seconds(schedule, forward, backward, micro_batches, transfer=transfer)
        assert found == pytest.approx([end(name) for name in last])


def test_pipelines_that_are_none() -> None:
    with pytest.raises(ValueError, match="forward has 2 stages and backward 1"):
        ct.pipeline_seconds("1f1b", [1, 1], [1], 2)
    with pytest.raises(ValueError, match="micro_batches must be at least stages"):
        ct.pipeline_seconds("1f1b", [1, 1], [1, 1], 1)


@pytest.mark.parametrize(("devices", "batch", "parts"), [(8, 32, 6), (6, 12, 3), (1, 5, 4), (1024, 4096, 64)])
def test_layouts_use_all_devices_and_all_samples(devices: int, batch: int, parts: int) -> None:
    found = list(layouts(devices, batch, tensor=[1, 2, 4, 8], parts=parts))
    flat = [layout for alike in found for layout in alike]
    assert len(flat) == len(set(flat)) > 0
    for alike in found:
        assert [layout.micro_batch for layout in alike] == sorted((layout.micro_batch for layout in alike), reverse=True)
        for layout in alike:
            assert (layout.devices, layout.batch) == (devices, batch)
            assert layout.pipeline <= min(parts, layout.micro_batches)
            assert not layout.sharded or layout.devices == layout.data > 1


def test_an_even_cut_is_the_best_of_all() -> None:
    random.seed(2)
    for _ in range(30):
        weights = [random.randint(0, 9) for _ in range(random.randint(1, 9))]
        stages = random.randint(1, len(weights))
        ends = balance.even(weights, stages)

        def heaviest(ends: Any, weights: Any = weights) -> int:
            return max(sum(weights[a:b]) for a, b in itertools.pairwise([0, *ends]))

        assert ends[-1] == len(weights)
        assert all(a < b for a, b in itertools.pairwise([0, *ends]))
        every = [(*inner, len(weights)) for inner in itertools.combinations(range(1, len(weights)), stages - 1)]
        assert heaviest(ends) == min(map(heaviest, every))


def test_parts_move_away_from_the_slowest_stage() -> None:
    """Where the first part costs more than its weight, as it does when it is computed again, its stage keeps fewer of the others."""

    def slowest(ends: list[int]) -> tuple[tuple[int, float], int, bool]:
        times = [sum(4 if part == 0 else 1 for part in range(a, b)) for a, b in itertools.pairwise([0, *ends])]
        return (0, max(times)), times.index(max(times)), False

    assert balance.improved([3, 6], slowest) == [2, 6]
    assert balance.improved([3, 6], lambda ends: ((0, 1.0), 0, True)) == [3, 6]


def test_a_ring_sends_each_byte_once_or_twice() -> None:
    assert on_ring(1000, 4) == 750
    assert on_ring(1000, 4, reduced_and_gathered=True) == 1500
    assert on_ring(1000, 1) == 0
    assert Link(1e3, 0.5).seconds(2e3, 2) == 3.0


@pytest.mark.slow
def test_all_ways_of_four_devices() -> None:
    lines: list[str] = []
    found = _planned(tensor=_styles(), show=lines.append)
    ways = {(row.layout.data, row.layout.tensor, row.layout.pipeline, row.layout.sharded) for row in found.rows}
    assert ways == {(4, 1, 1, False), (4, 1, 1, True), (2, 1, 2, False), (1, 1, 4, False), (2, 2, 1, False), (1, 2, 2, False), (1, 4, 1, False)}
    times = [row.step_seconds for row in found.rows]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert found.best is found.rows[0]
    by_way = {(row.layout.data, row.layout.tensor, row.layout.pipeline, row.layout.sharded): row for row in reversed(found.rows)}
    assert by_way[4, 1, 1, True].peak_bytes < by_way[4, 1, 1, False].peak_bytes
    assert by_way[1, 1, 4, False].idle > by_way[1, 2, 2, False].idle > by_way[1, 4, 1, False].idle == 0
    assert len(by_way[1, 1, 4, False].ends) == 4
    assert by_way[1, 1, 4, False].ends[-1] == 6
    assert not dist.is_initialized()
    assert str(found) in "\n".join(lines)
    assert "nothing was measured" in str(found)
    assert "parameters are float32" in str(found)
    assert by_way[1, 4, 1, False].exchange_seconds > 0 < by_way[4, 1, 1, True].exchange_seconds


def test_less_memory_takes_more_computation_and_then_there_is_no_layout() -> None:
    free = _planned(devices=1, batch=32)
    assert free.best is not None
    assert free.best.overhead == 0
    tight = _planned(devices=1, batch=32, budget=int(0.8 * free.best.peak_bytes), only=lambda layout: layout.micro_batch == 32, time_limit=3)
    assert tight.best is not None
    assert tight.best.peak_bytes <= 0.8 * free.best.peak_bytes
    assert tight.best.overhead > 0
    assert tight.best.overhead >= tight.best.least_overhead >= 0
    assert tight.best.step_seconds > free.best.step_seconds
    none = _planned(budget="100kB", tensor=_styles())
    assert none.best is None
    assert all("of parameters, gradients and the optimizer's state" in row.why and not row.refused for row in none.rows)
    assert "no plan within 100 kB" in str(none)


def test_a_module_is_no_pipeline_and_its_data_stays() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(_Block() for _ in range(2))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x.square().mean()

    model = Whole()
    before = {name: p.clone() for name, p in model.named_parameters()}
    found = _planned(devices=2, batch=4, model=model)
    assert {row.layout.pipeline for row in found.rows} == {1}
    assert any("no pipelines" in note for note in found.notes)
    assert any("no tensor parallelism" in note for note in found.notes)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_what_a_layout_refuses_is_its_reason() -> None:
    class Typed(nn.Linear):
        def forward(self, x: Any) -> Any:
            if torch.distributed.is_initialized():
                raise ValueError("not in a job")
            return super().forward(x)

    with torch.device("meta"):
        parts = [Typed(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)]
    found = _planned(devices=2, batch=4, model=parts)
    refused = [row for row in found.rows if row.refused]
    assert {(row.layout.sharded, row.why) for row in refused} == {(True, refused[0].why)}
    assert "not in a job" in refused[0].why
    assert "refused:" in str(found)
    assert found.best is not None
    assert not dist.is_initialized()


def test_a_part_that_stands_twice_is_two_parts() -> None:
    with torch.device("meta"):
        block, act = _Block(), nn.ReLU()
        parts = [nn.Linear(WIDTH, WIDTH), act, block, act, block, act, nn.Linear(WIDTH, 8)]
    found = _planned(model=parts, sharded=False)
    assert not [row for row in found.rows if row.refused]
    assert {row.ends[-1] for row in found.rows} == {7}


class _Tab(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(rows, 1))
        self._rows, self.times, self.call = rows, [rows], lambda x: x * rows


def test_parts_are_alike_only_where_everything_is() -> None:
    same = [_Block(), _Block()]
    assert stages.signature(same[0]) == stages.signature(same[1])
    tabs = [_Tab(2), _Tab(2), _Tab(3)]
    for left in ([], ["call"], ["call", "_rows"], ["call", "_rows", "table"]):
        for tab in tabs:
            for name in left:
                if name in ("call", "_rows") and hasattr(tab, name):
                    delattr(tab, name)
                elif name == "table":
                    tab.table = torch.ones(1)
        alike = stages.signature(tabs[0]) == stages.signature(tabs[1])
        assert alike == bool(left), left
        assert stages.signature(tabs[0]) != stages.signature(tabs[2]), left
    other = _Block()
    other.up.weight.requires_grad_(False)
    assert stages.signature(other) != stages.signature(same[0])


def test_budgets_are_of_the_device() -> None:
    share = _planned(devices=1, batch=4, budget="50%", only=lambda layout: layout.micro_batch == 4)
    assert share.memory_bytes == 40_000_000_000
    assert share.best is not None
    for budget in ("auto", "min"):
        with pytest.raises(ValueError, match="is of a process that is here"):
            _planned(budget=budget)


def test_what_torch_compile_made_is_its_model() -> None:
    found = _planned(devices=2, batch=4, model=torch.compile(_Block()))
    assert not [row for row in found.rows if row.refused]


def test_styles_that_are_nobodys() -> None:
    with pytest.raises(ValueError, match=r"no module is called as tensor= has it: '\*.nothing'"):
        _planned(tensor={"*.nothing": next(iter(_styles().values()))})
    assert not dist.is_initialized()


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_buffers_are_held_by_every_device(device: str) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(1000, WIDTH))
            self.block = _Block()

        def forward(self, x: Any) -> Any:
            return self.block(x * self.scale[0])

    class Plain(Scaled):
        def __init__(self) -> None:
            super().__init__()
            self.scale = self.scale[:1].clone()

    peaks = []
    for kind in (Scaled, Plain):
        with torch.device(device):
            found = _planned(devices=2, batch=32, model=nn.Sequential(kind(), nn.Linear(WIDTH, 8)), only=lambda layout: layout.sharded)
        assert found.best is not None
        peaks.append(found.best.peak_bytes)
    assert peaks[0] - peaks[1] == 1000 * WIDTH * 4 - 512  # of the one row, as the allocator has it


def test_keyword_arguments_of_a_whole_model() -> None:
    class Keyword(_Block):
        def forward(self, *, x: Any) -> Any:
            return super().forward(x).square().mean()

    found = ct.plan_parallel(Keyword(), {"x": _inputs()[0]}, device="H100", devices=2, batch=4, show=None)
    assert {row.layout.sharded for row in found.rows if row.step_seconds} == {False, True}
    with pytest.raises(TypeError, match="by position"):
        ct.plan_parallel(_parts(), {"x": _inputs()[0]}, device="H100", devices=2, batch=4)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    row = planner._Planner.row
    seen: list[Any] = []

    def interrupted(self: Any, layout: Any) -> Any:
        seen.append(layout)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return row(self, layout)

    monkeypatch.setattr(planner._Planner, "row", interrupted)
    found = _planned()
    assert len(found.rows) == 2
    assert "interrupted" in found.notes[0]


@pytest.mark.parametrize(("options", "kind", "text"), [
    ({"schedule": "interleaved"}, ValueError, 'schedule must be "1f1b" or "gpipe"'),
    ({"devices": 0}, ValueError, "devices must be an integer"),
    ({"batch": True}, ValueError, "batch must be an integer"),
    ({"batch": 3}, ValueError, "cannot be shared by 4 devices"),
    ({"device": "Xeon"}, ValueError, "how much memory Xeon has is not known"),
    ({"device": "B200"}, ValueError, "no model of a device"),
    ({"compiler": "inductor"}, ValueError, "leave compiler out"),
])  # fmt: skip
def test_what_makes_no_sense(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        _planned(sharded=False, **options) if "batch" in options else _planned(**options)


def test_inputs_that_are_none() -> None:
    with pytest.raises(TypeError, match="inputs must be a tuple"):
        ct.plan_parallel(_parts(), _inputs()[0], device="H100", devices=2, batch=2)
    with pytest.raises(ValueError, match="must have a tensor whose first dimension counts samples"):
        ct.plan_parallel(_parts(), (), device="H100", devices=2, batch=2)


def test_the_readme_says_how() -> None:
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "plan_parallel" in block]
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    names = {"checkmate": checkmate, "torch": torch, "parts": _parts(1), "tokens": _inputs()[0], "ColwiseParallel": ColwiseParallel,
             "RowwiseParallel": RowwiseParallel}  # fmt: skip
    exec(code, names)  # noqa: S102 - of this repository
    assert names["plans"].best.layout.devices == 64
