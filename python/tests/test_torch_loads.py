# SPDX-License-Identifier: Apache-2.0
"""Frozen weights that lie in the second memory between their uses: results of eager mode, parameters that stay usable, no stale values."""

from __future__ import annotations

import copy
import io
import json
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.8")

from steps import Model, difference, trace  # noqa: E402
from torch import nn  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402
from checkmate.schedule import Schedule, Step  # noqa: E402
from checkmate.torch.compiler import backend_of  # noqa: E402
from checkmate.torch.memory import meter  # noqa: E402
from checkmate.torch.offload.weights import Weights  # noqa: E402

OPTIONS: dict[str, Any] = {"offload_speed": 4_000_000_000, "time_limit": 1.5, "costs": "estimate", "cache": False}
WIDTH, LAYERS = 128, 6
FROZEN = LAYERS * WIDTH * WIDTH * 4


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture(params=["host", "folder"])
def where(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    return "host" if request.param == "host" else str(tmp_path)


class Adapted(nn.Module):
    """A frozen layer next to a trained one."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.base(x) + self.up(self.down(x)))


def adapted() -> tuple[nn.Module, list[Any]]:
    body = nn.Sequential(*[Adapted() for _ in range(LAYERS)])
    return Model(lambda self, x: self.body(x).square().mean(), body=body), [torch.randn(16, WIDTH)]


def weights_of(compiled: Any) -> Weights:
    weights = backend_of(compiled).options.weights
    assert weights is not None
    return weights


def peak_of(model: nn.Module, compiled: Callable[..., Any], *inputs: Any, **named: Any) -> int:
    """As PyTorch's allocator reports it, with what lies in memory before the step."""

    def loss() -> torch.Tensor:
        out = compiled(*inputs, **named)
        return out if isinstance(out, torch.Tensor) else out.loss

    def step() -> None:
        loss().backward()

    model.zero_grad(set_to_none=True)
    weights = weights_of(compiled)
    held = meter.tensor_bytes([t for t in (*model.parameters(), *model.buffers()) if not weights.away(t)], inputs, named)
    measured = held + meter.allocated(step, torch.device("cpu"))
    model.zero_grad(set_to_none=True)
    return measured


def loads_of(plan: ct.Plan) -> int:
    return sum(op.kind == "load" for op in plan.graph.ops)


def test_more_frozen_weights_than_budget(where: str, tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    expected = trace(model, model, inputs)
    budget = FROZEN * 6 // 10
    compiled = ct.compile(model, budget, offload=where, **OPTIONS)
    assert not difference(trace(model, compiled, inputs, steps=3)[: len(expected) // 2], trace(model, model, inputs, steps=3)[: len(expected) // 2])
    assert not difference(trace(model, compiled, inputs), expected)
    (plan,) = ct.plans(compiled)
    assert loads_of(plan) == LAYERS
    assert sum(t.bytes == WIDTH * WIDTH * 4 for t in plan.graph.tensors) == LAYERS, "views of a weight take nothing"
    assert plan.schedule.verify(plan.graph, budget)
    assert plan.moved.loads >= LAYERS
    assert plan.moved.loaded_bytes >= FROZEN
    assert plan.moved.loads_waiting < plan.moved.loads, "the planner reads weights while operators run"
    assert "of frozen weights loaded in" in str(plan)
    assert peak_of(model, compiled, *inputs) <= budget < FROZEN
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_lora_of_peft_with_more_frozen_weights_than_budget(where: str) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=96, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=4, max_position_embeddings=32)  # fmt: skip
    base = transformers.LlamaForCausalLM(config)
    model = peft.get_peft_model(
        base, peft.LoraConfig(r=2, lora_alpha=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    usual = copy.deepcopy(model)
    frozen = sum(p.numel() * 4 for p in model.parameters() if not p.requires_grad)
    ids = torch.randint(0, 256, (2, 16))

    def train(model: Any, call: Any) -> list[torch.Tensor]:
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2)
        found: list[torch.Tensor] = []
        for step in range(3):
            torch.manual_seed(step)
            loss = call(input_ids=ids, labels=ids).loss
            loss.backward()
            found += [loss.detach().clone(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
            optimizer.step()
            optimizer.zero_grad()
        return [*found, *(p.detach().clone() for p in model.parameters())]

    optimizer_bytes = 2 * sum(p.numel() * 4 for p in model.parameters() if p.requires_grad)
    budget = frozen * 7 // 10
    compiled = ct.compile(model, budget, offload=where, fixed_bytes=optimizer_bytes, keep_outputs=False, **OPTIONS)
    assert not difference(train(model, compiled), train(usual, usual))
    assert peak_of(model, compiled, input_ids=ids, labels=ids) + optimizer_bytes <= budget < frozen
    with torch.no_grad():
        model.eval(), usual.eval()
        assert torch.equal(compiled(input_ids=ids).logits, usual(input_ids=ids).logits)


def test_parameters_stay_usable(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    before = copy.deepcopy(model.state_dict())
    compiled = ct.compile(model, FROZEN, offload=tmp_path, **OPTIONS)
    compiled(*inputs).backward()
    model.zero_grad()
    base = model.body[0].base
    assert weights_of(compiled).away(base.weight)
    assert base.weight.is_contiguous() and base.weight.data_ptr() % 64 == 0
    for state in (model.state_dict(), copy.deepcopy(model).state_dict()):
        assert all(torch.equal(value, before[name]) for name, value in state.items())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert all(torch.equal(value, before[name]) for name, value in torch.load(file).items())
    held = base.weight
    del compiled, model, base
    assert torch.equal(held, before["body.0.base.weight"]), "as long as somebody has the parameter"


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "in place": lambda base: base.weight.mul_(1.5),
    "through .data": lambda base: base.weight.data.add_(0.25),
    "other memory": lambda base: setattr(base.weight, "data", base.weight.data * 2),
    "state_dict": lambda base: base.load_state_dict({name: value * 3 for name, value in base.state_dict().items()}),
    "other parameters": lambda base: base.load_state_dict({name: value * 3 for name, value in base.state_dict().items()}, assign=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", CHANGES)
def test_weights_changed_by_hand_are_read_as_they_are(how: str, where: str) -> None:
    model, inputs = adapted()
    usual = copy.deepcopy(model)
    compiled = ct.compile(model, FROZEN, offload=where, **OPTIONS)
    compiled(*inputs).backward()
    model.zero_grad()
    with torch.no_grad():
        for one in (model, usual):
            for layer in one.body:
                CHANGES[how](layer.base)
                layer.base.requires_grad_(False)
    assert not difference(trace(model, compiled, inputs), trace(usual, usual, inputs))
    assert all(weights_of(compiled).away(layer.base.weight) for layer in model.body), "they were written again where they had other memory"
    assert peak_of(model, compiled, *inputs) <= FROZEN


def test_a_change_between_the_passes_is_the_error_of_eager_mode(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    compiled = ct.compile(model, FROZEN // 2, offload=tmp_path, **OPTIONS)
    loss = compiled(*inputs)
    with torch.no_grad():
        for layer in model.body:
            layer.base.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_weights_that_are_frozen_later_or_trained_again(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    layer = model.body[2]
    layer.base.requires_grad_(True)
    compiled = ct.compile(model, 3 * FROZEN, offload=tmp_path, **OPTIONS)
    for trained in (True, False, True):
        layer.base.requires_grad_(trained)
        assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
        assert weights_of(compiled).away(layer.base.weight) != trained
        assert loads_of(ct.plans(compiled)[-1 if not trained else 0]) == LAYERS - trained


def test_a_second_backward_pass(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    compiled = ct.compile(model, FROZEN * 6 // 10, offload=tmp_path, **OPTIONS)
    loss = compiled(*inputs)
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    loss.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(first, (p for p in model.parameters() if p.grad is not None), strict=True))


def test_weights_that_are_read_while_operators_run(where: str) -> None:
    """Also on their way between the passes; both passes, and a second backward pass, wait for what they read."""
    model, inputs = adapted()
    compiled = ct.compile(model, FROZEN // 2, offload=where, **OPTIONS)
    compiled(*inputs)
    graph, schedule = ct.plans(compiled)[0].graph, ct.plans(compiled)[0].schedule
    weight = {i: op.outputs[0] for i, op in enumerate(graph.ops) if op.kind == "load"}
    boundary = next(i for i, op in enumerate(graph.ops) if op.name == "boundary")
    steps: list[Step] = []
    for step in schedule.steps:
        if step.kind != "compute" or step.index not in weight:
            steps.append(step)
            continue
        crossing = next((at for at, earlier in enumerate(steps) if earlier == Step("compute", boundary)), len(steps))
        again = any(earlier.kind == "in" and earlier.index == weight[step.index] for earlier in steps[crossing:])
        steps.insert(len(steps) if again else crossing, Step("in", weight[step.index]))
        steps.append(Step("wait_in", weight[step.index]))
    moving = Schedule(steps)
    assert moving.verify(graph), moving.verify(graph).why
    torch._dynamo.reset()
    compiled = ct.compile(model, 10 * FROZEN, offload=where, **OPTIONS)
    made = backend_of(compiled)
    made.options = replace(made.options, given=moving)
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    (plan,) = ct.plans(compiled)
    assert plan.moved.loads > LAYERS
    assert plan.moved.loads_waiting == 0
    assert peak_of(model, compiled, *inputs) <= plan.peak_bytes
    loss = compiled(*inputs)
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    loss.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(first, (p for p in model.parameters() if p.grad is not None), strict=True))


def test_memory_that_somebody_else_holds_stays(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    state = model.state_dict()
    with pytest.warns(RuntimeWarning, match=r"stay in memory, and in the budget, .* such as a state_dict\(\)") as told:
        compiled = ct.compile(model, 3 * FROZEN, offload=tmp_path, **OPTIONS)
        compiled(*inputs).backward()
    assert len(told) == 1
    assert loads_of(ct.plans(compiled)[0]) == 0
    assert state["body.0.base.weight"].data_ptr() == model.body[0].base.weight.data_ptr()


def test_offload_memory_counts_weights_in_a_folder(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    with pytest.raises(checkmate.CheckmateError, match=rf"the frozen weights take [\d,]+ bytes of offload_memory={FROZEN - 1}"):
        ct.compile(model, FROZEN, offload=tmp_path, offload_memory=FROZEN - 1, **OPTIONS)
    compiled = ct.compile(model, FROZEN, offload=tmp_path, offload_memory=FROZEN + 5000, **OPTIONS)
    compiled(*inputs).backward()
    memory = ct.plans(compiled)[0].graph.second_memory
    assert memory is not None and memory.bytes == 5000


def test_weights_that_share_memory(where: str) -> None:
    model, inputs = adapted()
    model.body[1].base.weight = model.body[0].base.weight
    model.body[3].base.weight = nn.Parameter(model.body[2].base.weight.data, requires_grad=False)
    model.body[5].base.weight = nn.Parameter(model.body[4].base.weight.data.t(), requires_grad=False)
    model.body[4].base.weight.requires_grad_(True)  # what is trained stays, with all that lies in its memory
    compiled = ct.compile(model, 4 * FROZEN, offload=where, **OPTIONS)
    assert not difference(trace(model, compiled, inputs), trace(model, model, inputs))
    assert loads_of(ct.plans(compiled)[0]) == 2
    assert model.body[3].base.weight.data_ptr() == model.body[2].base.weight.data_ptr()


@pytest.mark.slow
def test_as_a_backend_and_in_parts(where: str) -> None:
    model, inputs = adapted()
    usual = copy.deepcopy(model)
    compiled = torch.compile(model, backend=ct.backend(FROZEN, offload=where, **OPTIONS), dynamic=False)
    assert not difference(trace(model, compiled, inputs), trace(usual, usual, inputs))

    def broken(self: Any, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.body):
            if i == LAYERS // 2:
                torch._dynamo.graph_break()
            x = layer(x)
        return x.square().mean()

    torch._dynamo.reset()
    model, inputs = adapted()
    model.function, usual = broken, copy.deepcopy(model)
    budget = 2 * FROZEN  # the first parts do not know what later ones need
    parts = ct.compile(model, budget, graph_breaks="split", offload=where, **OPTIONS)
    assert not difference(trace(model, parts, inputs), trace(usual, usual, inputs))
    assert len(ct.plans(parts)) > 1
    assert sum(loads_of(plan) for plan in ct.plans(parts)) >= LAYERS
    assert peak_of(model, parts, *inputs) <= budget


def test_explain_plans_loads_and_moves_nothing(tmp_path: pathlib.Path) -> None:
    model, inputs = adapted()
    places = [p.data_ptr() for p in model.parameters()]
    told: list[str] = []
    (folder := tmp_path / "disk").mkdir()
    ct.explain(model, inputs, budgets=2, budget=FROZEN * 6 // 10, show=told.append, offload=folder, report=tmp_path / "page.html", **OPTIONS)
    assert any("of frozen weights loaded in" in line for line in told), told
    assert places == [p.data_ptr() for p in model.parameters()]
    assert not list(folder.iterdir())
    page = (tmp_path / "page.html").read_text()
    assert all(f"load_body_{i}_base_weight" in page for i in range(LAYERS))
    assert f"offload={json.dumps(str(folder))}" in page.replace("\\u0022", '"').replace("&quot;", '"').replace('\\"', '"')
