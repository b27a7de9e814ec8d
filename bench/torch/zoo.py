# SPDX-License-Identifier: Apache-2.0
"""Models of other libraries, as their users call them, one line each, with random weights.

Sizes are chosen so that a step takes a tenth of a second to one on a core and activations outweigh what has to be there
anyway. A case's function makes the model, what it is called with, and what becomes the loss.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

os.environ["HF_HUB_OFFLINE"] = "1"
VOCABULARY = 500


@dataclass
class Task:
    """A step is `loss(model(*args, **kwargs)).backward()`."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    loss: Callable[[Any], torch.Tensor] = lambda output: output.loss


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (batch, length))


def labelled(batch: int, length: int) -> dict[str, torch.Tensor]:
    ids = tokens(batch, length)
    return {"input_ids": ids, "labels": ids.clone()}


def hugging(model: str, config: str, given: dict[str, Any], **options: Any) -> Task:
    """A model of transformers made from a configuration."""
    import transformers

    transformers.logging.set_verbosity_error()
    return Task(getattr(transformers, model)(getattr(transformers, config)(**options)), kwargs=given)


def language(family: str, batch: int = 8, length: int = 128, **options: Any) -> Task:
    """A decoder with the loss inside, which also returns its cache and logits."""
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4}
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    model = options.pop("model", f"{family}ForCausalLM")
    return hugging(model, f"{family}Config", labelled(batch, length), vocab_size=VOCABULARY, **special, **(sizes | options))


def encoder(family: str, head: str, given: dict[str, Any], **options: Any) -> Task:
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
    return hugging(f"{family}For{head}", f"{family}Config", given, vocab_size=VOCABULARY, **(sizes | options))


def seq2seq(family: str, given: dict[str, Any], **options: Any) -> Task:
    return hugging(f"{family}ForConditionalGeneration", f"{family}Config", given, vocab_size=VOCABULARY, **options)


def speech(sound: torch.Tensor, *, frozen: bool = False) -> Task:
    """`frozen`: as the examples' scripts have it."""
    given = {"input_values": sound, "labels": torch.randint(0, 2, (len(sound),))}
    task = hugging("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", given, hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4, conv_dim=(64,) * 7, num_conv_pos_embeddings=32, mask_time_prob=0.0, layerdrop=0.0)
    if frozen:
        task.model.freeze_feature_encoder()
    return task


def pictures(batch: int, size: int, classes: int = 10) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(0, classes, (batch,))}


def classifier(model: nn.Module, batch: int, *size: int, loss: Callable[..., torch.Tensor] = functional.cross_entropy) -> Task:
    """A model of images whose loss is computed outside of it, as in the libraries' own training scripts."""
    target = torch.randint(0, 10, (batch,))
    return Task(model, (torch.randn(batch, 3, *size),), loss=lambda output: loss(output, target))


def timm(name: str, batch: int, size: int, **options: Any) -> Task:
    return classifier(importlib.import_module("timm").create_model(name, num_classes=10, **options), batch, size, size)


def torchvision(name: str, batch: int, *size: int, loss: Callable[..., torch.Tensor] = functional.cross_entropy, **options: Any) -> Task:
    models = importlib.import_module("torchvision.models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how weights are initialized
        made = getattr(models, name, None)  # a class, or else a name of one of its configurations
        model = made(num_classes=10, **options) if isinstance(made, type) else models.get_model(name, weights=None, num_classes=10, **options)
    return classifier(model, batch, *size, loss=loss)


@functools.cache
def allow_torchvision() -> bool:
    """Lets torchvision's wheel from PyPI, which is built for CUDA, be imported with a PyTorch for CPUs: transformers imports it too
    where it is installed. Its compiled part does not load there, and then its `_meta_registrations` fails, since it registers shapes of
    two operators that are not declared. They are declared here; none of these models calls them. False where torchvision is not installed."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        return False
    try:
        torch.ops.load_library(next(pathlib.Path(spec.origin or "").parent.glob("_C*.so")))
    except (StopIteration, OSError):
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return True


def every_output(output: Any, target: torch.Tensor) -> torch.Tensor:
    """As torchvision's script for classifiers with auxiliary heads."""
    return functional.cross_entropy(output.logits, target) + 0.3 * sum(functional.cross_entropy(o, target) for o in output[1:])


class EveryPixel(nn.Module):
    """A model with the loss of torchvision's script for segmentation inside, all pixels of an image of one class: logits of every
    pixel are too large for a loss that is not planned."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model = task.model

    def forward(self, images: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        found = [functional.cross_entropy(o, target[:, None, None].expand(-1, *o.shape[2:])) for o in self.model(images).values()]
        return sum(weight * loss for weight, loss in zip((1, 0.5), found))


def segmentation(task: Task) -> Task:
    return Task(EveryPixel(task), (*task.args, torch.randint(0, 10, (len(task.args[0]),))), loss=lambda loss: loss)


def denoising(name: str, *args: Any, wanted: torch.Tensor | None = None, call: dict[str, Any] | None = None, **options: Any) -> Task:
    """A model of diffusers that predicts noise: the mean square is computed outside of it, as in the examples' scripts."""
    model = getattr(importlib.import_module("diffusers"), name)(**options)
    noise = torch.randn_like(args[0] if wanted is None else wanted)
    return Task(model, args, call or {}, lambda output: functional.mse_loss(output.sample, noise))


class Reconstruction(nn.Module):
    """An autoencoder with its loss inside: images are as large as activations."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model = task.model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.model(images).sample, images)


def reconstruction(task: Task) -> Task:
    return Task(Reconstruction(task), task.args, loss=lambda loss: loss)


def times(batch: int) -> torch.Tensor:
    return torch.randint(0, 1000, (batch,))


def tuned(task: Task, config: str, **options: Any) -> Task:
    """With an adapter of peft."""
    peft = importlib.import_module("peft")
    task.model = peft.get_peft_model(task.model, getattr(peft, config)(**options))
    return task


#: Library, and what makes the task.
CASES: dict[str, tuple[str, Callable[[], Task]]] = {
    "GPT-2": ("transformers", lambda: language("GPT2", model="GPT2LMHeadModel", n_embd=128, n_layer=4, n_head=4, n_positions=128)),
    "Llama": ("transformers", lambda: language("Llama")),
    "Llama, grouped queries": ("transformers", lambda: language("Llama", num_key_value_heads=2)),
    "Mistral": ("transformers", lambda: language("Mistral", num_key_value_heads=2, sliding_window=64)),
    "Qwen3": ("transformers", lambda: language("Qwen3", head_dim=32)),
    "Gemma 2": ("transformers", lambda: language("Gemma2", head_dim=32, sliding_window=64)),
    "Phi": ("transformers", lambda: language("Phi")),
    "OPT": ("transformers", lambda: language("OPT", word_embed_proj_dim=128, ffn_dim=512)),
    "GPT-NeoX": ("transformers", lambda: language("GPTNeoX")),
    "Bloom": ("transformers", lambda: language("Bloom", n_layer=4, n_head=4)),
    "Mixtral": ("transformers", lambda: language("Mixtral", 8, num_hidden_layers=2, num_local_experts=4)),
    "Mamba": ("transformers", lambda: language("Mamba", 2, 32, hidden_size=64, num_hidden_layers=2, state_size=8)),
    "BERT": ("transformers", lambda: encoder("Bert", "MaskedLM", labelled(8, 128))),
    "RoBERTa": ("transformers", lambda: encoder("Roberta", "SequenceClassification", {"input_ids": tokens(8, 128), "labels": tokens(8, 1)[:, 0] % 2}, max_position_embeddings=140)),
    "DistilBERT": ("transformers", lambda: encoder("DistilBert", "QuestionAnswering", {"input_ids": tokens(8, 128), "start_positions": tokens(8, 1)[:, 0] % 128, "end_positions": tokens(8, 1)[:, 0] % 128}, dim=128, hidden_dim=512, n_layers=4, n_heads=4)),
    "DeBERTa-v2": ("transformers", lambda: encoder("DebertaV2", "TokenClassification", {"input_ids": tokens(4, 128), "labels": tokens(4, 128) % 2}, num_hidden_layers=2, relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "T5": ("transformers", lambda: seq2seq("T5", labelled(8, 96), d_model=128, d_kv=32, d_ff=384, num_layers=2, num_heads=4, decoder_start_token_id=0)),
    "BART": ("transformers", lambda: seq2seq("Bart", labelled(8, 96), d_model=128, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=384, decoder_ffn_dim=384, encoder_attention_heads=4, decoder_attention_heads=4)),
    "Whisper": ("transformers", lambda: seq2seq("Whisper", {"input_features": torch.randn(4, 80, 400), "labels": tokens(4, 48)}, d_model=128, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=384, decoder_ffn_dim=384, encoder_attention_heads=4, decoder_attention_heads=4, max_source_positions=200, pad_token_id=2, bos_token_id=0, eos_token_id=1, decoder_start_token_id=3)),
    "wav2vec 2.0": ("transformers", lambda: speech(torch.randn(2, 32000))),
    "wav2vec 2.0, features frozen": ("transformers", lambda: speech(torch.randn(2, 32000), frozen=True)),
    "ViT": ("transformers", lambda: hugging("ViTForImageClassification", "ViTConfig", pictures(8, 96, 2), image_size=96, patch_size=8, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4)),
    "Swin": ("transformers", lambda: hugging("SwinForImageClassification", "SwinConfig", pictures(8, 64, 2), image_size=64, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)),
    "SegFormer": ("transformers", lambda: hugging("SegformerForSemanticSegmentation", "SegformerConfig", {"pixel_values": torch.randn(8, 3, 128, 128), "labels": torch.randint(0, 2, (8, 128, 128))}, hidden_sizes=[16, 32, 64, 128], decoder_hidden_size=64, num_attention_heads=[1, 2, 4, 8])),
    "CLIP": ("transformers", lambda: hugging("CLIPModel", "CLIPConfig", {"input_ids": tokens(16, 32), "pixel_values": torch.randn(16, 3, 64, 64), "return_loss": True}, text_config={"vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 32}, vision_config={"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 64, "patch_size": 8})),
    "ResNet-18 (timm)": ("timm", lambda: timm("resnet18", 16, 96, channels=(16, 32, 64, 128))),
    "ViT-Ti/16 (timm)": ("timm", lambda: timm("vit_tiny_patch16_224", 8, 128, img_size=128, depth=6)),
    "ConvNeXt-Atto": ("timm", lambda: timm("convnext_atto", 8, 96)),
    "EfficientNet-B0 (timm)": ("timm", lambda: timm("efficientnet_b0", 8, 96, drop_rate=0.2, drop_path_rate=0.2)),
    "EdgeNeXt-XX-Small": ("timm", lambda: timm("edgenext_xx_small", 8, 128)),
    "Swin (timm)": ("timm", lambda: timm("swin_tiny_patch4_window7_224", 4, 112, img_size=112, embed_dim=48, depths=(2, 2), num_heads=(2, 4))),
    "MobileNetV3-Small (timm)": ("timm", lambda: timm("mobilenetv3_small_100", 16, 96)),
    "RegNetY-002": ("timm", lambda: timm("regnety_002", 8, 96)),
    "CoaT-Lite-Tiny": ("timm", lambda: timm("coat_lite_tiny", 8, 96, img_size=96)),
    "MobileNetV2": ("torchvision", lambda: torchvision("mobilenet_v2", 8, 96, 96)),
    "ShuffleNetV2": ("torchvision", lambda: torchvision("shufflenet_v2_x0_5", 16, 96, 96)),
    "SqueezeNet": ("torchvision", lambda: torchvision("squeezenet1_1", 8, 128, 128)),
    "DenseNet": ("torchvision", lambda: torchvision("DenseNet", 8, 96, 96, growth_rate=16, block_config=(4, 6, 8), num_init_features=32)),
    "GoogLeNet": ("torchvision", lambda: torchvision("googlenet", 16, 96, 96, loss=every_output, init_weights=False)),
    "Swin (torchvision)": ("torchvision", lambda: torchvision("SwinTransformer", 8, 96, 96, patch_size=[4, 4], embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=[6, 6])),
    "MobileNetV3-Small": ("torchvision", lambda: torchvision("mobilenet_v3_small", 16, 96, 96)),
    "LR-ASPP": ("torchvision", lambda: segmentation(torchvision("lraspp_mobilenet_v3_large", 8, 128, 128, weights_backbone=None))),
    "DeepLabV3": ("torchvision", lambda: segmentation(torchvision("deeplabv3_mobilenet_v3_large", 4, 128, 128, aux_loss=True, weights_backbone=None))),
    "UNet2D": ("diffusers", lambda: denoising("UNet2DModel", torch.randn(4, 3, 32, 32), times(4), block_out_channels=(32, 64), layers_per_block=1, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8, sample_size=32)),
    "UNet2DCondition": ("diffusers", lambda: denoising("UNet2DConditionModel", torch.randn(4, 4, 32, 32), times(4), torch.randn(4, 16, 64), block_out_channels=(32, 64), layers_per_block=1, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=64, attention_head_dim=8, norm_num_groups=8, sample_size=32)),
    "AutoencoderKL": ("diffusers", lambda: reconstruction(denoising("AutoencoderKL", torch.randn(4, 3, 32, 32), block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8))),
    "DiT": ("diffusers", lambda: denoising("DiTTransformer2DModel", torch.randn(16, 4, 16, 16), call={"timestep": times(16), "class_labels": torch.randint(0, 10, (16,))}, num_attention_heads=4, attention_head_dim=32, in_channels=4, out_channels=4, num_layers=4, sample_size=16, patch_size=2, num_embeds_ada_norm=1000)),
    "Flux": ("diffusers", lambda: denoising("FluxTransformer2DModel", torch.randn(4, 192, 16), call={"encoder_hidden_states": torch.randn(4, 16, 32), "pooled_projections": torch.randn(4, 32), "timestep": torch.rand(4), "img_ids": torch.zeros(192, 3), "txt_ids": torch.zeros(16, 3)}, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=32, num_attention_heads=4, joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 12, 16))),
    "Llama with LoRA": ("peft", lambda: tuned(language("Llama"), "LoraConfig", r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")),
    "GPT-2 with LoRA": ("peft", lambda: tuned(language("GPT2", model="GPT2LMHeadModel", n_embd=128, n_layer=4, n_head=4, n_positions=128), "LoraConfig", r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")),
    "BERT with IA3": ("peft", lambda: tuned(encoder("Bert", "MaskedLM", labelled(8, 128)), "IA3Config", target_modules=["key", "value", "output.dense"], feedforward_modules=["output.dense"])),
    "Qwen3 with prompts": ("peft", lambda: tuned(language("Qwen3", head_dim=32, length=96), "PromptTuningConfig", num_virtual_tokens=16, task_type="CAUSAL_LM")),
    "ViT with DoRA": ("peft", lambda: tuned(hugging("ViTForImageClassification", "ViTConfig", pictures(8, 96, 2), image_size=96, patch_size=8, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4), "LoraConfig", r=8, use_dora=True, target_modules=["q_proj", "v_proj"])),
}


def make(name: str) -> Task:
    allow_torchvision()
    torch.manual_seed(0)
    task = CASES[name][1]()
    task.model.train()
    return task
