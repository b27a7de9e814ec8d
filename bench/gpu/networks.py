# SPDX-License-Identifier: Apache-2.0
"""The networks that are measured on a GPU, from plain torch.nn: each in its full size, and small enough for a CPU.

What bench/torch/cases.py has is taken from there. A network ends in its loss; `scale` multiplies the batch of the full size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

import cases
from cases import Case


class Norm(nn.Module):
    """Root mean square (Zhang and Sennrich 2019), in single precision as Llama has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).type_as(x)


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.groups, each = heads, groups, width // heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.query, self.key, self.value = (nn.Linear(width, n * each, bias=False) for n in (heads, groups, groups))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q = rotated(self.query(y).view(batch, length, self.heads, -1).transpose(1, 2), cosine, sine)
        k = rotated(self.key(y).view(batch, length, self.groups, -1).transpose(1, 2), cosine, sine)
        v = self.value(y).view(batch, length, self.groups, -1).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder in the manner of Llama 3.2 1B (grouped queries, rotary positions, gated perceptron, tied embedding)."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), Norm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups, hidden) for _ in range(depth))
        each = width // heads
        angles = torch.outer(torch.arange(length), 5e5 ** (-torch.arange(0, each, 2) / each))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Vision(nn.Module):
    """A ViT (Dosovitskiy et al. 2021) without dropout, its patches averaged."""

    def __init__(self, image: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn((image // patch) ** 2, width))
        self.layers = nn.ModuleList(cases.Layer(width, heads, causal=False, dropout=0.0) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


class Bottleneck(nn.Module):
    """Of a ResNet-50 (He et al. 2016), the stride on the middle convolution as usual; activations in place."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class Attended(nn.Module):
    """A residual convolution block with a time embedding, followed by attention over positions."""

    def __init__(self, inner: int, outer: int, time: int, groups: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(time, outer)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()
        self.heads = heads
        if heads:
            self.norm3, self.qkv, self.out = nn.GroupNorm(groups, outer), nn.Conv2d(outer, 3 * outer, 1), nn.Conv2d(outer, outer, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(time))[:, :, None, None]
        x = self.shortcut(x) + self.conv2(functional.silu(self.norm2(y)))
        if not self.heads:
            return x
        batch, width, rows, columns = x.shape
        q, k, v = self.qkv(self.norm3(x)).view(batch, 3, self.heads, width // self.heads, rows * columns).permute(1, 0, 2, 4, 3)
        attended = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(attended.transpose(2, 3).reshape(batch, width, rows, columns))


class Denoiser(nn.Module):
    """A U-Net that finds the noise in latents (Ho et al. 2020, Rombach et al. 2022), without the text."""

    def __init__(self, widths: list[int], latents: int, groups: int, heads: int) -> None:
        super().__init__()
        time = 4 * widths[0]
        self.width = widths[0]
        self.time = nn.Sequential(nn.Linear(self.width, time), nn.SiLU(), nn.Linear(time, time))
        self.stem = nn.Conv2d(latents, widths[0], 3, padding=1)
        ins = [widths[0], *widths[:-1]]
        # Attention only where positions are few, as usual: below the first level.
        self.down = nn.ModuleList(Attended(a, b, time, groups, heads * (i > 0)) for i, (a, b) in enumerate(zip(ins, widths, strict=True)))
        self.fewer = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1])
        self.middle = Attended(widths[-1], widths[-1], time, groups, heads)
        self.up = nn.ModuleList(Attended(2 * b, a, time, groups, heads * (i > 0)) for i, (a, b) in reversed(list(enumerate(zip(ins, widths, strict=True)))))
        self.more = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for w in reversed(widths[:-1]))
        self.norm, self.head = nn.GroupNorm(groups, widths[0]), nn.Conv2d(widths[0], latents, 3, padding=1)

    def forward(self, noisy: torch.Tensor, step: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-math.log(1e4) * torch.arange(self.width // 2, device=step.device) / (self.width // 2))
        angles = step[:, None] * frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1).to(noisy.dtype))
        x, skips = self.stem(noisy), []
        for i, block in enumerate(self.down):
            x = block(x, time)
            skips.append(x)
            if i < len(self.fewer):
                x = self.fewer[i](x)
        x = self.middle(x, time)
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, skips.pop()], 1), time)
            if i < len(self.more):
                x = self.more[i](functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return functional.mse_loss(self.head(functional.silu(self.norm(x))).float(), noise.float())


@dataclass
class Network:
    full: Callable[[float], Case]
    small: Callable[[], Case]


def _batch(whole: int, scale: float) -> int:
    return max(1, round(whole * scale))


def _gpt(vocabulary: int, batch: int, length: int, width: int, depth: int, dtype: torch.dtype) -> Case:
    model = cases.GPT(vocabulary, length, width, depth, max(1, width // 64)).to(dtype)
    return Case(model, (torch.randint(0, vocabulary, (batch, length)),), list(model.layers))


def _llama(vocabulary: int, batch: int, length: int, width: int, depth: int, heads: int, hidden: int) -> Case:
    model = Llama(vocabulary, length, width, depth, heads, heads // 4, hidden).to(torch.bfloat16)
    return Case(model, (torch.randint(0, vocabulary, (batch, length)),), list(model.layers))


def _images(body: nn.Module, batch: int, image: int, classes: int, dtype: torch.dtype, blocks: list[nn.Module], *, last: bool = False) -> Case:
    layout = torch.channels_last if last else torch.contiguous_format
    model = cases.Loss(body).to(dtype=dtype, memory_format=layout)
    x = torch.randn(batch, 3, image, image).to(dtype=dtype, memory_format=layout)
    return Case(model, (x, torch.randint(0, classes, (batch,))), blocks)


def _vit(batch: int, image: int, patch: int, width: int, depth: int, classes: int, dtype: torch.dtype) -> Case:
    body = Vision(image, patch, width, depth, max(1, width // 64), classes)
    return _images(body, batch, image, classes, dtype, list(body.layers))


def _resnet(batch: int, image: int, width: int, depths: list[int], classes: int) -> Case:
    inner, blocks = width, []
    for level, depth in enumerate(depths):
        for i in range(depth):
            blocks.append(Bottleneck(inner, width << level, 2 if i == 0 and level else 1))
            inner = 4 * (width << level)
    stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    body = nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))
    return _images(body, batch, image, classes, torch.float32, list(blocks), last=True)


def _denoiser(batch: int, image: int, widths: list[int], groups: int, heads: int, dtype: torch.dtype) -> Case:
    model = Denoiser(widths, 4, groups, heads).to(dtype)
    inputs = (torch.randn(batch, 4, image, image, dtype=dtype), torch.randint(0, 1000, (batch,)), torch.randn(batch, 4, image, image, dtype=dtype))
    return Case(model, inputs, [*model.down, model.middle, *model.up])


def _bert(vocabulary: int, batch: int, length: int, width: int, depth: int, dtype: torch.dtype) -> Case:
    model = cases.Encoder(vocabulary, length, width, depth, max(1, width // 64)).to(dtype)
    return Case(model, tuple(torch.randint(0, vocabulary, (batch, length)) for _ in range(2)), list(model.layers))


def _mixer(batch: int, image: int, patch: int, width: int, depth: int, dtype: torch.dtype) -> Case:
    body = cases.Mixer(image, patch, width, depth)
    return _images(body, batch, image, 10, dtype, list(body.layers))


def _segmentation(batch: int, image: int, width: int) -> Case:
    body = cases.UNet(width=width)
    labels = torch.randint(0, 4, (batch, image, image))
    return Case(cases.Loss(body), (torch.randn(batch, 3, image, image), labels), [*body.down, body.bottom, *body.merge])


_F32, _BF16 = torch.float32, torch.bfloat16

#: Titles are in command.py.
NETWORKS = {
    "gpt2": Network(lambda s: _gpt(50257, _batch(8, s), 1024, 1024, 24, _BF16), lambda: _gpt(256, 4, 64, 64, 3, _F32)),
    "resnet50": Network(lambda s: _resnet(_batch(128, s), 224, 64, [3, 4, 6, 3], 1000), lambda: _resnet(8, 64, 8, [1, 1, 1, 1], 10)),
    "llama": Network(lambda s: _llama(128256, _batch(4, s), 2048, 2048, 16, 32, 8192), lambda: _llama(256, 2, 64, 64, 3, 4, 128)),
    "vit": Network(lambda s: _vit(_batch(64, s), 224, 16, 1024, 24, 1000, _BF16), lambda: _vit(8, 32, 4, 64, 3, 10, _F32)),
    "diffusion": Network(lambda s: _denoiser(_batch(16, s), 64, [320, 640, 1280, 1280], 32, 8, _BF16),
                         lambda: _denoiser(2, 16, [32, 64], 8, 4, _F32)),
    "bert": Network(lambda s: _bert(30522, _batch(32, s), 512, 768, 12, _BF16), lambda: _bert(256, 4, 64, 64, 3, _F32)),
    "mixer": Network(lambda s: _mixer(_batch(128, s), 224, 16, 768, 12, _BF16), lambda: _mixer(8, 32, 4, 64, 3, _F32)),
    "segmentation": Network(lambda s: _segmentation(_batch(8, s), 512, 64), lambda: _segmentation(2, 64, 8)),
}  # fmt: skip


def make(name: str, device: torch.device, *, small: bool, scale: float) -> Case:
    torch.manual_seed(0)
    with torch.device("cpu"):  # the same numbers everywhere
        case = NETWORKS[name].small() if small else NETWORKS[name].full(scale)
    case.model.to(device).train()
    case.inputs = tuple(x.to(device) for x in case.inputs)
    return case
