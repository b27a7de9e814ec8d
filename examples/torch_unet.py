# SPDX-License-Identifier: Apache-2.0
"""A U-Net (Ronneberger et al. 2015) that labels pixels: skip connections keep early activations for long."""

import sys

import torch
from torch import nn
from torch.nn import functional
from training_table import table


def double(inner: int, outer: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
        nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """The forward pass ends in the mean cross-entropy over pixels."""

    def __init__(self, classes: int = 4, width: int = 8, depth: int = 4) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(double(3 if i == 0 else widths[i - 1], widths[i]) for i in range(depth))
        self.bottom = nn.Sequential(double(widths[-2], widths[-1]), nn.Dropout(0.2))
        self.up = nn.ModuleList(nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2) for i in reversed(range(depth)))
        self.merge = nn.ModuleList(double(2 * widths[i], widths[i]) for i in reversed(range(depth)))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        skips, x = [], images
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return functional.cross_entropy(self.head(x), labels)


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return UNet(), (torch.randn(8, 3, 64, 64), torch.randint(0, 4, (8, 64, 64)))


if __name__ == "__main__":
    sys.exit(0 if table("U-Net, 8 images of 64 x 64", *make()) else 1)
