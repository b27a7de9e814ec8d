# SPDX-License-Identifier: Apache-2.0
"""What runs in every step in addition to the kernels: no more than needed, and everything that may change between steps is noticed."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import checkmate.torch  # noqa: E402
from checkmate.torch.rewrite import buffer_updates  # noqa: E402
from checkmate.torch.run import runtime  # noqa: E402
from checkmate.torch.trace import settings  # noqa: E402

#: For tests of steps with less around them: without this, as in PyTorch 2.6, they run as AOTAutograd would have it (`runtime._is_plain`).
needs_hooks = pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
    reason=f"PyTorch {torch.__version__} does not say whether hooks for saved tensors are set, so that steps run as AOTAutograd would have it",
)


class Norms(torch.nn.Module):
    """Convolutions with batch norms; `twice` runs one of them two times, so that its statistics are updated twice."""

    def __init__(self, twice: bool = False) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.drop, self.scale, self.twice = torch.nn.Dropout(0.5), 1.0, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(torch.relu(self.norm(self.first(x))))
        x = self.second(x)
        return self.scale * self.last(self.norm(x) if self.twice else x).square().mean()


def pair(twice: bool = False, budget: str = "100%") -> tuple[torch.nn.Module, torch.nn.Module, torch.nn.Module]:
    """Eager, the module that is compiled, and what it compiled to."""
    torch.manual_seed(0)
    eager = Norms(twice)
    model = copy.deepcopy(eager)
    return eager, model, checkmate.torch.compile(model, budget, costs="estimate", time_limit=1, cache=False)


def step(run: Callable[..., torch.Tensor], x: torch.Tensor, **backward: bool) -> torch.Tensor:
    torch.manual_seed(1)
    loss = run(x)
    if loss.requires_grad:
        loss.backward(**backward)
    return loss


def require_same(eager: torch.nn.Module, model: torch.nn.Module) -> None:
    for (name, a), b in zip(eager.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    for (name, a), b in zip(eager.named_parameters(), model.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or torch.equal(a.grad, b.grad), name


@pytest.mark.parametrize("budget", ["100%", "70%"])
@pytest.mark.parametrize("twice", [False, True])
def test_statistics_and_gradients_over_steps(twice: bool, budget: str) -> None:
    eager, model, compiled = pair(twice, budget)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(4, 3, 8, 8)
        assert torch.equal(step(eager, x), step(compiled, x))
        require_same(eager, model)


def calls(run: Callable[[], object]) -> dict[str, int]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return {event.key: event.count for event in profile.key_averages()}


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_a_counter_is_written_where_it_lies_unless_something_else_reads_it(copied: bool, read: bool) -> None:
    """As PyTorch traces it before 2.9, and since, with a copy of the counter."""
    add, graph = torch.ops.aten.add.Tensor, torch.fx.Graph()
    place = graph.placeholder("counter")
    old = graph.call_function(torch.ops.aten.clone.default, (place,)) if copied else place
    new = graph.call_function(add, (old, 1))
    graph.output((new, graph.call_function(add, (place, 5)) if read else None))
    for node in graph.nodes:
        node.meta["val"] = torch.tensor(0)
    rewritten, written = buffer_updates.in_place(torch.fx.GraphModule(torch.nn.Module(), graph), (0,), 2)
    counter = torch.tensor(3)
    values = rewritten(counter)
    if read:
        assert written == (0,) and values == (4, 8) and counter == 3
    else:
        assert written == () and values == (None,) and counter == 4


@needs_hooks
def test_statistics_are_written_where_they_lie() -> None:
    eager, _model, compiled = pair()
    x = torch.randn(4, 3, 8, 8)
    for run in (eager, compiled):
        step(run, x)
        run.zero_grad(set_to_none=True)
    theirs, ours = calls(lambda: step(eager, x)), calls(lambda: step(compiled, x))
    for name in ("aten::clone", "aten::copy_", "aten::_foreach_copy_"):
        assert ours.get(name, 0) <= theirs.get(name, 0), name
    assert ours["aten::add_"] == theirs["aten::add_"]


def test_no_settings_are_changed_in_a_step_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    _eager, _model, compiled = pair()
    entered = []
    during = settings.during_call
    monkeypatch.setattr(settings, "during_call", lambda shapes=0, static=True: entered.append(1) or during(shapes, static=static))
    step(compiled, torch.randn(4, 3, 8, 8))
    assert entered
    entered.clear()
    step(compiled, torch.randn(4, 3, 8, 8))
    assert not entered


CHANGES = {
    "nothing": lambda m: None,
    "evaluation": lambda m: m.eval(),
    "one_norm_in_evaluation": lambda m: m.norm.eval(),
    "frozen": lambda m: m.first.weight.requires_grad_(False),
    "replaced": lambda m: setattr(m, "second", torch.nn.Conv2d(8, 8, 1)),
    "new_parameter": lambda m: setattr(m.first, "weight", torch.nn.Parameter(torch.full_like(m.first.weight, 0.1))),
    "new_data": lambda m: setattr(m.first.weight, "data", m.first.weight.data * 2),
    "double": lambda m: m.double(),
    "a_number": lambda m: setattr(m, "scale", 3.0),
    "dropout": lambda m: setattr(m.drop, "p", 0.1),
    "tensor_hook": lambda m: m.first.weight.register_hook(lambda g: g * 2),
    "buffer": lambda m: m.norm.running_mean.add_(1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_steps_is_noticed(change: str) -> None:
    eager, model, compiled = pair()
    x = torch.randn(4, 3, 8, 8)
    step(eager, x), step(compiled, x)
    for each in (eager, model):
        torch.manual_seed(2)
        CHANGES[change](each)
        each.zero_grad(set_to_none=True)
    for x in (x, torch.randn(2, 3, 8, 8)):  # noqa: B020
        x = x.to(eager.first.weight.dtype)
        assert torch.equal(step(eager, x), step(compiled, x))
        require_same(eager, model)


def test_grad_mode_autocast_inputs_and_threads() -> None:
    eager, model, compiled = pair()
    x = torch.randn(4, 3, 8, 8)
    step(eager, x), step(compiled, x)
    with torch.no_grad():
        assert torch.equal(step(eager, x), step(compiled, x))
    for run in (eager, compiled):
        with torch.autocast("cpu", torch.bfloat16):
            torch.manual_seed(1)
            loss = run(x)
        loss.backward()
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    assert torch.equal(step(eager, a), step(compiled, b))
    assert torch.equal(a.grad, b.grad)
    for run in (eager, compiled):
        thread = threading.Thread(target=step, args=(run, x))
        thread.start()
        thread.join()
    require_same(eager, model)


def test_the_graph_backwards_again() -> None:
    eager, model, compiled = pair()
    x = torch.randn(4, 3, 8, 8)
    for run in (eager, compiled):
        step(run, x, retain_graph=True).backward()
    require_same(eager, model)
    loss = step(compiled, x)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    loss = step(compiled, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        compiled.first.weight.grad.sum().backward()


def test_two_forward_passes_before_the_backward_passes() -> None:
    eager, model, compiled = pair()
    x, y = torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
    for run in (eager, compiled):
        torch.manual_seed(3)
        (run(x) + run(y)).backward()
    require_same(eager, model)


def test_a_parameter_written_before_the_backward_pass_is_an_error() -> None:
    _eager, model, compiled = pair()
    torch.manual_seed(1)
    loss = compiled(torch.randn(4, 3, 8, 8))
    with torch.no_grad():
        model.second.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Aliased(torch.nn.Module):
    """Gives back a view of its input and writes to it: not plain."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x).sum(), x.view(-1)


@needs_hooks
def test_other_graphs_run_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    plain = runtime._is_plain
    monkeypatch.setattr(runtime, "_is_plain", lambda *a: found.append(plain(*a)) or found[-1])
    _eager, _model, compiled = pair()
    step(compiled, torch.randn(4, 3, 8, 8))
    x = torch.randn(3, 4)
    loss, view = checkmate.torch.compile(Aliased(), "100%", costs="estimate", cache=False)(x)
    loss.backward()
    assert found == [True, False]
    assert view.data_ptr() == x.data_ptr()
