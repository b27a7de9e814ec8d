# SPDX-License-Identifier: Apache-2.0
"""A residual network with batch normalization and dropout (He et al. 2016), trained within 70, 50 and 30 % of its peak."""

import sys

import torch
from torch import nn
from torch.nn import functional
from training_table import table


class Block(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """The network for small images of section 4.2 there: three stages of `depth` blocks each, 6 depth + 2 layers; the
    forward pass ends in the loss."""

    def __init__(self, width: int = 16, depth: int = 9, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks, inner = [], width
        for stage in range(3):
            for i in range(depth):
                outer = width << stage
                blocks.append(Block(inner, outer, 2 if stage and not i else 1))
                inner = outer
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(inner, classes)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        features = self.blocks(self.stem(images)).mean((2, 3))
        return functional.cross_entropy(self.head(self.dropout(features)), labels)


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return ResNet(), (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)))


if __name__ == "__main__":
    sys.exit(0 if table("ResNet-56, 16 images of 32 x 32", *make()) else 1)
