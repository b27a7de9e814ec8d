# SPDX-License-Identifier: Apache-2.0
"""A U-Net (Ronneberger et al. 2015) of residual blocks, as diffusion models use it: skip connections keep early activations
for long."""

import sys

import torch
from torch import nn
from torch.nn import functional
from training_table import table


class Block(nn.Module):
    """Group normalization, SiLU, convolution, twice, dropout between, around it a shortcut (Ho et al. 2020, appendix B)."""

    def __init__(self, inner: int, outer: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.shortcut = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(self.dropout(functional.silu(self.norm2(y))))


class UNet(nn.Module):
    """Removes noise from images; `depth` levels of `blocks` blocks on each side. The forward pass ends in the mean squared
    error."""

    def __init__(self, channels: int = 3, width: int = 16, depth: int = 3, blocks: int = 3, dropout: float = 0.1) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]

        def level(inner: int, outer: int) -> nn.Module:
            return nn.Sequential(*(Block(outer if i else inner, outer, dropout) for i in range(blocks)))

        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.down = nn.ModuleList(level(widths[max(0, i - 1)], widths[i]) for i in range(depth))
        self.bottom = level(widths[depth - 1], widths[depth])
        self.up = nn.ModuleList(nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2) for i in reversed(range(depth)))
        self.merge = nn.ModuleList(level(2 * widths[i], widths[i]) for i in reversed(range(depth)))
        self.head = nn.Sequential(nn.BatchNorm2d(width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, noisy: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
        skips, x = [], self.stem(noisy)
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return functional.mse_loss(self.head(x), clean)


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    clean = torch.rand(4, 3, 64, 64)
    return UNet(), (clean + 0.1 * torch.randn_like(clean), clean)


if __name__ == "__main__":
    sys.exit(0 if table("U-Net, 4 images of 64 x 64", *make()) else 1)
