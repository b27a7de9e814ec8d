# SPDX-License-Identifier: Apache-2.0
"""The least budget: what an error names works, and `budget="min"` finds it."""

from __future__ import annotations

import copy
import itertools
import pathlib
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from models import Broken, make  # noqa: E402
from steps import gradients  # noqa: E402
from test_torch_outputs import SHAPES, made, scalar  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.planning import least  # noqa: E402
from checkmate.planning import named as named_schedules  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402
from checkmate.torch.plan import fit_within, solving  # noqa: E402
from checkmate.torch.plan.fit import keeping_all  # noqa: E402

OPTIONS: dict[str, Any] = {"time_limit": 0.5}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cache"), [("gpt", True), ("two_losses", False), ("logits", True)])
def test_the_budget_that_an_error_names_works(name: str, cache: bool) -> None:
    model, inputs = made(SHAPES["tuple"]) if name == "logits" else make(name)
    with pytest.raises(checkmate.InfeasibleError, match=r"no schedule .* budget=[\d,]+ works, with [\d.]+ % more") as caught:
        ct.compile(model, "1MB", cache=cache, **OPTIONS)(*inputs)
    named = caught.value.smallest_known
    assert named is not None
    assert f"budget={named:,} works" in str(caught.value)
    assert caught.value.budget_bytes <= caught.value.largest_impossible < named
    torch._dynamo.reset()
    compiled = ct.compile(model, named, cache=cache, **OPTIONS)
    scalar(compiled(*inputs))
    model.zero_grad(set_to_none=True)
    (plan,) = ct.plans(compiled)
    assert plan.peak_bytes <= plan.budget_bytes == named
    held: list[Any] = []

    def step() -> None:
        held[:] = [compiled(*inputs)]
        scalar(held[0])

    assert meter.peak_bytes(step, model, inputs) <= named


@pytest.mark.slow
@pytest.mark.parametrize(("in_flight", "cache"), [(None, False), (None, True), (3, False)])
def test_the_budget_that_an_error_names_works_where_no_search_finds_it_again(
    in_flight: int | None, cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a second search may miss what the first one found: what was named is kept, on disk for another process."""
    model = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(64, 64), torch.nn.Tanh())))
    x = torch.randn(256, 64)
    options = OPTIONS | {"cache": cache, "in_flight": in_flight}
    with pytest.raises(checkmate.InfeasibleError, match=r"budget=[\d,]+ works") as caught:
        ct.compile(model, "5%", **options)(x).sum().backward()

    def nothing(graph: Any, limit: int, options: Any, start: Any = None) -> Any:
        raise checkmate.InfeasibleError("too late", proven=False, budget_bytes=limit, smallest_known=None, largest_impossible=0)

    if cache:
        named_schedules._SCHEDULES.clear()
    solve = solving.solve_together
    monkeypatch.setattr(solving, "solve_together", lambda *given: (solve if len(given) > 3 and given[3] is not None else nothing)(*given))
    torch._dynamo.reset()
    enough = caught.value.smallest_known
    assert enough is not None
    compiled = ct.compile(model, enough, **options)
    compiled(x).sum().backward()
    assert ct.plans(compiled)[0].peak_bytes <= enough
    torch._dynamo.reset()
    named_schedules._SCHEDULES.clear()
    with pytest.raises(checkmate.InfeasibleError):
        ct.compile(model, caught.value.largest_impossible, **options)(x)


def test_what_the_search_does_not_find_in_time_is_looked_for_harder(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = solving.solve_together

    def late(graph: Any, limit: int, options: Any, start: Any = None) -> Any:
        if start is None:
            raise checkmate.InfeasibleError("late", proven=False, budget_bytes=limit, smallest_known=None, largest_impossible=0)
        return solve(graph, limit, options, start)

    model, inputs = make("perceptron")
    monkeypatch.setattr(solving, "solve_together", late)
    compiled = ct.compile(model, "70%", time_limit=2)
    compiled(*inputs).backward()
    (plan,) = ct.plans(compiled)
    assert plan.peak_bytes <= plan.budget_bytes == plan.baseline_peak_bytes * 7 // 10
    with pytest.raises(checkmate.InfeasibleError, match=r"no schedule fits.*budget=[\d,]+ works, with 0\.0 % more") as caught:
        torch._dynamo.reset()
        ct.compile(model, "1MB", cache=False, time_limit=2)(*inputs)
    assert caught.value.smallest_known == plan.baseline_peak_bytes, "nothing less was found by the search alone"


def test_a_share_of_activations_where_weights_are_most() -> None:
    """A percentage of the peak cannot fit then: the error says how much of it are activations, and which share of these works."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.rest = torch.nn.Linear(1024, 1024), torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(8)))

        def forward(self, x: Any) -> Any:
            return self.rest(self.head(x).repeat(128, 4)).square().mean()

    model, x = Model(), torch.randn(1, 1024)
    with pytest.raises(checkmate.InfeasibleError, match=r'are activations: budget="\d+% of activations" works') as caught:
        ct.compile(model, "25%", **OPTIONS)(x)
    share = re.search(r'budget="(\d+% of activations)"', str(caught.value))
    assert share is not None
    torch._dynamo.reset()
    compiled = ct.compile(model, share[1], **OPTIONS)
    compiled(x).backward()
    (plan,) = ct.plans(compiled)
    held = 2 * sum(p.nbytes for p in model.parameters()) + x.nbytes
    assert held <= plan.graph.standing_bytes <= held + 64
    assert plan.peak_bytes <= plan.budget_bytes < plan.baseline_peak_bytes
    assert (
        plan.budget_bytes == plan.graph.standing_bytes + int(share[1].split("%")[0]) * (plan.baseline_peak_bytes - plan.graph.standing_bytes) // 100
    )


def test_what_is_proven_is_said_before_anything_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where a budget is proven too small, the search for one that works is one search of the seconds of a solve."""
    model, inputs = make("resnet")
    lines: list[str] = []
    solves: list[float] = []
    search = least.min_budget

    def searched(*given: Any, **options: Any) -> Any:
        lines.append("search")
        solves.append(options["time_limit"])
        return search(*given, **options)

    monkeypatch.setattr(least, "min_budget", searched)
    monkeypatch.setattr(least, "solve", lambda *_given, **_options: pytest.fail("one search is enough"))
    with pytest.raises(checkmate.InfeasibleError, match="no schedule fits") as caught:
        ct.compile(model, "1MB", progress=lines.append, **OPTIONS)(*inputs)
    assert solves == [OPTIONS["time_limit"]]
    said = next(i for i, line in enumerate(lines) if "no schedule fits 1,000,000 bytes; " in line)
    floor = int(lines[said].split("; ")[1].split()[0].replace(",", ""))
    assert said < lines.index("search")
    assert 1_000_000 < floor <= caught.value.largest_impossible


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder", "perceptron", "resnet"])
def test_the_least_budget(name: str) -> None:
    model, inputs = make(name)
    start = copy.deepcopy(model.state_dict())
    expected = gradients(model, model, *inputs)
    model.load_state_dict(start)
    lines: list[str] = []
    compiled = ct.compile(model, "min", progress=lines.append, **OPTIONS)
    assert all(torch.equal(a, b) for a, b in zip(gradients(model, compiled, *inputs), expected, strict=True))
    (plan,) = ct.plans(compiled)
    assert plan.peak_bytes <= plan.budget_bytes < plan.baseline_peak_bytes
    assert plan.overhead > 0
    assert any("the least" in line for line in lines)
    model.zero_grad(set_to_none=True)
    assert meter.peak_bytes(lambda: compiled(*inputs).backward(), model, inputs) <= plan.budget_bytes
    torch._dynamo.reset()
    again = ct.compile(model, plan.budget_bytes, **OPTIONS)
    again(*inputs)
    assert ct.plans(again)[0].peak_bytes <= plan.budget_bytes


def test_what_a_little_more_memory_saves(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With estimates: where a busy machine makes one measured operator dearer than all others, more memory may save nothing."""
    model, inputs = make("resnet")
    for seconds in (0.5, 2, 8):
        torch._dynamo.reset()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"{seconds} s"))
        lines: list[str] = []
        compiled = ct.compile(model, "min", progress=lines.append, time_limit=seconds, costs="estimate")
        compiled(*inputs)
        (plan,) = ct.plans(compiled)
        if plan.next_budgets:
            break
    assert plan.next_budgets
    costs = [plan.overhead, *(n.overhead for n in plan.next_budgets)]
    assert plan.budget_bytes < min([n.budget_bytes for n in plan.next_budgets], default=plan.baseline_peak_bytes)
    assert all(a >= b + 0.05 - 1e-9 for a, b in itertools.pairwise(costs)), "what a little more memory saves"
    assert sum("more memory, budget=" in line for line in lines) == len(plan.next_budgets)


def test_the_least_is_of_one_graph() -> None:
    with pytest.raises(ValueError, match="in bytes"):
        ct.compile(Broken(), "min", graph_breaks="split")


@pytest.mark.parametrize("cache", [False, True])
def test_an_error_names_no_more_than_a_plan_that_was_found(cache: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the least, on a busy machine, may miss what a search within a budget found."""
    model = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(64, 64), torch.nn.Tanh())))
    x = torch.randn(300, 64)
    before = ct.compile(model, "80% of activations", **OPTIONS, cache=cache)
    before(x).sum().backward()
    (found,) = ct.plans(before)
    monkeypatch.setattr(fit_within, "least_of_all", lambda joint, traced, _solves: keeping_all(joint, 1 << 40, traced))
    model.zero_grad()
    torch._dynamo.reset()
    with pytest.raises(checkmate.InfeasibleError, match=r"budget=[\d,]+ works") as caught:
        ct.compile(model, "5%", **OPTIONS, cache=cache)(x)
    named = caught.value.smallest_known
    assert named is not None and found.peak_bytes < found.baseline_peak_bytes
    # Without the disk another process has to find it: if it may need more for that, both are named.
    here = re.search(r"\(([\d,]+) in this process", str(caught.value))
    least_here = named if here is None else int(here[1].replace(",", ""))
    assert least_here <= found.peak_bytes and (here is None or not cache)
    torch._dynamo.reset()
    again = ct.compile(model, least_here, **OPTIONS, cache=cache)
    again(x).sum().backward()
    assert ct.plans(again)[0].peak_bytes <= least_here
