# SPDX-License-Identifier: Apache-2.0
"""What a user meets: clear errors, options, progress, Ctrl-C, inductor, the README."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from models import Broken, Untraceable, make  # noqa: E402
from steps import FAST, gradients, needs_inductor  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.torch.fx import devices, partition  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402

SOURCE = str(pathlib.Path(checkmate.__file__).parents[1])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": SOURCE} | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("how", ["split", "inductor"])
def test_dynamic_shapes_that_are_not_planned_are_named(how: str) -> None:
    model, (x, y) = make("perceptron")
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    compiled = ct.compile(model, "1GiB", **FAST, **({"graph_breaks": "split"} if how == "split" else {"compiler": "inductor"}))
    with pytest.raises(ct.UnsupportedError, match=r"dimension 0 of 'x' \(now 2048\).*mark_dynamic"):
        compiled(x, y)


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
    from checkmate.torch.options import Options, Settings

    internal = {"budget", "device", "given", "held_now_bytes", "largest_bytes", "link", "store", "title", "weights"}
    assert set(Settings.__annotations__) == set(Options.__dataclass_fields__) - internal
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
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: checkmate.torch needs PyTorch 2.6 or newer, and this is 2.5.1+cpu: pip install --upgrade torch"


def test_without_pytorch_the_core_works_and_the_rest_says_what_is_missing() -> None:
    done = python("import sys; sys.modules['torch'] = None\nimport checkmate\nprint(len(checkmate.strategies()) > 0)\nimport checkmate.torch")
    assert done.stdout.strip() == "True"
    assert "ImportError: checkmate.torch needs PyTorch 2.6 or newer: pip install torch" in done.stderr


def test_auto_budget_on_the_cpu_counts_what_is_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = make("perceptron")
    monkeypatch.setattr(devices, "free_bytes", lambda _device: 100_000_000)
    compiled = ct.compile(model, "auto", **FAST)
    compiled(*inputs).backward()
    (plan,) = ct.plans(compiled)
    assert plan.budget_bytes == 90_000_000 + meter.tensor_bytes([p.detach() for p in model.parameters()], inputs)


def test_free_bytes_of_this_machine() -> None:
    free = devices.free_bytes(torch.device("cpu"))
    assert 0 < free <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_auto_budget_on_cuda_is_what_the_allocator_could_still_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device=None: (5_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device=None: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device=None: 200)
    assert devices.free_bytes(torch.device("cuda")) == 5_500


def test_progress_tells_what_happens() -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    ct.compile(model, "80%", progress=lines.append, time_limit=2)(*inputs)
    assert any("measuring" in line for line in lines)
    assert any("budget" in line and "operators" in line for line in lines)
    assert "overhead" in lines[-2]
    assert "ready after" in lines[-1]


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_readme_runs_as_it_is(tmp_path: pathlib.Path) -> None:
    """Its first two examples belong together; the last one is about graphs. Those of TensorFlow have a test of their own, and so has
    what begins with a model of the reader's: a plan for other devices, a pipeline, shards, a second memory."""
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    elsewhere = ("tf2", "device=", "in_flight", "fully_shard", "plan_together", "offload=")
    examples = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if not any(word in code for word in elsewhere)]
    compiles, explains, graphs = examples
    done = python(f"import os; os.chdir({str(tmp_path)!r})\n{compiles}{explains}{graphs}")
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert "overhead" in done.stdout.splitlines()[0]
    assert {"frontier.svg", "schedule.html"} <= {f.name for f in tmp_path.iterdir()}


def test_signals_are_as_before() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_begins_before_anything_is_traced_and_tells_what_took_how_long() -> None:
    lines: list[str] = []
    w = torch.randn(8, 8, requires_grad=True)
    compiled = ct.compile(lambda x: (x @ w).tanh().sum(), "100%", progress=lines.append)
    compiled(torch.randn(4, 8)).backward()
    begins = ["tracing the model: Dynamo", "tracing the backward pass of 3 calls", "measuring what", "graph 0: ", "ready after "]
    places = [next(i for i, line in enumerate(lines) if line.startswith(f"checkmate: {begin}")) for begin in begins]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, len(lines) - 1)
    (plan,) = ct.plans(compiled)
    assert list(plan.spent.seconds)[-1] == "Dynamo", "it is over last"
    assert (
        {"Dynamo", "AOTAutograd", "rewriting", "measuring", "solving", "splitting", "code"}
        >= set(plan.spent.seconds)
        >= {"Dynamo", "AOTAutograd", "rewriting", "measuring", "splitting"}
    )
    assert all(seconds >= 0 for seconds in plan.spent.seconds.values())
    lines.clear()
    compiled(torch.randn(4, 8)).backward()
    assert not lines, "a call that compiles nothing"


def test_explain_begins_by_saying_that_it_traces_and_ends_with_what_took_how_long() -> None:
    model, inputs = make("perceptron")
    lines: list[str] = []
    ct.explain(model, inputs, budgets=2, show=lines.append, time_limit=0.2)
    assert lines[0] == "tracing the model: Dynamo"
    assert lines[1].startswith("tracing the backward pass of ")
    assert re.fullmatch(r"explaining took [\d.]+ s, [\d.]+ of the processor: (\w+ [\d.]+(, |$))+", lines[-1])
    assert all(name in lines[-1] for name in ("Dynamo", "AOTAutograd", "rewriting", "measuring", "solving"))
