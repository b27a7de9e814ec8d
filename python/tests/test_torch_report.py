# SPDX-License-Identifier: Apache-2.0
"""Reports in the user's own words: modules, source lines, the model's class, ways to run the step side by side."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
import xml.etree.ElementTree

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, results  # noqa: E402

import checkmate.torch as ct  # noqa: E402
from checkmate.planning import figure, plan_cache  # noqa: E402
from checkmate.torch.report import blocks  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.mlp(y)


class Stack(torch.nn.Module):
    def __init__(self, width: int = 32, depth: int = 5) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.cross_entropy(self.head(x), y)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(512, 32), torch.randint(0, 4, (512,))


def line_of(text: str, within: object) -> str:
    """ "test_torch_report.py:31" for the line of the code that has the text."""
    lines, first = inspect.getsourcelines(within)
    return f"{pathlib.Path(__file__).name}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("how", ["compiled", "inplace", "backend", "function"])
def test_operators_name_their_module_and_line(how: str) -> None:
    model = Stack()
    if how == "backend":
        made = ct.backend("80%", **FAST)
        torch.compile(model, backend=made, dynamic=False)(*inputs())
        plan = made.plans[0]
    else:
        run = model if how != "function" else lambda x, y: model(x, y)
        compiled = ct.compile(run, "80%", inplace=how == "inplace", **FAST)
        compiled(*inputs())
        plan = ct.plans(compiled)[0]
    assert plan.graph.name == ("<lambda>" if how == "function" else "Stack")
    ops = plan.graph.ops
    of = {(op.module, op.kind): op for op in ops}
    for path in ("layers.0.norm", "layers.3.mlp.0", "layers.4.mlp.1", "head"):
        for kind in ("forward", "backward"):
            assert (path, kind) in of, (path, kind)
    norms = [op for op in ops if op.module == "layers.2.norm"]
    assert {op.source for op in norms} == {line_of("y = self.norm(x)", Block)}
    assert {op.kind for op in norms} == {"forward", "backward"}
    linear = [op for op in ops if op.module == "layers.2.mlp.0"]
    assert {op.source for op in linear} == {line_of("return x + self.mlp(y)", Block)}
    assert len({op.module for op in ops}) == 5 * 5 + 2, "five blocks of a sum, a norm and three layers; the head; the model itself"


def test_places_change_no_plan() -> None:
    """A line moved in the user's file is not another problem: the plan on disk is found."""
    compiled = ct.compile(Stack(), "80%", **FAST)
    compiled(*inputs())
    graph = ct.plans(compiled)[0].graph
    other = type(graph).parse(re.sub(r'"source":"[^"]*"', '"source":"elsewhere.py:1"', graph.to_json()))
    assert other.to_json() != graph.to_json()
    assert other.ops[3].source == "elsewhere.py:1"
    assert plan_cache.path_of(other, 5, ()) == plan_cache.path_of(graph, 5, ())


def test_checkpointing_by_hand_is_what_pytorch_does() -> None:
    """Operators run again, one for one, are those that torch.utils.checkpoint runs again."""
    model = Stack()
    frontier = ct.explain(model, inputs(), budgets=2, show=None, **FAST)
    found = blocks.checkpointed(frontier.graph)
    assert found is not None
    assert found.blocks == [f"layers.{i}" for i in range(5)]
    assert found.schedule.verify(frontier.graph, found.peak_bytes)
    assert not found.schedule.verify(frontier.graph, found.peak_bytes - 1)
    assert found.peak_bytes < frontier.baseline_peak_bytes
    ops = frontier.graph.ops
    runs = [step.index for step in found.schedule.steps if step.kind == "compute"]
    again = [ops[v].name for v in range(len(ops)) if runs.count(v) == 2]
    assert len(runs) == len(ops) + len(again), "nothing runs three times"

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            names.append(func._schema.name.split("::")[1])
            return func(*args, **(kwargs or {}))

    def step(checkpoint: bool) -> list[str]:
        names.clear()
        x, y = inputs()
        with Count():
            for layer in model.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False) if checkpoint else layer(x)
            torch.nn.functional.cross_entropy(model.head(x), y).backward()
        return list(names)

    names: list[str] = []
    plain, checkpointed = step(False), step(True)
    for kernel in ("addmm", "gelu", "native_layer_norm"):
        mine = sum(re.fullmatch(rf"{kernel}(_\d+)?", name) is not None for name in again)
        assert mine == checkpointed.count(kernel) - plain.count(kernel) > 0, kernel


def test_a_model_without_blocks_is_said_to_have_none() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4), torch.nn.Flatten(0))
    frontier = ct.explain(lambda x: model(x).sum(), inputs()[:1], budgets=3, show=None, **FAST)
    assert blocks.checkpointed(frontier.graph) is None
    assert frontier.ways[0].name == "keep everything"
    assert not any("checkpoint" in way.name for way in frontier.ways)
    assert blocks.block_of("layers.3.mlp.0") == "layers.3"
    assert blocks.block_of("0.conv") == blocks.block_of("head") == ""


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "name"), [(None, "the plan, same memory"), ("60%", "the plan for 60%"), ("min", "the plan of least memory")])
def test_one_table_compares_the_ways(budget: str | None, name: str) -> None:
    lines: list[str] = []
    frontier = ct.explain(Stack(), inputs(), budgets=4, budget=budget, show=lines.append, **FAST)
    assert "\n".join(results(lines)) == str(frontier)
    ways = frontier.ways
    assert [way.name for way in ways][:2] == ["keep everything", "checkpoint every block"]
    assert ways[0].peak_bytes == frontier.baseline_peak_bytes
    assert ways[0].cost == frontier.graph.total_cost
    assert "layers.0 to layers.4" in ways[1].note
    assert ways[-1].name == name
    least = min(s.peak_bytes for s in frontier.solutions if s.peak_bytes)
    limit = {None: ways[1].peak_bytes, "60%": int(0.6 * ways[0].peak_bytes)}.get(budget, least)
    assert ways[-1].peak_bytes <= limit
    assert ways[-1].cost == frontier.chosen.cost
    if budget is None:
        assert ways[-1].cost < ways[1].cost, "a plan is cheaper than checkpoints by hand"
    rows = results(lines)[results(lines).index("") + 1 :]
    assert len(rows) == 1 + len(ways) + len(frontier.notes)
    assert rows[0].split("  ")[0] == "one training step"
    assert len({re.search(r"\d [kM]?B ", row).start() for row in rows[1 : 1 + len(ways)]}) == 1, "columns stand under each other"


def test_the_page_shows_the_chosen_schedule_in_python(tmp_path: pathlib.Path) -> None:
    frontier = ct.explain(Stack(), inputs(), budgets=3, budget="60%", show=None, report=tmp_path / "r.html", **FAST)
    page = (tmp_path / "r.html").read_text()
    data = data_of(page)
    assert "<title>Stack" in page
    assert data["peak"] == frontier.chosen.peak_bytes
    assert data["cost"] == frontier.chosen.cost
    assert data["budget"] == frontier.chosen.budget_bytes
    assert data["chosen"] == "the plan for 60%"
    assert [row[0] for row in data["ways"]] == [way.name for way in frontier.ways[:-1]]
    assert data["ways"][1][2:] == [frontier.ways[1].peak_bytes, frontier.ways[1].cost]
    assert {tuple(op[9:11]) for op in data["ops"]} >= {("layers.3.norm", line_of("y = self.norm(x)", Block))}
    code = [recipe[1] for recipe in data["recipes"]]
    assert any(f"budget={frontier.chosen.budget_bytes:_}" in text for text in code)
    for text in code:
        compile(text, "<recipe>", "exec")
        assert "ckm_" not in text


def test_a_plan_writes_its_page(tmp_path: pathlib.Path) -> None:
    compiled = ct.compile(Stack(), "60%", **FAST)
    compiled(*inputs())
    plan = ct.plans(compiled)[0]
    plan.report(tmp_path / "plan.html")
    data = data_of((tmp_path / "plan.html").read_text())
    assert data["name"] == "Stack"
    assert data["cost"] == plan.cost
    assert data["budget"] == plan.solved_bytes
    assert [row[0] for row in data["ways"]] == ["keep everything", "checkpoint every block"]


def extents(svg: str) -> list[tuple[str, float, float]]:
    """Each text of a drawing and how far to the left and right it can reach, in wide letters."""
    found = []
    for text in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if "transform" in text.attrib:
            continue
        content, x = text.text or "", float(text.attrib["x"])
        wide = 0.62 * float(text.attrib.get("font-size", 12)) * len(content)
        begin = x - {"start": 0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        found.append((content, begin, begin + wide))
    return found


def test_labels_stay_inside_the_drawing() -> None:
    cases = [
        ("t" * 300, [(10, 1), (11, 0)], 10.99),  # a floor at the right edge, a long title
        ("t", [(1e6, 250000), (9e6, 0)], 9e6),
        ("t", [(123456.7, 5), (123457.1, 0)], 123456.6),
    ]
    for title, points, floor in cases:
        svg = figure.frontier_svg(title, points, [(x, y * 3) for x, y in points], floor)
        for content, begin, end in extents(svg):
            assert begin >= 0, content
            assert end <= 640, content
        assert "e+0" not in svg, "numbers are written out"
    for path in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        assert path.attrib["clip-path"], "curves above the highest one found end at the border"
