# SPDX-License-Identifier: Apache-2.0
"""A decoder-only transformer in the manner of GPT-2 (Radford et al. 2019), dropout and tied embedding included."""

import sys

import torch
from torch import nn
from torch.nn import functional
from training_table import table


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    """The forward pass ends in the loss of predicting the next token."""

    def __init__(self, vocabulary: int = 512, length: int = 128, width: int = 128, depth: int = 6, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(Layer(width, heads, dropout) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for table_of in (self.tokens, self.positions):
            nn.init.normal_(table_of.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
        logits = self.head(self.norm(self.layers(x)))
        return functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return GPT(), (torch.randint(0, 512, (16, 128)),)


if __name__ == "__main__":
    sys.exit(0 if table("GPT, 6 layers of width 128, 16 sequences of 128 tokens", *make()) else 1)
