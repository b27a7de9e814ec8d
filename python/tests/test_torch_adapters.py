# SPDX-License-Identifier: Apache-2.0
"""Training with peft and with diffusers, as their own examples write it, of a model that is compiled in place: what is trained
equals what eager mode trains, and what is saved loads back equal."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")

import checkmate.torch as ct  # noqa: E402

FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 1, "inplace": True}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and len(a) > 0 and all(torch.equal(a[name], b[name]) for name in a)


def lower(model: Any) -> Any:
    """The model's only plan, which is not that of all values kept."""
    (plan,) = ct.plans(model)
    assert plan.recomputed and plan.peak_bytes <= plan.budget_bytes < plan.baseline_peak_bytes
    return plan


def gpt2() -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def with_lora() -> Any:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    return peft.get_peft_model(gpt2(), config)


def train_lora(budget: str | None) -> Any:
    model = with_lora()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if budget is not None:
        ct.compile(model, budget, optimizer=optimizer, **FAST)
    model.train()
    for seed in range(3):
        torch.manual_seed(seed)
        ids = torch.randint(0, 512, (8, 64))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def test_lora_of_peft(tmp_path: pathlib.Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    usual = train_lora(None)
    model = train_lora("60%")
    plan = lower(model)
    assert isinstance(model, peft.PeftModel) and "logits" in plan.detached
    trained = peft.get_peft_model_state_dict(model)
    assert same(trained, peft.get_peft_model_state_dict(usual))
    assert any(name.endswith("lora_B.weight") and value.any() for name, value in trained.items()), "else nothing was trained"

    model.save_pretrained(str(tmp_path))
    back = peft.PeftModel.from_pretrained(gpt2(), str(tmp_path))
    assert same(peft.get_peft_model_state_dict(back), trained)
    ids = torch.randint(0, 512, (2, 64))
    with torch.no_grad():
        expected = usual.eval()(input_ids=ids).logits
        assert torch.equal(back.eval()(input_ids=ids).logits, expected)
        assert torch.equal(model.eval()(input_ids=ids).logits, expected)
    assert same(model.merge_and_unload().state_dict(), usual.merge_and_unload().state_dict())


def test_budgets_of_lora_count_what_is_trained() -> None:
    """The optimizer is given all parameters, as scripts do, and holds state of those that are trained."""
    model = with_lora()
    optimizer = torch.optim.AdamW(model.parameters())
    trained = [p for p in model.parameters() if p.requires_grad]
    assert 0 < sum(p.numel() for p in trained) < sum(p.numel() for p in model.parameters()) / 10
    assert ct.optimizer_bytes(optimizer) == sum(2 * 4 * p.numel() + 4 for p in trained)


def train_noise(budget: str | None) -> tuple[Any, Any, Any]:
    """The structure of diffusers' train_unconditional.py: accelerate, an average of the weights, and the loss outside of the model."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    training = pytest.importorskip("diffusers.training_utils")
    torch.manual_seed(0)
    model = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), dropout=0.1,
    )  # fmt: skip
    averaged = training.EMAModel(model.parameters(), use_ema_warmup=True, inv_gamma=1.0, power=0.75)
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = accelerator.prepare(model, optimizer)
    if budget is not None:
        ct.compile(model, budget, optimizer=optimizer, accumulate=True, **FAST)
    model.train()
    for seed in range(4):
        torch.manual_seed(seed)
        images = torch.randn(4, 3, 16, 16)
        noise, steps = torch.randn_like(images), torch.randint(0, 100, (4,))
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(scheduler.add_noise(images, noise, steps), steps).sample, noise)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            averaged.step(model.parameters())
    return accelerator.unwrap_model(model), averaged, scheduler


@pytest.mark.slow
def test_a_unet_of_diffusers(tmp_path: pathlib.Path) -> None:
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    usual, usually_averaged, _ = train_noise(None)
    model, averaged, scheduler = train_noise("70%")
    lower(model)
    assert type(model) is diffusers.UNet2DModel
    assert same(model.state_dict(), usual.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(averaged.shadow_params, usually_averaged.shadow_params, strict=True))

    diffusers.DDPMPipeline(unet=model, scheduler=scheduler).save_pretrained(str(tmp_path))
    back = diffusers.DDPMPipeline.from_pretrained(str(tmp_path)).unet
    assert same(back.state_dict(), usual.state_dict())
    averaged.store(model.parameters())
    averaged.copy_to(model.parameters())
    model.save_pretrained(str(tmp_path / "averaged"))
    averaged.restore(model.parameters())
    assert same(model.state_dict(), usual.state_dict())
    names = [name for name, _ in model.named_parameters()]
    shadow = diffusers.UNet2DModel.from_pretrained(str(tmp_path / "averaged")).state_dict()
    assert all(torch.equal(shadow[name], value) for name, value in zip(names, averaged.shadow_params, strict=True))
