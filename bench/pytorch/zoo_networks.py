# SPDX-License-Identifier: Apache-2.0
"""Today's networks of the zoo, written for PyTorch with the layers ours have, attention by PyTorch's own operator where
people use it. Builders take the sizes that `checkmate` has options for; each gives a list of blocks.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    """Attention of projected q, k, v, their heads side by side; k and v may have fewer."""
    def __init__(self, heads, kv_heads=None, causal=False, dropout=0.0, rotary=None):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.causal, self.dropout, self.rotary = causal, dropout, rotary

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def turn(self, x):
        half = x.shape[-1] // 2
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float32),
                             self.rotary ** (-torch.arange(half, dtype=torch.float32) / half))
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, q, k, v):
        shape = q.shape
        q, k, v = self.split(q, self.heads), self.split(k, self.kv_heads), self.split(v, self.kv_heads)
        if self.rotary:
            q, k = self.turn(q), self.turn(k)
        if self.kv_heads != self.heads:
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, 1) for x in (k, v))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout)
        return x.transpose(1, 2).reshape(shape)


class PreNorm(nn.Module):
    """A layer of GPT-2 and ViT: normalization before each part."""
    def __init__(self, width, heads, causal, approximate):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.gelu = Heads(heads, causal=causal), nn.GELU(approximate)

    def forward(self, x):
        x = x + self.proj(self.heads(*self.qkv(self.norm1(x)).chunk(3, -1)))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Tokens(nn.Module):
    def __init__(self, vocabulary, width, length, rest=()):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(length, width)) if length else None
        self.rest = nn.Sequential(*rest)

    def forward(self, x):
        x = self.table(x)
        return self.rest(x + self.positions[:x.shape[1]] if self.positions is not None else x)


class Logits(nn.Module):
    """The head; the weight is the embedding's."""
    def __init__(self, table, before, bias=False):
        super().__init__()
        self.before = nn.Sequential(*before)
        self.weight = table.weight
        self.bias = nn.Parameter(torch.zeros(table.weight.shape[0])) if bias else None

    def forward(self, x):
        return F.linear(self.before(x), self.weight, self.bias)


def gpt2(width, depth, heads, vocabulary):
    first = Tokens(vocabulary, width, 1024)
    return ([first] + [PreNorm(width, heads, True, "tanh") for _ in range(depth)]
            + [Logits(first.table, [nn.LayerNorm(width)])])


class PostNorm(nn.Module):
    """A layer of BERT: dropout and normalization after each part."""
    def __init__(self, width, heads, rate=0.1):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.gelu, self.dropout = Heads(heads, dropout=rate), nn.GELU(), nn.Dropout(rate)

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.out(self.heads(self.query(x), self.key(x), self.value(x)))))
        return self.norm2(x + self.dropout(self.down(self.gelu(self.up(x)))))


def bert(width, depth, heads, vocabulary):
    first = Tokens(vocabulary, width, 512, [nn.LayerNorm(width), nn.Dropout(0.1)])
    head = Logits(first.table, [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)], bias=True)
    return [first] + [PostNorm(width, heads) for _ in range(depth)] + [head]


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        kv = width // heads * kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, n, bias=False) for n in (width, kv, kv, width))
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.heads = Heads(heads, kv_heads, causal=True, rotary=1e4)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.wo(self.heads(self.wq(h), self.wk(h), self.wv(h)))
        h = self.norm2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


def tiny_llama(width, depth, heads, vocabulary):
    hidden = (width * 5632 // 2048 + 7) // 8 * 8
    return ([Tokens(vocabulary, width, 0)]
            + [LlamaBlock(width, heads, max(heads // 8, 1), hidden) for _ in range(depth)]
            + [nn.Sequential(nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False))])


class Patches(nn.Module):
    def __init__(self, width, positions):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(positions, width))

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        return torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions


class First(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        return self.head(self.norm(x)[:, 0])


def vit(width, depth, heads, _):
    return ([Patches(width, 197)] + [PreNorm(width, heads, False, "none") for _ in range(depth)] + [First(width)])


class SwinBlock(nn.Module):
    """Windows of 7 x 7 positions, with the arithmetic of torchvision's network."""
    def __init__(self, width, heads, side, shifted):
        super().__init__()
        self.heads, self.side, self.shift = heads, side, 3 if shifted and side > 7 else 0
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.gelu = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.GELU()
        self.table = nn.Parameter(torch.zeros(13 * 13, heads))
        at = torch.stack(torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij")).flatten(1)
        offset = at[:, :, None] - at[:, None, :] + 6
        self.register_buffer("index", (offset[0] * 13 + offset[1]).flatten())
        if self.shift:
            parts = torch.zeros(side, side)
            for i, rows in enumerate((slice(0, -7), slice(-7, -3), slice(-3, None))):
                for j, columns in enumerate((slice(0, -7), slice(-7, -3), slice(-3, None))):
                    parts[rows, columns] = 3 * i + j
            parts = self.windows(parts[None, :, :, None]).squeeze(2)
            apart = parts[:, None, :] != parts[:, :, None]
            self.register_buffer("mask", torch.zeros(apart.shape).masked_fill(apart, -100.0))

    def windows(self, x):
        n, side, _, c = x.shape
        return x.view(n, side // 7, 7, side // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)

    def attend(self, x):
        n, side, _, c = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = self.windows(x)
        q, k, v = self.qkv(x).view(x.shape[0], 49, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index].view(49, 49, -1).permute(2, 0, 1)[None]
        scores = (q * (c // self.heads) ** -0.5).matmul(k.transpose(-2, -1)) + bias
        if self.shift:
            scores = scores.view(n, -1, self.heads, 49, 49) + self.mask[None, :, None]
            scores = scores.view(-1, self.heads, 49, 49)
        x = self.proj(F.softmax(scores, -1).matmul(v).transpose(1, 2).reshape(-1, 49, c))
        x = x.view(n, side // 7, side // 7, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.reduce(self.norm(x))


class Stem(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.conv(x).permute(0, 2, 3, 1))


class Mean(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        return self.head(self.norm(x).mean((1, 2)))


def swin(width, depth, heads, _):
    """depth blocks in all, stages as 1 : 1 : 3 : 1"""
    blocks, side = [Stem(width)], 56
    for stage, count in enumerate((1, 1, 3, 1)):
        if stage:
            blocks.append(Merge(width))
            width, heads, side = 2 * width, 2 * heads, side // 2
        blocks += [SwinBlock(width, heads, side, i % 2 == 1) for i in range(depth // 6 * count)]
    return blocks + [Mean(width)]


# name: builder, width, depth, heads, vocabulary, tokens of a text (0: an image of 224 x 224)
ZOO = {
    "GPT2": (gpt2, 768, 4, 12, 8000, 512),
    "TinyLlama-1.1B": (tiny_llama, 512, 6, 16, 8000, 512),
    "BERT-base": (bert, 768, 4, 12, 8000, 256),
    "ViT-B16": (vit, 768, 12, 12, 0, 0),
    "Swin-T": (swin, 96, 12, 3, 0, 0),
}
