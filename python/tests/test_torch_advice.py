# SPDX-License-Identifier: Apache-2.0
"""What an error advises works."""

from __future__ import annotations

import copy
import importlib.util
import pathlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.8")

from steps import FAST, Model  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate.torch as ct  # noqa: E402

needs_traced_gradients = pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="this PyTorch does not trace autograd.grad"
)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Forces(nn.Module):
    """An energy, and its gradient by positions."""

    def __init__(self, *, own: bool = False) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))
        self.own = own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.own:
            x = x.detach().requires_grad_()
        energy = self.net(x)
        (forces,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return energy.square().mean() + forces.square().mean()


class Jagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu().values().square().mean()


class FromValues(Jagged):
    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.nested.nested_tensor_from_jagged(values, offsets))


class Averaging(nn.Module):
    def __init__(self, momentum: float | None = None) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x)).square().mean()


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, target: torch.Tensor, lengths: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return functional.ctc_loss(self.layer(x).log_softmax(-1), target, lengths, sizes)


class Counting(nn.Module):
    def __init__(self, *, buffer: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        if buffer:
            self.register_buffer("calls", torch.zeros(()))
        else:
            self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x).mean() / self.calls


def step(model: nn.Module, call: Callable[..., Any], *inputs: Any, times: int = 1) -> list[Any]:
    found = []
    for _ in range(times):
        model.zero_grad()
        call(*inputs).backward()
        found += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return found + [b.clone() for b in model.buffers()]


def as_in_eager_mode(model: nn.Module, *inputs: Any, times: int = 1, **options: Any) -> None:
    twin = copy.deepcopy(model)
    found = step(model, ct.compile(model, options.pop("budget", "100%"), **options, **FAST), *inputs, times=times)
    for ours, theirs in zip(found, step(twin, twin, *inputs, times=times), strict=True):
        if theirs is None:
            assert ours is None or not ours.any()
        else:
            assert torch.equal(ours, theirs)


def refusal(model: nn.Module, *inputs: Any, times: int = 1) -> str:
    with pytest.raises(ct.UnsupportedError) as raised:
        step(model, ct.compile(model, "100%", **FAST), *inputs, times=times)
    return str(raised.value)


SPLIT = {"budget": 10**7, "graph_breaks": "split"}


def try_what_it_says(text: str, model: nn.Module, *inputs: Any, times: int = 1) -> None:
    """The options that it names."""
    tried = [
        options for name, options in (("graph_breaks", SPLIT), ("fallback", {"fallback": "eager"}), ("shapes=", {"shapes": 100})) if name in text
    ]
    assert tried
    for options in tried:
        torch._dynamo.reset()
        as_in_eager_mode(model, *inputs, times=times, **options)


@needs_traced_gradients
@pytest.mark.parametrize("options", [{"budget": "100%"}, {"budget": "85%"}, SPLIT])
def test_forces_are_planned(options: dict[str, Any]) -> None:
    as_in_eager_mode(Forces(), torch.randn(64, 3, requires_grad=True), **options)
    assert not torch._dynamo.config.trace_autograd_ops, "it is the user's setting"


def test_forces_of_positions_that_the_model_makes() -> None:
    model, x = Forces(own=True), torch.randn(64, 3)
    text = refusal(copy.deepcopy(model), x)
    assert "graph_breaks" not in text, "a part would be differentiated twice"
    try_what_it_says(text, model, x)


def test_a_nested_tensor_among_the_arguments() -> None:
    values = [torch.randn(n, 16) for n in (5, 9, 30)]
    x = torch.nested.nested_tensor(values, layout=torch.jagged)
    text = refusal(Jagged(), x)
    assert "'x' is a nested tensor" in text
    assert "nested_tensor_from_jagged(values, offsets)" in text
    as_in_eager_mode(FromValues(), x.values().clone(), x.offsets().clone())


def test_an_average_of_all_batches() -> None:
    x = torch.randn(16, 8)
    text = refusal(Averaging(), x)
    assert "as a Python number (momentum=None" in text
    assert not re.search(r"\bu0\b|Symbol", text)
    try_what_it_says(text, Averaging(), x, times=2)
    torch._dynamo.reset()
    as_in_eager_mode(Averaging(0.1), x, times=2)


def doubled_if_few(x: torch.Tensor) -> torch.Tensor:
    few = x.shape[0] < 4 and x.shape[1] > 0
    return x * 2 if few else x


class Selecting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.first(x)[mask]
        return self.second(doubled_if_few(x)).square().mean()


def test_a_size_that_depends_on_data() -> None:
    inputs = torch.randn(16, 8), torch.arange(16) < 7
    text = refusal(Selecting(), *inputs)
    line = Selecting.forward.__code__.co_firstlineno + 1  # where it is made, not where PyTorch's tracing needs it
    assert f"a size that depends on data, such as how many elements a mask selects ({__file__}:{line})" in text
    try_what_it_says(text, Selecting(), *inputs)


def test_a_line_of_a_library(tmp_path: pathlib.Path) -> None:
    """The user's own line that led there is named with it, and the way that works."""
    file = tmp_path / "site-packages" / "helpers.py"
    file.parent.mkdir()
    file.write_text("def selected(x, mask):\n    return x[mask]\n")
    made = importlib.util.spec_from_file_location("helpers", file)
    helpers = importlib.util.module_from_spec(made)
    made.loader.exec_module(helpers)
    model = Model(lambda m, x, mask: m.layer(helpers.selected(x, mask)).square().mean(), layer=nn.Linear(8, 8))
    inputs = torch.randn(16, 8), torch.arange(16) < 7
    text = refusal(model, *inputs)
    line = test_a_line_of_a_library.__code__.co_firstlineno + 8
    assert f"({file}:2, from {__file__}:{line})" in text
    try_what_it_says(text, model, *inputs)


def test_a_ctc_loss_inside() -> None:
    inputs = torch.randn(12, 2, 8), torch.randint(1, 5, (2, 4)), torch.tensor([12, 12]), torch.tensor([4, 3])
    text = refusal(Reader(), *inputs)
    assert "CTC" in text
    assert "torch.where" not in text
    try_what_it_says(text, Reader(), *inputs)


def test_a_counter_among_attributes() -> None:
    text = refusal(Counting(), torch.randn(4, 8), times=12)
    assert "counters as buffers" in text
    as_in_eager_mode(Counting(buffer=True), torch.randn(4, 8), times=12)
    try_what_it_says(text.replace("graph_breaks", ""), Counting(), torch.randn(4, 8), times=12)


def test_a_wrong_feature_size_is_the_models_error() -> None:
    text = refusal(nn.Linear(10, 8), torch.randn(4, 12))
    assert "the model's own code is wrong for these arguments: built-in function linear raises RuntimeError" in text
    assert "10" in text
    assert "12" in text
    assert "graph_breaks" not in text
    assert "fallback" not in text


@pytest.mark.parametrize("function", [ct.compile, ct.backend])
def test_an_option_that_is_none_names_all_there_are(function: Any) -> None:
    given = (nn.Linear(2, 2), "50%") if function is ct.compile else ("50%",)
    with pytest.raises(TypeError, match=r'no option "optimiser"; there are optimizer, accumulate, .*verify, costs, .*progress$'):
        function(*given, optimiser=None)
