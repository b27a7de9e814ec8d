# SPDX-License-Identifier: Apache-2.0
"""Every way to train a GPT on devices that are not present: parallelism, recomputation within their memory, predicted time of a step.

parallel.py [--device NAME] [--devices N,...] [--batch N] [--width N] [--layers N] [--vocabulary N] [--sequence N] [--seconds N] [--table FILE]

The model is in bfloat16 with AdamW, made on the meta device; nothing of its size is allocated. Rows are those of
`checkmate.torch.plan_parallel`, the fastest first.
"""

from __future__ import annotations

import argparse
import pathlib
import resource
import time

import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn import functional

import checkmate.torch

HEAD = 128


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.before(x)
        query, key, value = (layer(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + self.out(functional.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.between(x))))


STYLES = {f"*.{name}": ColwiseParallel() for name in ("query", "key", "value", "up")} | {"*.out": RowwiseParallel(), "*.down": RowwiseParallel()}


def parts(options: argparse.Namespace) -> list[nn.Module]:
    with torch.device("meta"):
        head = nn.Sequential(nn.LayerNorm(options.width), nn.Linear(options.width, options.vocabulary, bias=False))
        made = [nn.Embedding(options.vocabulary, options.width), *(Block(options.width) for _ in range(options.layers)), head]
    return [part.to(torch.bfloat16) for part in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="H100")
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=[8, 64, 1024])
    parser.add_argument("--batch", type=int, default=2, help="samples of a step for each device")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each search")
    parser.add_argument("--table", type=pathlib.Path, help="where to write the tables, in addition to printing them")
    options = parser.parse_args()
    model = parts(options)
    billions = sum(p.numel() for part in model for p in part.parameters()) / 1e9
    title = f"A GPT of {billions:.1f} billion parameters: {options.layers} layers of width {options.width}, {options.sequence} tokens a sample"
    text = [f"# {title}", "", "bfloat16 with AdamW. Made by `bench/torch/run.sh --parallel`."]
    for devices in options.devices:
        begin = time.monotonic()
        tokens = torch.zeros(1, options.sequence, dtype=torch.long, device="meta")
        found = checkmate.torch.plan_parallel(model, (tokens,), device=options.device, devices=devices, batch=options.batch * devices,
                                              optimizer=torch.optim.AdamW, tensor=STYLES, time_limit=options.seconds)  # fmt: skip
        spent, host = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        took = f"{devices} devices, {options.batch * devices} samples a step: planned in {spent:.0f} s, {host / 1e9:.2f} GB of host memory at most"
        print(f"\n{took}", flush=True)
        text += ["", f"## {took}", "", "```", str(found), "```"]
    if options.table is not None:
        options.table.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
