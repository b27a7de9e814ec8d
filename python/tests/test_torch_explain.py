# SPDX-License-Identifier: Apache-2.0
"""What `explain` prints, draws and writes."""

from __future__ import annotations

import inspect
import pathlib
import re
import xml.etree.ElementTree

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from graphs import chain  # noqa: E402
from models import Untraceable, make  # noqa: E402
from steps import FAST, results  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.planning import figure  # noqa: E402
from checkmate.schedule import BOUND_CLASSES, COVERED  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def test_explain_prints_draws_and_reports(tmp_path: pathlib.Path) -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    frontier = ct.explain(model, inputs, budgets=3, plot=tmp_path / "f.svg", report=tmp_path / "r.html", show=lines.append, **FAST)
    assert all(p.grad is None for p in model.parameters())
    assert "\n".join(results(lines)) == str(frontier)
    svg = xml.etree.ElementTree.parse(tmp_path / "f.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert svg.tag == f"{space}svg"
    assert len(svg.findall(f"{space}circle")) == sum(s.cost is not None for s in frontier.solutions)
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "mse_loss" in page
    assert frontier.chosen is not None
    if frontier.ways[-1].note:
        assert frontier.ways[-1].note.startswith(f"no {COVERED[frontier.chosen.bound_covers]} can do with less than")
    assert type(model).__name__ == frontier.graph.name
    assert f"<title>{frontier.graph.name}" in page
    with pytest.raises(ValueError, match=r"\.svg"):
        frontier.plot(tmp_path / "f.docx")
    with pytest.raises(ValueError, match="fits 1 bytes"):
        frontier.report(tmp_path / "s.html", budget=1)
    with pytest.raises(ValueError, match=f"fits {frontier.baseline_peak_bytes // 100:,} bytes"):
        frontier.report(tmp_path / "s.html", budget="1%")
    assert len(repr(frontier)) < 60
    assert {f.name for f in tmp_path.iterdir()} >= {"f.svg", "r.html"}
    assert not (tmp_path / "s.html").exists()


def test_the_drawing_is_of_steps(tmp_path: pathlib.Path) -> None:
    """What was found at a budget holds upwards, what was proven downwards; nothing is proven where no schedule fits."""
    drawn = xml.etree.ElementTree.fromstring(figure.frontier_svg("t", [(20, 50), (40, 10), (60, 0)], [(20, 40), (40, 10), (60, 0)], 10))
    found, proven = (path.attrib["d"] for path in drawn.findall("{http://www.w3.org/2000/svg}path"))
    assert re.fullmatch(r"M[\d.]+,[\d.]+( H[\d.]+V[\d.]+){2}", found)
    assert re.fullmatch(r"M[\d.]+,[\d.]+( V[\d.]+H[\d.]+){2}", proven)
    graph = chain(8)
    solutions = list(checkmate.frontier(graph, points=4, lowest=3))
    assert [s.status for s in solutions] == ["optimal"] * 3 + ["infeasible"]
    shown = ct.Frontier(graph, solutions[0].baseline_peak_bytes, graph.memory_floor, solutions)
    assert [line.split()[1:] for line in str(shown).splitlines()[-1:]] == [["none", "fits"]]
    assert "% all" in str(shown) or "% in order" in str(shown), "a bound says what it covers"
    shown.plot(tmp_path / "f.svg")
    narrowest = max((s.bound_covers for s in solutions if s.cost is not None), key=BOUND_CLASSES.index)
    assert f"proven: no {COVERED[narrowest]} costs less" in (tmp_path / "f.svg").read_text()
    drawn = xml.etree.ElementTree.parse(tmp_path / "f.svg").getroot()
    found, proven = (path.attrib["d"] for path in drawn.findall("{http://www.w3.org/2000/svg}path"))
    assert found.split(",")[0] == proven.split(",")[0], "both start at the least budget that something fits"


def test_explain_looks_at_its_arguments_first(tmp_path: pathlib.Path) -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    for wrong, kind in (
        ({"plot": tmp_path / "f.png"}, ValueError),
        ({"plot": tmp_path / "none" / "f.svg"}, FileNotFoundError),
        ({"report": tmp_path / "none" / "r.html"}, FileNotFoundError),
        ({"budgets": 0}, ValueError),
    ):
        with pytest.raises(kind):
            ct.explain(model, inputs, show=lines.append, **wrong, **FAST)
    with pytest.raises(TypeError, match="tuple"):
        ct.explain(model, inputs[0], show=lines.append, **FAST)
    assert not lines
    named = dict(zip(inspect.signature(model.forward).parameters, inputs, strict=True))
    assert ct.explain(model, named, budgets=1, show=None, **FAST).floor_bytes == ct.explain(model, inputs, budgets=1, show=None, **FAST).floor_bytes


def test_explain_never_runs_the_model() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.layer(x).sum()

    model, x = Counts(), torch.randn(4, 8)
    ct.explain(model, (x,), budgets=1, show=None, **FAST)
    with torch.no_grad(), pytest.raises(ValueError, match="nothing was traced"):
        ct.explain(model, (x,), show=None, **FAST)
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing was traced"):
        ct.explain(model, (x,), show=None, **FAST)
    assert model.calls == 0


def test_numbers_that_the_library_cannot_hold() -> None:
    model, inputs = make("perceptron")
    for wrong in ({"fixed_bytes": 2**64}, {"budget": 2**65}, {"seed": 2**70}):
        with pytest.raises(ValueError, match=r"less than 2\*\*63"):
            ct.explain(model, inputs, show=None, **{**FAST, **wrong})
    with pytest.raises(ValueError, match=r"less than 2\*\*63"):
        checkmate.Graph("tiny", fixed_bytes=2**64)


def test_explain_advises_only_what_it_offers() -> None:
    with pytest.raises(ct.UnsupportedError, match="cannot be traced") as caught:
        ct.explain(Untraceable(), (torch.randn(4, 8),), show=None, **FAST)
    assert "fallback" not in str(caught.value)


def test_explain_near_the_least() -> None:
    """The curve where one more megabyte saves the most: from the least to twice it, dearer the less memory there is."""
    model, inputs = make("perceptron")
    found = ct.explain(model, inputs, budgets="near-min", show=None, **FAST)
    budgets = [s.budget_bytes for s in found.solutions]
    least = budgets[-1]
    assert budgets == sorted({min(found.baseline_peak_bytes, least * p // 100) for p in (100, 101, 102, 105, 110, 120, 135, 150, 200)}, reverse=True)
    assert least < found.baseline_peak_bytes
    assert all(s.schedule is not None for s in found.solutions)
    costs = [s.cost or 0 for s in found.solutions]
    assert costs == sorted(costs)
    for wrong in ("near-max", 0, 2.5):
        with pytest.raises(ValueError, match="an integer, at least 1, or 'near-min'"):
            ct.explain(model, inputs, budgets=wrong, show=None, **FAST)
