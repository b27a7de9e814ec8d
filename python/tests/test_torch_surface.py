# SPDX-License-Identifier: Apache-2.0
"""What a user meets: clear errors, graph breaks, explain, progress, the cache, Ctrl-C, inductor."""

from __future__ import annotations

import copy
import inspect
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
import xml.etree.ElementTree
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from graphs import chain  # noqa: E402
from models import make  # noqa: E402
from steps import needs_inductor  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch import budget, figure, meter, partition, plan_cache  # noqa: E402

SOURCE = str(pathlib.Path(checkmate.__file__).parents[1])
FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 2}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": SOURCE} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


class Broken(torch.nn.Module):
    """Graph breaks between `parts` stacks of layers, batch norms and dropout among them."""

    def __init__(self, parts: int = 2, depth: int = 4) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(
            torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Tanh(), torch.nn.Dropout(0.1))
                                  for _ in range(depth))) for _ in range(parts))  # fmt: skip

    def forward(self, x: Any) -> Any:
        first = self.parts[0](x)
        torch._dynamo.graph_break()
        x = self.parts[1](first)
        if len(self.parts) > 2:
            torch._dynamo.graph_break()
            x = self.parts[2](x)
        return (x * first).square().mean()


class BrokenLoop(torch.nn.Module):
    """A graph break within a loop: PyTorch gives up on the whole function."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.layer(x)
            torch._dynamo.graph_break()
        return x.square().mean()


def counts_what_it_skips() -> bool:
    """Whether PyTorch counts functions that it gives up on; 2.6 counts them as traced."""
    frames = torch._dynamo.utils.counters["frames"]
    before = frames["total"] - frames["ok"]
    torch._dynamo.reset()
    torch.compile(BrokenLoop(), backend="eager")(torch.randn(1, 64))
    return frames["total"] - frames["ok"] > before


def gradients(model: Any, run: Any, *inputs: Any) -> list[Any]:
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    loss = run(*inputs)
    loss.backward()
    found = [loss.detach(), *(p.grad.clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("parts", [2, 3])
def test_graphs_of_a_broken_model_share_the_budget(parts: int) -> None:
    torch.manual_seed(0)
    model, x = Broken(parts), torch.randn(2048, 64)
    start = copy.deepcopy(model.state_dict())
    expected = gradients(model, model, x)
    peak = meter.peak_bytes(lambda: model(x).backward(), model, x)
    model.zero_grad(set_to_none=True)
    model.load_state_dict(start)
    limit = peak * 7 // 10
    compiled = ct.compile(model, limit, graph_breaks="split", time_limit=2)
    found = gradients(model, compiled, x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    plans = ct.plans(compiled)
    assert len(plans) == parts
    assert all(p.peak_bytes <= p.budget_bytes == limit for p in plans)
    assert [p.held_bytes for p in plans] == sorted(p.held_bytes for p in plans)
    assert any(p.recomputed for p in plans)
    measured = meter.peak_bytes(lambda: compiled(x).backward(), model, x)
    assert measured <= limit
    assert len(ct.plans(compiled)) == parts, "the second step must not plan again"


def test_a_part_that_does_not_fit_is_named() -> None:
    model, x = Broken(), torch.randn(2048, 64)
    with pytest.raises(checkmate.InfeasibleError, match=r"graph \d of the model, beside which \d+ bytes are held: .*no.*fit"):
        ct.compile(model, "2MB", graph_breaks="split", **FAST)(x)


def test_a_graph_break_is_an_error_by_default() -> None:
    model, x = Broken(), torch.randn(64, 64)
    with pytest.raises(ct.UnsupportedError, match=r"(?s)one graph.*graph_breaks=\"split\".*fallback") as caught:
        ct.compile(model, "100%", **FAST)(x)
    assert caught.value.__cause__ is not None


def test_what_cannot_be_traced_does_not_run_unplanned_in_silence() -> None:
    model, x = BrokenLoop(), torch.randn(16, 64)
    with pytest.raises(ct.UnsupportedError, match="nothing of the model"):
        ct.compile(model, "1GiB", graph_breaks="split", **FAST)(x)
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", graph_breaks="split", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        assert torch.equal(compiled(x), model(x))

    class Partly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.loop, self.last = BrokenLoop(), torch.nn.Linear(64, 64)

        def forward(self, x: Any) -> Any:
            return self.last(x).tanh().square().mean() + self.loop(x)

    if not counts_what_it_skips():
        return
    torch._dynamo.reset()
    compiled = ct.compile(Partly(), "1GiB", graph_breaks="split", **FAST)
    with pytest.warns(RuntimeWarning, match="budget does not hold"):
        compiled(x)


def test_split_needs_bytes_and_a_module() -> None:
    with pytest.raises(ValueError, match="in bytes"):
        ct.compile(Broken(), "50%", graph_breaks="split")
    with pytest.raises(ValueError, match=r"nn\.Module"):
        ct.compile(lambda x: x, "1GiB", graph_breaks="split")
    with pytest.raises(ValueError, match="graph_breaks"):
        ct.compile(Broken(), "1GiB", graph_breaks="maybe")


def test_the_backend_alone_warns_of_a_second_graph() -> None:
    model, x = Broken(), torch.randn(64, 64)
    made = ct.backend("1GiB", **FAST)
    with pytest.warns(RuntimeWarning, match="graph_breaks"):
        torch.compile(model, backend=made, dynamic=False)(x).backward()
    assert len(made.plans) == 2


class Untraceable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        if self.layer(x).sum().item() > 1e9:
            print("large")
        return self.layer(x).square().sum()


def test_falls_back_only_if_asked_and_says_so_once() -> None:
    model, x = Untraceable(), torch.randn(4, 8)
    with pytest.raises(ct.UnsupportedError, match="cannot be traced"):
        ct.compile(model, "1GiB", **FAST)(x)
    torch._dynamo.reset()
    compiled = ct.compile(model, "1GiB", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget"):
        first = compiled(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(x), first)
    assert ct.plans(compiled) == []
    with pytest.raises(ValueError, match="fallback"):
        ct.compile(model, "1GiB", fallback="please")


def test_a_budget_too_small_is_never_a_reason_to_fall_back() -> None:
    model, inputs = make("perceptron")
    with pytest.raises(checkmate.InfeasibleError):
        ct.compile(model, "1MB", fallback="eager", **FAST)(*inputs)


@pytest.mark.parametrize("how", ["marked", "backend"])
def test_dynamic_shapes_are_named(how: str) -> None:
    model, (x, y) = make("perceptron")
    if how == "marked":
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(y, 0)
        compiled = ct.compile(model, "1GiB", **FAST)
        with pytest.raises(ct.UnsupportedError, match=r"dimension 0 of 'x' \(now 2048\).*mark_dynamic"):
            compiled(x, y)
    else:
        run = torch.compile(model, backend=ct.backend("1GiB", **FAST), dynamic=True)
        with pytest.raises(Exception, match=r"dimension 0 of 'x'.*dynamic=False"):
            run(x, y)


def test_sizes_that_depend_on_data_are_named() -> None:
    class Selects(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return self.layer(x[x[:, 0] > 0]).sum()

    with pytest.raises(ct.UnsupportedError, match=rf"depend on data.*{pathlib.Path(__file__).name}:\d+.*torch\.where"):
        ct.compile(Selects(), "1GiB", **FAST)(torch.randn(4, 8))


def test_more_shapes_than_pytorch_compiles_for() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Flatten(0))
    compiled = ct.compile(model, "1GiB", **FAST)
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
    with torch._dynamo.config.patch({limit: 2}):
        compiled(torch.randn(2, 8))
        compiled(torch.randn(3, 8))
        with pytest.raises(ct.UnsupportedError, match=rf"at most 2 .*{limit}"):
            compiled(torch.randn(4, 8))
    assert len(ct.plans(compiled)) == 2


def test_a_wrong_call_is_not_blamed_on_the_compiler() -> None:
    model, (x, _y) = make("perceptron")
    with pytest.raises(TypeError, match="argument"):
        ct.compile(model, "1GiB", **FAST)(x)


def test_what_the_models_own_code_raises_is_named() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"{x.dim()} dimensions")

    with pytest.raises(ct.UnsupportedError, match=r"2 dimensions.*test_torch_surface\.py") as caught:
        ct.compile(wrong, "1GiB", **FAST)(torch.randn(4, 8))
    assert "fallback" not in str(caught.value), "it would raise there too"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ct.compile(torch.nn.ReLU, "1GiB"), r"such as ReLU\(\.\.\.\)"),
        (lambda: ct.compile(torch.ones(3), "1GiB"), "not Tensor"),
        (lambda: ct.explain(torch.nn.ReLU, (torch.ones(3),)), r"such as ReLU\(\.\.\.\)"),
        (lambda: ct.compile(torch.nn.ReLU(), "1GiB", optimizer="adam"), "torch.optim.Adam"),
        (lambda: ct.compile(torch.nn.ReLU(), "1GiB", optimizer=torch.optim.Adam), "torch.optim.Adam"),
    ],
)
def test_what_is_no_model_or_optimizer_is_refused_at_once(call: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call()


def test_what_fails_in_planning_is_not_called_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make("perceptron")

    def fail(*_arguments: Any) -> None:
        raise RuntimeError("enough")

    monkeypatch.setattr(partition, "split", fail)
    with pytest.raises(ct.UnsupportedError, match="cannot be planned: RuntimeError: enough") as caught:
        ct.compile(model, "1GiB", **FAST)(*inputs)
    assert "graph_breaks" not in str(caught.value)


class OwnError(Exception):
    pass


@pytest.mark.parametrize("how", ["compile", "fallback", "split", "explain", "backend"])
@pytest.mark.parametrize("kind", [OwnError, ValueError, ct.UnsupportedError, KeyboardInterrupt])
def test_what_progress_raises_is_raised_as_it_is(how: str, kind: type[BaseException]) -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Flatten(0)), torch.randn(4, 8)
    error, cause = kind("enough"), OwnError("why")

    def tell(_line: str) -> None:
        raise error from cause

    options: dict[str, Any] = {"progress": tell, "time_limit": 1}
    calls = {
        "compile": lambda: ct.compile(model, "1GiB", **options)(x),
        "fallback": lambda: ct.compile(model, "1GiB", fallback="eager", **options)(x),
        "split": lambda: ct.compile(model, "1GiB", graph_breaks="split", **options)(x),
        "explain": lambda: ct.explain(model, (x,), show=None, **options),
        "backend": lambda: torch.compile(model, backend=ct.backend("1GiB", **options), dynamic=False)(x),
    }
    with pytest.raises(BaseException) as caught:
        calls[how]()
    # PyTorch itself wraps what a backend raises, but for KeyboardInterrupt.
    assert getattr(caught.value, "inner_exception", caught.value) is error
    assert how == "backend" or caught.value is error
    assert error.__cause__ is cause
    assert how == "backend" or error.__context__ is cause or error.__context__ is None


def test_the_solvers_progress_ends_planning_too() -> None:
    model, inputs = make("gpt")
    error = OwnError("enough")

    def tell(line: str) -> None:
        if " s: overhead" in line:
            raise error

    with pytest.raises(OwnError) as caught:
        ct.compile(model, "45%", progress=tell, costs="estimate", time_limit=100, gap=0.0)(*inputs)
    assert caught.value is error


@pytest.mark.parametrize(
    ("limit", "kind", "says"),
    [
        (0.6, ValueError, '"60%"'),
        ("0%", ValueError, "positive"),
        ("many%", ValueError, "no size"),
        ("AUTO", ValueError, '"auto"'),
        (None, TypeError, "not None"),
        (True, TypeError, "not True"),
        ([1], TypeError, "4GiB"),
    ],
)
def test_a_budget_that_is_none_is_refused_at_once(limit: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        ct.compile(Broken(), limit)


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("time_limits", 3, TypeError),
        ("held_now_bytes", 3, TypeError),
        ("time_limit", "3", ValueError),
        ("time_limit", -1, ValueError),
        ("threads", 1.5, ValueError),
        ("fixed_bytes", "1GiB", ValueError),
        ("strategy", "best", ValueError),
        ("progress", 3, TypeError),
        ("costs", "guess", ValueError),
    ],
)
def test_options_are_refused_at_once(option: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=option):
        ct.compile(Broken(), "1GiB", **{option: value})
    with pytest.raises(kind, match=option):
        ct.backend("1GiB", **{option: value})
    with pytest.raises(kind, match=option):
        ct.explain(Broken(), (), **{option: value})


def test_types_name_every_option() -> None:
    from checkmate.torch.compiler import Settings
    from checkmate.torch.planner import Options

    assert set(Settings.__annotations__) == set(Options.__dataclass_fields__) - {"budget", "held_now_bytes", "title"}
    assert ct.compile.__doc__
    assert all(f"{name}" in ct.compile.__doc__ for name in Settings.__annotations__)


def test_a_list_of_plans_is_a_sentence_each() -> None:
    model, inputs = make("perceptron")
    compiled = ct.compile(model, "90%", **FAST)
    compiled(*inputs)
    made = ct.plans(compiled)
    assert repr(made) == f"[<Plan: {made[0]}>]"
    assert re.fullmatch(rf'<Graph "Loss": {len(made[0].graph.ops)} operators>', repr(made[0].graph))
    assert repr(made[0].schedule) == f"<Schedule: {len(made[0].schedule)} steps>"


def test_warnings_name_the_users_line() -> None:
    compiled = ct.compile(Untraceable(), "1GiB", fallback="eager", **FAST)
    with pytest.warns(RuntimeWarning, match="without a budget") as caught:
        compiled(torch.randn(4, 8))
    assert [w.filename for w in caught if w.category is RuntimeWarning] == [__file__]


def test_plans_and_compiled_models_are_copied() -> None:
    model, inputs = make("perceptron")
    compiled = ct.compile(model, "90%", **FAST)
    expected = compiled(*inputs).item()
    (plan,) = ct.plans(compiled)
    read = pickle.loads(pickle.dumps(plan))
    assert str(read) == str(plan)
    assert read.schedule.steps == plan.schedule.steps
    assert read.schedule.verify(read.graph, read.solved_bytes)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    assert compiled(*inputs).item() == expected
    assert other(*inputs).item() != expected, "the copy must not run the original's parameters"
    for unknown in (other, model, "model"):
        with pytest.raises(ValueError, match="compile the copy"):
            ct.plans(unknown)


def test_an_old_pytorch_is_refused() -> None:
    done = python("import torch; torch.__version__ = '2.5.1+cpu'; import checkmate.torch")
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1] == "ImportError: checkmate.torch needs PyTorch 2.6 or newer, and this is 2.5.1+cpu"


def test_without_pytorch_the_core_works_and_the_rest_says_what_is_missing() -> None:
    done = python("import sys; sys.modules['torch'] = None\nimport checkmate\nprint(len(checkmate.strategies()) > 0)\nimport checkmate.torch")
    assert done.stdout.strip() == "True"
    assert "ImportError: checkmate.torch needs PyTorch 2.6 or newer: pip install torch" in done.stderr


def test_explain_prints_draws_and_reports(tmp_path: pathlib.Path) -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    frontier = ct.explain(model, inputs, budgets=3, plot=tmp_path / "f.svg", report=tmp_path / "r.html", show=lines.append, **FAST)
    assert all(p.grad is None for p in model.parameters())
    assert "\n".join(lines) == str(frontier)
    svg = xml.etree.ElementTree.parse(tmp_path / "f.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert svg.tag == f"{space}svg"
    assert len(svg.findall(f"{space}circle")) == sum(s.cost is not None for s in frontier.solutions)
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "mse_loss" in page
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
    shown.plot(tmp_path / "f.svg")
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


def test_explain_advises_only_what_it_offers() -> None:
    with pytest.raises(ct.UnsupportedError, match="cannot be traced") as caught:
        ct.explain(Untraceable(), (torch.randn(4, 8),), show=None, **FAST)
    assert "fallback" not in str(caught.value)


def test_auto_budget_on_the_cpu_counts_what_is_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make("perceptron")
    monkeypatch.setattr(budget, "free_bytes", lambda _device: 100_000_000)
    compiled = ct.compile(model, "auto", **FAST)
    compiled(*inputs).backward()
    (plan,) = ct.plans(compiled)
    assert plan.budget_bytes == 90_000_000 + meter.tensor_bytes([p.detach() for p in model.parameters()], inputs)


def test_auto_budget_is_one_budget_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Broken(), torch.randn(256, 64)
    free = iter([100_000_000])
    monkeypatch.setattr(budget, "free_bytes", lambda _device: next(free))
    compiled = ct.compile(model, "auto", graph_breaks="split", **FAST)
    compiled(x).backward()
    present = meter.tensor_bytes([p.detach() for p in model.parameters()], list(model.buffers()), x)
    assert [p.budget_bytes for p in ct.plans(compiled)] == [90_000_000 + present] * 2


def test_free_bytes_of_this_machine() -> None:
    free = budget.free_bytes(torch.device("cpu"))
    assert 0 < free <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_auto_budget_on_cuda_is_what_the_allocator_could_still_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device=None: (5_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device=None: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device=None: 200)
    assert budget.free_bytes(torch.device("cuda")) == 5_500


def test_progress_tells_what_happens() -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    ct.compile(model, "80%", progress=lines.append, time_limit=2)(*inputs)
    assert any("measuring" in line for line in lines)
    assert any("budget" in line and "operators" in line for line in lines)
    assert "overhead" in lines[-1]


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


def test_measuring_survives_operands_that_only_another_call_can_make() -> None:
    """The backward call of an LSTM on the CPU reads what the forward call left in its workspace."""
    done = python(
        """
        import contextlib, torch, checkmate.torch as ct
        torch._dynamo.config.allow_rnn = True
        compiled = ct.compile(torch.nn.LSTM(32, 48, 2), "1GiB", time_limit=1, cache=False)
        with contextlib.suppress(AssertionError, ct.UnsupportedError):  # PyTorch cannot run what it traced
            compiled(torch.randn(20, 16, 32))
        print(len(ct.plans(compiled)))
        """
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


def test_damaged_costs_are_measured_anew() -> None:
    model, inputs = make("perceptron")
    path = plan_cache.directory() / "costs.json"
    plan_cache.keep(path, '{"a": [1.0, 2]}')
    ct.compile(model, "90%", time_limit=2)(*inputs)
    whole = json.loads(path.read_text())
    assert whole.pop("a") == [1.0, 2], "what others measured stays"
    assert whole
    for text in ("", "[]", '{"a": 3}', json.dumps({key: "x" for key in whole}), json.dumps({key: [] for key in whole})):
        torch._dynamo.reset()
        path.write_text(text)
        ct.compile(model, "90%", time_limit=2)(*inputs)
        assert json.loads(path.read_text()).keys() == whole.keys()


def test_ctrl_c_while_planning() -> None:
    """The process signals itself when the solver has reported for the first time."""
    done = python(
        f"""
        import os, signal, sys, time
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
        import checkmate.torch as ct
        from models import make
        model, inputs = make("gpt")
        def tell(line):
            if "overhead" in line:
                os.kill(os.getpid(), signal.SIGINT)
        compiled = ct.compile(model, "45%", costs="estimate", time_limit=100, gap=0.0, progress=tell)
        try:
            compiled(*inputs)
        except KeyboardInterrupt:
            print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler, ct.plans(compiled))
        """
    )
    assert done.stdout.strip() == "interrupted True []", done.stderr


@needs_inductor
def test_inductor_computes_the_same_within_rounding() -> None:
    model, inputs = make("perceptron")
    expected = gradients(model, model, *inputs)
    compiled = ct.compile(model, "60%", compiler="inductor", time_limit=2)
    found = gradients(model, compiled, *inputs)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    (plan,) = ct.plans(compiled)
    assert plan.recomputed
    plain = torch.compile(model, dynamic=False)
    gradients(model, plain, *inputs)
    ours, theirs = (meter.peak_bytes(lambda run=run: run(*inputs).backward(), model, inputs) for run in (compiled, plain))
    assert ours < 0.8 * theirs, "recomputation must not be merged away"


@needs_inductor
def test_inductor_draws_the_random_numbers_of_eager_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1), torch.nn.Flatten(0))
    x = torch.randn(32, 16)

    def run(call: Any) -> Any:
        torch.manual_seed(1)
        return call(x).sum()

    compiled = ct.compile(model, "100%", compiler="inductor", **FAST)
    torch.testing.assert_close(run(compiled), run(model))


def test_the_readme_runs_as_it_is(tmp_path: pathlib.Path) -> None:
    """Its first two examples belong together; the last one is about graphs."""
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    compiles, explains, graphs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = python(f"import os; os.chdir({str(tmp_path)!r})\n{compiles}{explains}{graphs}")
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert "overhead" in done.stdout.splitlines()[0]
    assert {"frontier.svg", "schedule.html"} <= {f.name for f in tmp_path.iterdir()}


def test_signals_are_as_before() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
