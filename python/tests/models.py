# SPDX-License-Identifier: Apache-2.0
"""Small models that end in their loss: what `checkmate.torch` is tested on, each with its inputs, and some it cannot trace whole."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))

import itertools

import torch_gpt
import torch_resnet
import torch_unet

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Loss(nn.Module):
    def __init__(self, body: nn.Module, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.loss(self.body(x), target)


def resnet() -> Made:
    return torch_resnet.ResNet(width=8, depth=2), (torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))


def gpt() -> Made:
    return torch_gpt.GPT(vocabulary=128, length=64, width=64, depth=3), (torch.randint(0, 128, (8, 64)),)


def unet() -> Made:
    return torch_unet.UNet(width=8, depth=2, blocks=2), (torch.randn(4, 3, 48, 48), torch.rand(4, 3, 48, 48))


def perceptron() -> Made:
    layers = [nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(12)]
    return Loss(nn.Sequential(*layers), functional.mse_loss), (torch.randn(2048, 256), torch.randn(2048, 256))


def encoder() -> Made:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return Loss(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), functional.mse_loss), (torch.randn(8, 64, 64), torch.randn(8, 64, 64))


def depthwise() -> Made:
    def block(inner: int, outer: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(inplace=True),
            nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU6(inplace=True),
        )  # fmt: skip

    body = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), block(16, 32, 1), block(32, 32, 2), block(32, 64, 1), block(64, 64, 2), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, 10))  # fmt: skip
    return Loss(body, functional.cross_entropy), (torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))


def autoencoder() -> Made:
    widths = [3, 8, 16, 32]
    down = [nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(4, b), nn.SiLU()) for a, b in itertools.pairwise(widths)]
    up = [nn.Sequential(nn.ConvTranspose2d(b, a, 4, 2, 1), nn.GELU()) for a, b in reversed(list(itertools.pairwise(widths)))]
    images = torch.randn(16, 3, 64, 64)
    return Loss(nn.Sequential(*down, *up), functional.mse_loss), (images, images.clone())


class _TwoLosses(nn.Module):
    """Shared weights, a frozen layer and two losses added up."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.frozen = nn.Linear(128, 128), nn.Linear(128, 128)
        self.heads = nn.ModuleList([nn.Linear(128, 10), nn.Linear(128, 128)])
        for p in self.frozen.parameters():
            p.requires_grad_(False)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        h = x
        for _ in range(6):
            h = functional.gelu(self.shared(h)) + torch.sigmoid(self.frozen(h))
        return functional.cross_entropy(self.heads[0](h), labels) + 0.1 * functional.mse_loss(self.heads[1](h), x)


def two_losses() -> Made:
    return _TwoLosses(), (torch.randn(1024, 128), torch.randint(0, 10, (1024,)))


MODELS: dict[str, Callable[[], Made]] = {f.__name__: f for f in (resnet, gpt, unet, perceptron, encoder, depthwise, autoencoder, two_losses)}


def make(name: str) -> Made:
    torch.manual_seed(0)
    return MODELS[name]()


class Broken(torch.nn.Module):
    """Graph breaks between `parts` stacks of layers, batch norms and dropout among them."""

    def __init__(self, parts: int = 2, depth: int = 4) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(
            torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Tanh(), torch.nn.Dropout(0.1))
                                  for _ in range(depth))) for _ in range(parts))  # fmt: skip

    def forward(self, x: Any) -> Any:
        first = self.parts[0](x)
        torch._dynamo.graph_break()
        x = self.parts[1](first)
        if len(self.parts) > 2:
            torch._dynamo.graph_break()
            x = self.parts[2](x)
        return (x * first).square().mean()


class Untraceable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        if self.layer(x).sum().item() > 1e9:
            print("large")
        return self.layer(x).square().sum()
