# SPDX-License-Identifier: Apache-2.0
"""What models do in addition to computing a loss: the same outputs, gradients, buffers, inputs and random numbers as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import Model, backward, difference, trace  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import checkmate.torch as ct  # noqa: E402

ROWS, WIDTH = 256, 32
Case = tuple[Model, list[Any], Callable[[Any], None]]
CASES: dict[str, tuple[Callable[[], Case], str]] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def case(budget: str = "70%", back: Callable[[Any], None] = backward) -> Callable[..., Any]:
    """A function that makes a model and its inputs; what holds most of its memory to the end gets all the budget."""

    def add(make: Callable[[], tuple[Model, list[Any]]]) -> Callable[..., Any]:
        CASES[make.__name__] = (lambda: (*make(), back), budget)
        return make

    return add


def body(layers: int = 6) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(layers)])


def rows(*shape: int) -> Any:
    return torch.randn(*(shape or (ROWS, WIDTH)))


@case()
def updates_of_buffers_and_inputs() -> Any:
    def run(self: Any, x: Any, y: Any) -> Any:
        self.count.add_(1)
        h = self.norm(self.first(x)).relu_() + 0
        h[:, 1] = 3.0
        h.index_put_((torch.tensor([0]),), torch.ones(WIDTH))
        self.history.mul_(0.9).add_(h.detach())
        y.mul_(2.0)
        return (self.body(h * 1) * self.history.clone() + y).sum()

    parts = {"first": nn.Linear(WIDTH, WIDTH), "norm": nn.BatchNorm1d(WIDTH), "count": torch.zeros(()), "history": torch.zeros(ROWS, WIDTH)}
    return Model(run, body=body(), **parts), [rows(), rows()]


@case()
def inplace_calls() -> Any:
    def run(self: Any, x: Any, i: Any) -> Any:
        for part in self.body:
            h = part(x).clone()
            h[i] += 1.0
            h.masked_fill_(h > 0.5, 0.1)
            h.scatter_(1, i[:, None] % WIDTH, h[:40, :1].detach() * 2)
            h.clamp_(-1, 1)
            h[:, :8].mul_(2).add_(h[:, 8:16])
            x = h
        return x.sum()

    return Model(run, body=body()), [rows(), torch.randint(0, ROWS, (40,))]


@case()
def parameters_updated_inside() -> Any:
    def run(self: Any, x: Any) -> Any:
        with torch.no_grad():
            self.weight.mul_(0.99)
        for part in self.body:
            x = part(x) @ self.weight
        return x.sum()

    return Model(run, body=body(), weight=nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)), [rows()]


@case(back=lambda losses: (losses[0] + losses[1]).backward())
def several_losses() -> Any:
    return Model(lambda self, x: (self.body(x).sum(), self.body(x).square().mean()), body=body()), [rows()]


def _one_by_one(losses: Any) -> None:
    losses[0].backward(retain_graph=True)
    losses[1].backward()


@case(back=_one_by_one)
def losses_one_by_one() -> Any:
    def run(self: Any, x: Any) -> Any:
        h = self.body(x)
        return h.sum(), self.head(h).square().mean()

    return Model(run, body=body(), head=nn.Linear(WIDTH, WIDTH)), [rows()]


@case()
def tied_weights() -> Any:
    embedding, head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50, bias=False)
    head.weight = embedding.weight

    def run(self: Any, i: Any) -> Any:
        return functional.cross_entropy(self.head(self.body(self.embedding(i))).flatten(0, 1), i.flatten())

    return Model(run, embedding=embedding, head=head, body=body()), [torch.randint(0, 50, (16, 16))]


@case("100%")
def frozen_parameters() -> Any:
    made = body()
    for p in made[:3].parameters():
        p.requires_grad_(False)
    return Model(lambda self, x: self.body(x).sum(), body=made), [rows()]


@case()
def inputs_with_gradients() -> Any:
    return Model(lambda self, x: self.body(x).sum(), body=body()), [rows().requires_grad_()]


@case()
def a_module_used_twice() -> Any:
    return Model(lambda self, x: self.body(self.body(x)).sum(), body=body(3)), [rows()]


@case("100%")
def outputs_of_all_kinds() -> Any:
    def run(self: Any, x: Any) -> Any:
        h = self.body(x)
        views = {"rows": h[:2], "names": [h.shape[0], "text"], "flat": h.view(-1)[:10]}
        return h.sum(), None, h.argmax(-1), h > 0, 3, h.detach(), torch.complex(h, h), views, x, self.body[0][0].weight

    return Model(run, body=body()), [rows()]


@case(back=lambda outputs: (outputs[0].sum() + outputs[1].square().sum()).backward())
def gradients_through_outputs() -> Any:
    return Model(lambda self, x: (self.body(x), self.head(x)), body=body(), head=body(3)), [rows()]


@case()
def parts_without_gradients() -> Any:
    def run(self: Any, x: Any) -> Any:
        h = self.body(x)
        with torch.no_grad():
            weights = self.head(h).softmax(-1)
        return (weights * h).sum()

    return Model(run, body=body(), head=nn.Linear(WIDTH, WIDTH)), [rows()]


class _Power(torch.autograd.Function):
    """With a gradient that is not the right one, which cannot come from deriving it again."""

    @staticmethod
    def forward(ctx: Any, x: Any, n: int) -> Any:
        ctx.save_for_backward(x)
        ctx.n = n
        return x.pow(n)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * ctx.n * x.pow(ctx.n - 1) * 0.5, None


@case()
def autograd_functions() -> Any:
    return Model(lambda self, x: _Power.apply(self.body(x), 3).sum() + _Power.apply(self.head(x), 2).mean(), body=body(), head=body(2)), [rows()]


@case()
def complex_numbers() -> Any:
    def run(self: Any, x: Any) -> Any:
        return torch.fft.ifft(torch.fft.fft(self.body(x)).abs() * torch.exp(1j * self.head(x))).real.sum()

    return Model(run, body=body(), head=body(2)), [rows()]


@case()
def inputs_that_are_no_tensors() -> Any:
    def run(self: Any, x: Any, i: Any, factor: float, chosen: bool) -> Any:
        return (self.body(x)[i] * factor).sum() if chosen else self.body(x).mean()

    return Model(run, body=body()), [rows(), torch.randint(0, ROWS, (40,)), 2.5, True]


@case()
def autocast_inside() -> Any:
    def run(self: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.body(x)
        return self.head(x.float()).sum()

    return Model(run, body=body(), head=body(2)), [rows()]


@case("100%")
def reparametrized_weights() -> Any:
    parts = {
        "convolution": nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 3, padding=1)),
        "linear": nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)),
    }
    return Model(lambda self, x: self.linear(functional.instance_norm(self.convolution(x)).tanh()).sum(), **parts), [rows(16, 8, 16)]


@case()
def random_numbers_like_others() -> Any:
    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = part(x)
            x = x * torch.rand_like(x) + torch.randn_like(x) * 0.1 + torch.bernoulli(torch.full_like(x, 0.3)) * torch.rand(ROWS, WIDTH)
        return x.sum()

    return Model(run, body=body()), [rows()]


@case()
def random_numbers_of_many_kinds() -> Any:
    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = part(x)
            x = x + x.gather(1, torch.multinomial(x.softmax(-1), 4)).sum(-1, keepdim=True) + torch.randint(0, 5, (ROWS, 1)).float()
            x = x + torch.normal(0.0, 1.0, (ROWS, WIDTH)) + torch.randperm(ROWS).float()[:, None] * 1e-3
            x = functional.dropout(x, 0.2) + functional.alpha_dropout(x, 0.1) + functional.rrelu(x, 0.1, 0.3, training=True)
            x = x + functional.gumbel_softmax(x) + torch.poisson(x.abs()) + torch.zeros_like(x).uniform_() + torch.empty_like(x).exponential_()
        return x.sum()

    return Model(run, body=body(4)), [rows()]


@case()
def dropout_of_attention() -> Any:
    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            q = part(x).unflatten(-1, (4, 8)).transpose(1, 2)
            x = x + functional.scaled_dot_product_attention(q, q, q, dropout_p=0.2, is_causal=True).transpose(1, 2).flatten(-2)
        return x.sum()

    return Model(run, body=body()), [rows(4, 64, WIDTH)]


@case()
def attention_with_its_weights() -> Any:
    def run(self: Any, x: Any) -> Any:
        for part in self.body:
            x = x + part(x, x, x, need_weights=True)[0]
        return x.sum()

    return Model(run, body=nn.ModuleList(nn.MultiheadAttention(WIDTH, 4, dropout=0.2, batch_first=True) for _ in range(4))), [rows(4, 32, WIDTH)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_as_in_eager_mode(name: str) -> None:
    make, budget = CASES[name]
    model, inputs, back = make()
    expected = trace(model, model, inputs, back)
    compiled = ct.compile(model, budget, time_limit=1.5, costs="estimate")
    assert not difference(trace(model, compiled, inputs, back), expected)
    (plan,) = ct.plans(compiled)
    assert plan.peak_bytes <= plan.budget_bytes
    assert bool(plan.recomputed) == (budget != "100%")
