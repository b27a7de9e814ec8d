# SPDX-License-Identifier: Apache-2.0
"""The networks that are compared, from plain torch.nn, sized so that activations outweigh parameters.

Each entry makes a module that ends in its loss, its inputs, and the blocks that a user would wrap in
`torch.utils.checkpoint`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Case:
    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    blocks: list[nn.Module]


class Loss(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.body(x), labels)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.norm2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet() -> Case:
    """A ResNet-18 (He et al. 2016) of width 16, 128 images of 32 x 32."""
    widths = [16, 16, 16, 32, 32, 64, 64, 128, 128]
    blocks = [Residual(a, b, 1 + (a != b)) for a, b in itertools.pairwise(widths)]
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    body = nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return Case(Loss(body), (torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))), list(blocks))


def double(inner: int, outer: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
        nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, classes: int = 4, width: int = 8, depth: int = 4) -> None:
        super().__init__()
        widths = [3, *(width << i for i in range(depth + 1))]
        self.down = nn.ModuleList(double(a, b) for a, b in itertools.pairwise(widths[:-1]))
        self.bottom = double(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[1:-1]))
        self.merge = nn.ModuleList(double(2 * w, w) for w in reversed(widths[1:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = functional.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


def unet() -> Case:
    """A U-Net (Ronneberger et al. 2015) of 4 levels, 16 images of 128 x 128, a label for every pixel."""
    body = UNet()
    return Case(Loss(body), (torch.randn(16, 3, 128, 128), torch.randint(0, 4, (16, 128, 128))), [*body.down, body.bottom, *body.merge])


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, *, causal: bool = True, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.dropout(self.out(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def gpt(depth: int = 8, width: int = 128, batch: int = 8, length: int = 256) -> Case:
    """A decoder in the manner of GPT-2 (Radford et al. 2019), 8 layers of width 128, dropout, 8 sequences of 256 tokens."""
    model = GPT(512, length, width, depth, max(1, width // 32))
    return Case(model, (torch.randint(0, 512, (batch, length)),), list(model.layers))


class Encoder(nn.Module):
    """BERT-like: PyTorch's own encoder layers over embedded tokens, a label for every token."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True) for _ in range(depth)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def encoder() -> Case:
    """A BERT-like encoder of 6 layers, width 128, dropout in the attention, 16 sequences of 128 tokens."""
    model = Encoder(512, 128, 128, 6, 4)
    return Case(model, (torch.randint(0, 512, (16, 128)), torch.randint(0, 512, (16, 128))), list(model.layers))


class Mixing(nn.Module):
    """A layer of an MLP-Mixer (Tolstikhin et al. 2021): a perceptron across patches, then one across channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.within = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, image: int, patch: int, width: int, depth: int, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*(Mixing((image // patch) ** 2, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem(images).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


def mixer() -> Case:
    """An MLP-Mixer of 8 layers, width 128, 64 images of 64 x 64 in patches of 8 x 8."""
    body = Mixer(64, 8, 128, 8)
    return Case(Loss(body), (torch.randn(64, 3, 64, 64), torch.randint(0, 10, (64,))), list(body.layers))


class Inverted(nn.Module):
    """An inverted residual with a linear bottleneck (Sandler et al. 2018); its activations are in place, as usual."""

    def __init__(self, inner: int, outer: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inner * expand
        self.layers = nn.Sequential(
            nn.Conv2d(inner, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.skip = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.skip else self.layers(x)


def mobilenet() -> Case:
    """A MobileNetV2-like network of 10 blocks, 32 images of 64 x 64."""
    plan = [(16, 16, 1, 1), (16, 24, 2, 6), (24, 24, 1, 6), (24, 32, 2, 6), (32, 32, 1, 6), (32, 32, 1, 6), (32, 64, 2, 6), (64, 64, 1, 6),
            (64, 64, 1, 6), (64, 96, 1, 6)]  # fmt: skip
    blocks = [Inverted(*row) for row in plan]
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(inplace=True))
    body = nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, 10))
    return Case(Loss(body), (torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))), list(blocks))


CASES: dict[str, Callable[[], Case]] = {f.__name__: f for f in (resnet, unet, mobilenet, gpt, encoder, mixer)}
