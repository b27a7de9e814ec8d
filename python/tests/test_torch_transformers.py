# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models as their users call them: labels go in, and a loss, logits and a cache come out."""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import physical  # noqa: E402

import checkmate.torch as ct  # noqa: E402

VOCABULARY = 3000


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def gpt2() -> Any:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # else it logs which loss it takes
    return model


def llama() -> Any:
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=4, max_position_embeddings=64)  # fmt: skip
    return transformers.LlamaForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {"gpt2": gpt2, "llama": llama}


def batch() -> dict[str, Any]:
    torch.manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (4, 64))
    return {"input_ids": ids, "labels": ids.clone()}


def outcome(model: Any, run: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(2)
    model.zero_grad(set_to_none=True)
    output = run(**batch())
    output.loss.backward()
    found = [output.loss.detach(), output.logits.detach(), *(p.grad.clone() for p in model.parameters())]
    model.zero_grad(set_to_none=True)
    return found


def measured(model: Any, run: Callable[..., Any]) -> int:
    """The physical peak of a step whose outputs are held to its end."""
    given = batch()
    held: list[Any] = []

    def step() -> None:
        held[:] = [run(**given)]
        held[0].loss.backward()

    step()
    model.zero_grad(set_to_none=True)
    held.clear()
    return physical.held_bytes(model, given.values()) + physical.allocator_peak(step)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_natural_call(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    expected = outcome(model, model)
    eager = measured(model, model)
    model.zero_grad(set_to_none=True)
    for budget in ("100%", "92%"):
        torch._dynamo.reset()
        compiled = ct.compile(model, budget, time_limit=2)
        found = outcome(model, compiled)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        (plan,) = ct.plans(compiled)
        assert "logits" in plan.detached
        assert plan.baseline_peak_bytes <= eager, "what is not differentiated must cost nothing"
        assert measured(model, compiled) <= plan.peak_bytes <= plan.budget_bytes
        model.zero_grad(set_to_none=True)


def test_the_cache_is_returned_as_it_is() -> None:
    torch.manual_seed(0)
    model = llama()
    compiled = ct.compile(model, "100%", costs="estimate", time_limit=1)
    ours, theirs = compiled(**batch()), model(**batch())
    assert type(ours) is type(theirs)
    for a, b in zip(ours.past_key_values.layers, theirs.past_key_values.layers, strict=True):
        assert torch.equal(a.keys, b.keys) and a.keys.requires_grad
    with pytest.raises(ct.UnsupportedError, match="is differentiated"):
        ours.past_key_values.layers[0].values.sum().backward()


def test_a_scan_that_only_compiled_code_does_is_not_planned() -> None:
    """Mamba goes through the positions one by one in eager mode; the plan does so too, with the same bits."""
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4)
    assert config.use_associative_scan
    model = transformers.MambaForCausalLM(config)
    ids = torch.randint(0, VOCABULARY, (2, 12))

    def step(run: Callable[..., Any]) -> Any:
        loss = run(input_ids=ids, labels=ids).loss
        loss.backward()
        return loss.detach()

    def gradients(run: Callable[..., Any]) -> list[Any]:
        model.zero_grad(set_to_none=True)
        return [step(run), *(p.grad.clone() for p in model.parameters())]

    expected = gradients(model)
    compiled = ct.compile(model, "100%", time_limit=1)
    assert all(torch.equal(a, b) for a, b in zip(gradients(compiled), expected, strict=True))
    assert config.use_associative_scan, "what is saved says what the user said"


@pytest.mark.parametrize("recorded", ["hidden_states", "router_logits"])
def test_what_a_model_records_from_its_first_call(recorded: str) -> None:
    """transformers installs the hooks that record under a lock, which cannot be traced."""
    config = transformers.Qwen3MoeConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, moe_intermediate_size=32, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=4, head_dim=8, num_experts=4, num_experts_per_tok=2)  # fmt: skip
    torch.manual_seed(0)
    model = transformers.Qwen3MoeForCausalLM(config)
    ids, asked = torch.randint(0, VOCABULARY, (2, 16)), {f"output_{recorded}": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = ct.compile(model, "100%", costs="estimate", time_limit=1)(input_ids=ids, labels=ids, **asked)
    theirs = model(input_ids=ids, labels=ids, **asked)
    assert len(ours[recorded]) == len(theirs[recorded]) > 1
    assert all(torch.equal(a, b) for a, b in zip(ours[recorded], theirs[recorded], strict=True))
    assert torch.equal(ours.loss, theirs.loss)


def test_grouped_queries_that_tracing_changes_are_told() -> None:
    """In eager mode attention has no mask, and takes fewer heads of keys; traced it has one, and heads are repeated."""
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=8,
                                      num_key_value_heads=2)  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, VOCABULARY, (2, 64))
    compiled = ct.compile(model, "100%", costs="estimate", time_limit=1)
    with pytest.warns(RuntimeWarning, match=r"other operators than in eager mode .*transformers.*py:\d+"):
        compiled(input_ids=ids, labels=ids, attention_mask=torch.ones_like(ids))
    assert model(input_ids=ids).logits.isfinite().all(), "the model is as it was"
