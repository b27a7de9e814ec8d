# SPDX-License-Identifier: Apache-2.0
"""Models of transformers and diffusers, as those make them, with random weights: steps of some 0.3 to 0.6 s on one core.

Checkpointing every block is what the library's own switch does. The blocks are listed for selective checkpointing, which has
none. All return the loss alone, so that PyTorch's ways, too, have no more to keep.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from cases import CASES, Case


class OnlyLoss(nn.Module):
    """A model of transformers that is given labels."""

    def __init__(self, body: nn.Module, inputs: str) -> None:
        super().__init__()
        self.body, self.inputs = body, inputs

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.body(**{self.inputs: inputs}, labels=labels).loss

    def gradient_checkpointing_enable(self) -> None:
        self.body.gradient_checkpointing_enable()


class Denoising(nn.Module):
    """A U-Net of diffusers and the noise that it should find."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, noisy: torch.Tensor, time: torch.Tensor, text: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.body(noisy, time, text, return_dict=False)[0], noise)

    def gradient_checkpointing_enable(self) -> None:
        self.body.enable_gradient_checkpointing()


def tokens(batch: int = 8, length: int = 256, vocabulary: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randint(0, vocabulary, (batch, length))
    return x, x


def gpt2() -> Case:
    """GPT-2 of 8 layers, width 128, its dropout, 4 sequences of 256 tokens."""
    import transformers as hf

    config = hf.GPT2Config(vocab_size=1024, n_positions=256, n_embd=128, n_layer=8, n_head=4, use_cache=False,
                           bos_token_id=None, eos_token_id=None)  # fmt: skip
    body = hf.GPT2LMHeadModel(config)
    return Case(OnlyLoss(body, "input_ids"), tokens(batch=4), list(body.transformer.h))


def llama() -> Case:
    """Llama of 8 layers, width 128, 8 sequences of 256 tokens."""
    import transformers as hf

    config = hf.LlamaConfig(vocab_size=1024, hidden_size=128, intermediate_size=344, num_hidden_layers=8, num_attention_heads=4,
                            num_key_value_heads=4, max_position_embeddings=256, use_cache=False)  # fmt: skip
    body = hf.LlamaForCausalLM(config)
    return Case(OnlyLoss(body, "input_ids"), tokens(), list(body.model.layers))


def vit() -> Case:
    """ViT of 8 layers, width 128, 32 images of 64 x 64 in patches of 8 x 8."""
    import transformers as hf

    config = hf.ViTConfig(hidden_size=128, num_hidden_layers=8, num_attention_heads=4, intermediate_size=512, image_size=64, patch_size=8,
                          num_labels=10, problem_type="single_label_classification")  # fmt: skip  # else the first call sets it
    body = hf.ViTForImageClassification(config)
    blocks: Any = next(module for module in body.modules() if isinstance(module, nn.ModuleList) and len(module) == 8)
    return Case(OnlyLoss(body, "pixel_values"), (torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))), list(blocks))


def unet2d() -> Case:
    """UNet2DConditionModel of two levels, 32 and 64 channels, 4 latents of 32 x 32, a text of 8 tokens."""
    import diffusers

    body = diffusers.UNet2DConditionModel(
        sample_size=32, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8, cross_attention_dim=32, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    blocks = [*body.down_blocks, body.mid_block, *body.up_blocks]
    inputs = (torch.randn(4, 4, 32, 32), torch.randint(0, 1000, (4,)), torch.randn(4, 8, 32), torch.randn(4, 4, 32, 32))
    return Case(Denoising(body), inputs, blocks)


LIBRARY = {f.__name__: f for f in (gpt2, llama, vit, unet2d)}


def make(name: str) -> Case:
    """A case of either file, its weights drawn from seed 0."""
    torch.manual_seed(0)
    if name in CASES:
        return CASES[name]()
    return LIBRARY[name]()
