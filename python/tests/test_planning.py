# SPDX-License-Identifier: Apache-2.0
"""What front ends share, without any of them: budgets as people write them, figures for people, schedules kept by name."""

from __future__ import annotations

import itertools
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

import checkmate
from checkmate import CheckmateError, Graph, Schedule, Step
from checkmate.planning import budget, least, named, plan_cache, structure
from checkmate.planning.device import Work, find
from checkmate.planning.figure import _fitted, _ticks, frontier_svg
from checkmate.planning.frontier import seconds, size
from checkmate.planning.least import longest
from checkmate.planning.repeats import Repeats


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("123", 123), ("1b", 1), ("1.5kB", 1500), ("2 MB", 2_000_000), ("3GB", 3 * 10**9), ("1tb", 10**12), ("4k", 4000), ("4m", 4 * 10**6),
     ("4g", 4 * 10**9), ("1KiB", 1024), ("3MiB", 3 * 2**20), (" 4GiB ", 2**32), ("1TiB", 2**40), ("1e3", 1000)],
)  # fmt: skip
def test_bytes_as_people_write_them(text: str, size_bytes: int) -> None:
    assert budget.parse_bytes(text) == size_bytes
    assert budget.in_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "GB", "4XB", "many", "0", "-1kB", "1e400", "nan", "9223372036854775808", "-5%", "0%", "inf%", "x%", "60% of",
                                  "60%of", "60% of peak", "60% of activationss", "% of activations", "-6%act", "60%%", "60% of of act"])  # fmt: skip
def test_texts_that_are_no_budget(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|positive|2\*\*63"):
        budget.in_bytes(text, baseline_bytes=1000)


def test_shares_and_numbers() -> None:
    assert budget.in_bytes("60%", baseline_bytes=1005) == 603
    assert budget.in_bytes(" 150.5% ", baseline_bytes=1000) == 1505
    assert budget.is_share("0.5%") and not budget.is_share("5") and not budget.is_share(0.5)
    for text in ("60% of activations", "60%act", " 60 % OF Activation ", "60%a", "60% activations"):
        assert budget.in_bytes(text, baseline_bytes=1000, standing_bytes=900) == 960, text
        assert budget.is_share(text)
    assert budget.in_bytes("60%", baseline_bytes=1000, standing_bytes=900) == 600
    assert budget.in_bytes(1) == 1
    assert budget.in_bytes(4.9) == 4
    assert budget.in_bytes(2**63 - 1) == 2**63 - 1
    assert budget.in_bytes("9007199254740993") in (9007199254740992, 9007199254740993)
    for bad, why in ((0, "positive"), (-3, "positive"), (float("inf"), "positive"), (0.6, '"60%"'), (2**63, "2\\*\\*63")):
        with pytest.raises(ValueError, match=why):
            budget.in_bytes(bad)
    for value in (True, None, [4]):
        with pytest.raises(TypeError, match="budget must be bytes"):
            budget.in_bytes(value)  # type: ignore[arg-type]


def test_auto_is_nine_tenths_of_what_is_free_and_what_is_held() -> None:
    assert budget.in_bytes("auto", held_bytes=7, free_bytes=lambda: 1001) == 900 + 7
    assert budget.in_bytes(" auto ", free_bytes=lambda: 1000) == 900


def test_what_is_free_is_the_less_of_kernel_and_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/meminfo": ["MemTotal: 100 kB", "MemAvailable:      50 kB"]}
    monkeypatch.setattr(budget, "_lines", lambda path: files.get(path, []))
    assert budget.free_host_bytes() == 50 * 1024
    files |= {"/sys/fs/cgroup/memory.max": ["30000"], "/sys/fs/cgroup/memory.current": ["10000"]}
    assert budget.free_host_bytes() == 20000
    files["/sys/fs/cgroup/memory.current"] = ["30001"]
    assert budget.free_host_bytes() == 0
    files["/sys/fs/cgroup/memory.max"] = ["max"]
    assert budget.free_host_bytes() == 50 * 1024
    del files["/sys/fs/cgroup/memory.max"]
    assert budget.free_host_bytes() == 50 * 1024
    files.clear()
    with pytest.raises(CheckmateError, match="not known"):
        budget.free_host_bytes()


def test_an_error_about_a_share_says_what_is_no_activation() -> None:
    assert budget.in_shares("60%", 1000, 900, 947) == (
        "; of 1,000 bytes without rematerialization 900 are there whatever is computed again, such as parameters and their gradients, and "
        '100 are activations: budget="47% of activations" works'
    )
    assert budget.in_bytes("47% of activations", baseline_bytes=1000, standing_bytes=900) >= 947
    assert budget.in_bytes("50%act", baseline_bytes=1000) == 500
    assert budget.in_shares("60%act", 1000, 900, None).endswith("and 100 are activations")
    assert [budget.in_shares("60%", 1000, 1000, 947), budget.in_shares(600, 1000, 900, 947), budget.in_shares("min", 1000, 900, 947)] == [""] * 3


def test_sizes_and_times_for_people() -> None:
    assert [size(n) for n in (0, 999, 1000, 9994, 9996, 99_940, 99_960, 999_499, 999_500, 725_000_000, 10**18)] == [
        "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "99.9 kB", "100 kB", "999 kB", "1.00 MB", "725 MB", "1000 PB",
    ]  # fmt: skip
    assert [seconds(n) for n in (1, 999, 1000, 99_960, 1_280_000_000, 10**13)] == ["1.00 ns", "999 ns", "1.00 us", "100 us", "1.28 s", "10000 s"]


def test_the_longest_search() -> None:
    assert longest(10) == 2 * 10 + 6 * 10
    assert longest(1) == 3 + 6  # the first has three seconds at least
    assert (longest(1, 0), longest(10, 2)) == (1, 2 * 10 + 2 * 10)


def test_a_search_stops_close_to_what_is_needed_and_after_so_many_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, solves = chain(), []

    def solve(*given: Any, **options: Any) -> Any:
        solves.append(options["time_limit"])
        return checkmate.solve(*given, **options)

    monkeypatch.setattr(least, "solve", solve)
    needed = graph.memory_floor
    options: Any = SimpleNamespace(strategy="auto", gap=0.0, threads=1, seed=1, progress=None, say=lambda _line: None)
    for real, most, expected in ((needed, 6, range(1)), (2 * needed, 0, range(1, 3)), (2 * needed, 2, range(1, 3)), (2 * needed, 6, range(3, 7))):
        solves.clear()
        schedule, claim = least.search(graph, options, 0.1, lambda _schedule, real=real: real, most)  # type: ignore[misc]
        assert schedule.verify(graph, needed)
        assert claim.needed_bytes == needed
        assert len(solves) in expected, (real, most)
        assert most > 0 or sum(solves) <= 0.1  # what the first search has left of its time


def test_what_a_little_more_memory_than_the_least_saves(tmp_path: pathlib.Path) -> None:
    """A chain whose forward values are all needed in reverse order: with less memory they are computed again and again."""
    n = 16
    graph = Graph("there and back", fixed_bytes=1000)
    for i in range(2 * n):
        graph.tensor(bytes=100)
        graph.op(name=f"op{i}", cost=1, inputs=([i - 1] if i else []) + ([2 * n - 1 - i] if i > n else []), outputs=[i])
    graph.result(2 * n - 1)
    graph.finish()
    found = checkmate.min_budget(graph, time_limit=1.0)
    overhead = found.schedule.simulate(graph).cost / graph.total_cost - 1
    options: Any = SimpleNamespace(gap=0.0, threads=1, seed=1)
    more = least.beyond(graph, found.schedule, options, 1.0)
    budgets = [found.budget_bytes, *(n.budget_bytes for n in more)]
    assert budgets == sorted(set(budgets))
    overheads = [overhead, *(n.overhead for n in more)]
    assert len(more) > 0
    assert all(a - b > 0.049 for a, b in itertools.pairwise(overheads)), overheads
    for entry in more:
        assert checkmate.solve(graph, entry.budget_bytes, time_limit=1.0).require().overhead == pytest.approx(entry.overhead, abs=0.5)
    text = least.lines(more, found.budget_bytes, overhead)
    assert f"budget={more[0].budget_bytes:,}: {100 * more[0].overhead:.1f} % more computation was found, not {100 * overhead:.1f} %" in text[0]
    assert least.beyond(graph, found.schedule, options, 1.0, lambda _schedule: 7) == (), "what runs in no more than the least is no more memory"
    kept = tmp_path / "more.json"
    assert least.kept(kept, lambda: more) == more
    assert least.kept(kept, tuple) == more and least.kept(None, tuple) == (), "what is on disk is not searched for"
    kept.unlink()
    assert least.load(kept) is None
    kept.write_text('[{"budget_bytes": 5, "overhead": 0.5}]')
    assert least.load(kept) == (least.Next(5, 0.5),)
    kept.write_text('[{"budget_bytes": 5}]')
    assert least.load(kept) is None
    baseline = Schedule.baseline(graph)
    assert least.beyond(graph, baseline, options, 0.1) == (), "there is nothing above keeping everything"


def chain(cost: int = 1) -> Graph:
    graph = Graph("chain")
    for i in range(3):
        graph.tensor(bytes=4 + i)
        graph.op(name=f"op{i}", cost=cost, inputs=[i - 1] if i else [], outputs=[i])
    graph.result(2)
    return graph.finish()


def in_order(last: int = 1) -> Schedule:
    return Schedule([Step("compute", 0), Step("compute", 1), Step("free", 0), Step("compute", 2), Step("free", last)])


def test_structure_does_not_depend_on_costs() -> None:
    assert structure.digest(chain()) == structure.digest(chain(7))
    assert structure.digest(chain()) != structure.digest(chain(), "more")
    assert structure.digest_with_costs(chain()) != structure.digest_with_costs(chain(7))


def test_what_was_named_is_known_in_the_process_and_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "_SCHEDULES", type(named._SCHEDULES)())
    graph = chain()
    assert named.recall(graph, "front", on_disk=True) is None
    named.remember(graph, in_order(), "front", on_disk=False)
    assert named.recall(chain(7), "front", on_disk=False) is not None  # whatever the costs
    assert named.recall(graph, "another", on_disk=True) is None
    named._SCHEDULES.clear()
    assert named.recall(graph, "front", on_disk=True) is None
    named.remember(graph, in_order(), "front", on_disk=True)
    named._SCHEDULES.clear()
    assert named.recall(graph, "front", on_disk=False) is None
    found = named.recall(graph, "front", on_disk=True)
    assert found is not None and found.steps == in_order().steps
    named.remember(graph, Schedule([Step("compute", 0)]), "front", on_disk=False)
    assert named.recall(graph, "front", on_disk=False) is None  # the verifier refuses it


def test_only_so_many_are_kept_and_the_first_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "_SCHEDULES", type(named._SCHEDULES)())
    monkeypatch.setattr(named, "_MOST", 2)
    for front in ("a", "b", "a", "c"):
        named.remember(chain(), in_order(), front, on_disk=False)
    assert [front for front, _ in named._SCHEDULES] == ["a", "c"]


def test_a_plan_on_disk_is_used_only_as_it_was_written(tmp_path: pathlib.Path) -> None:
    path, graph = tmp_path / "plans" / "plan.json", chain()
    assert plan_cache.load(path, graph, 15) is None
    plan_cache.store(path, in_order(), plan_cache.Claim("optimal", 3.0))
    loaded = plan_cache.load(path, graph, 11)  # t1 and t2
    assert loaded is not None and loaded[0].steps == in_order().steps and loaded[1] == plan_cache.Claim("optimal", 3.0)
    assert plan_cache.load(path, graph, 10) is None
    path.write_text(path.read_text().replace("optimal", "feasible"))
    assert plan_cache.load(path, graph, 15) is None
    assert plan_cache.path_of(graph, 1, ()) != plan_cache.path_of(graph, 2, ())
    assert plan_cache.path_of(graph, 1, ()) != plan_cache.path_of(chain(7), 1, ())


def test_averages_and_sums_of_what_repeats() -> None:
    graph = chain(6)
    assert Repeats(frozenset({0, 2}), 2).cost(graph) == 6
    assert Repeats(frozenset(), 0).cost(graph) == 1
    assert Repeats(frozenset({0, 1}), 2).largest(graph) == 5
    assert Repeats(frozenset(), 2).largest(graph) == 0
    assert Repeats(frozenset({0, 1}), 2).allow(in_order()) and not Repeats(frozenset({0, 1}), 1).allow(in_order())
    assert [op.cost for op in Repeats(frozenset({1}), 1).priced(graph, 4).ops] == [6, 10, 6]


def test_ticks_are_round_and_within() -> None:
    assert _ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert _ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert _ticks(0, 7) == [0, 1, 2, 3, 4, 5, 6, 7] and _ticks(0, 7.1) == [0, 2, 4, 6]
    assert _ticks(0, 9.999) == [0, 2, 4, 6, 8] and all(2 <= len(_ticks(0, 10 ** (i / 7))) <= 8 for i in range(-30, 60))
    assert _ticks(130, 470) == [150, 200, 250, 300, 350, 400, 450]
    assert _fitted("x" * 78, 12) == "x" * 78
    assert _fitted("x" * 79, 12) == "x" * 77 + "\u2026"


def test_a_figure_has_its_points_where_they_are() -> None:
    svg = frontier_svg("t", [(50.0, 20.0), (100.0, 0.0)], [(50.0, 10.0)], 40.0)
    # From 0.9 * 40 to 1.02 * 100 MB over 556 pixels from 64 on; from 0 to 22 % over 308 pixels from 348 up.
    assert 'cx="181.9" cy="68.0"' in svg and 'cx="603.2" cy="348.0"' in svg
    assert 'd="M181.9,68.0 H603.2V348.0"' in svg
    assert 'd="M181.9,208.0"' in svg


def test_devices_by_name() -> None:
    v100 = find("v100")
    assert v100.name == "V100" and v100.is_gpu and not v100.has_tf32 and not find("Xeon").is_gpu
    assert find("A100").has_tf32 and v100 == find("V100") != find("A100")
    assert v100.half_rates["float16"] > v100.matrix_rate and v100.half_rates["bfloat16"] == 0
    assert list(v100.efficiency) == ["conv3", "matrix", "grouped", "stream"] and all(share > 0 for share in v100.efficiency.values())
    # What it only streams takes the bytes' time at that efficiency, and each kernel a little more.
    once, twice = (v100.nanoseconds(Work("stream", "float32", 0.0, 1e9, n)) for n in (1.0, 2.0))
    assert 0 < twice - once < 1e5
    assert 2 * once - twice == pytest.approx(1e9 / (v100.bytes_per_s * v100.efficiency["stream"]) * 1e9)
    assert v100.nanoseconds(Work("stream", "float32", 1e15, 1e9)) == once
    assert v100.nanoseconds(Work("matrix", "float16", 1e13, 0.0)) < v100.nanoseconds(Work("matrix", "float32", 1e13, 0.0))
    for wrong in ("", "V1000", "V100\0"):
        with pytest.raises(ValueError, match=r"no model of a device .*; there are V100, K80"):
            find(wrong)
    with pytest.raises(TypeError, match="name of one"):
        find(100)  # type: ignore[arg-type]
