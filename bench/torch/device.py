# SPDX-License-Identifier: Apache-2.0
"""Plans Llama 3.1 8B for a GPU that is not present, in a separate process, and measures what that takes here.

device.py [--device NAME] [--sequence N] [--batch N] [--layers N] [--optimizer adamw|none] [--budgets N]

The configuration is written out below; weights are never made. The model is made under torch.device("meta"). Host memory is
the largest resident set of the process (ru_maxrss), Python, PyTorch and transformers included.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from typing import Any


def llama(layers: int) -> Any:
    import torch
    import transformers

    config = transformers.LlamaConfig(hidden_size=4096, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8,
                                      intermediate_size=14336, vocab_size=128256, max_position_embeddings=131072)  # fmt: skip
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def plan(options: argparse.Namespace) -> None:
    import torch

    import checkmate.torch

    model = llama(options.layers)
    ids = torch.empty(options.batch, options.sequence, dtype=torch.long, device="meta")
    optimizer = torch.optim.AdamW(model.parameters()) if options.optimizer == "adamw" else None
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    state = "AdamW" if optimizer is not None else "no optimizer"
    print(f"{weights / 1e9:.2f} GB of weights in {options.layers} layers, {options.batch} x {options.sequence} tokens, {state}", flush=True)
    checkmate.torch.explain(model, {"input_ids": ids, "labels": ids}, device=options.device, optimizer=optimizer, budgets=options.budgets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="H100")
    parser.add_argument("--sequence", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--optimizer", choices=("adamw", "none"), default="adamw")
    parser.add_argument("--budgets", type=int, default=8)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        plan(options)
        return
    begin = time.perf_counter()
    failed = subprocess.run([sys.executable, __file__, "--child", *sys.argv[1:]]).returncode
    spent = time.perf_counter() - begin
    if failed:
        sys.exit(failed)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"\n{spent:.0f} s and {largest / 1e9:.2f} GB of host memory, imports included; {os.cpu_count()} cores, {platform.machine()}")


if __name__ == "__main__":
    main()
