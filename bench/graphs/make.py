# SPDX-License-Identifier: Apache-2.0
"""Training graphs of models of transformers, timm and diffusers, as checkmate.torch traces them: the files of this folder.

    python bench/graphs/make.py [NAME ...]     with PyTorch, these libraries and checkmate installed

The models are those of bench/torch/zoo.py, some with more layers. Costs are estimates, so that the files are the same on every
machine with these versions of the libraries (README.md). Names of tensors and places in sources are left out.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "torch"))

import torch
import zoo
from torch import nn

import checkmate.torch


class Step(nn.Module):
    """A model and its loss."""

    def __init__(self, task: zoo.Task) -> None:
        super().__init__()
        self.model, self.loss, self.named = task.model, task.loss, task.kwargs

    def forward(self, *args: Any) -> torch.Tensor:
        return self.loss(self.model(*args, **self.named))


def of_zoo(name: str) -> Callable[[], zoo.Task]:
    return zoo.CASES[name][1]


MODELS: dict[str, Callable[[], zoo.Task]] = {
    "gpt2": of_zoo("GPT-2"),
    "llama": lambda: zoo.language("Llama", num_hidden_layers=6),
    "qwen3": of_zoo("Qwen3"),
    "bert": of_zoo("BERT"),
    "deberta": of_zoo("DeBERTa-v2"),
    "t5": of_zoo("T5"),
    "bart": of_zoo("BART"),
    "whisper": of_zoo("Whisper"),
    "vit": lambda: zoo.timm("vit_tiny_patch16_224", 8, 128, img_size=128),
    "efficientnet": of_zoo("EfficientNet-B0 (timm)"),
    "edgenext": of_zoo("EdgeNeXt-XX-Small"),
    "swin_timm": of_zoo("Swin (timm)"),
    "unet2d": of_zoo("UNet2D"),
    "unet2d_condition": of_zoo("UNet2DCondition"),
    "dit": of_zoo("DiT"),
    "flux": of_zoo("Flux"),
}


def trace(name: str) -> Any:
    """The graph; the solve that explain() makes of it does not matter."""
    zoo.allow_torchvision()
    torch.manual_seed(0)
    task = MODELS[name]()
    task.model.train()
    found = checkmate.torch.explain(
        Step(task), task.args, budgets=1, budget="100%", show=None, costs="estimate", strategy="checkpoint-all", time_limit=1
    )
    return found.graph


def compact(graph: Any, name: str) -> str:
    """checkmate-graph JSON, an operator or a row of tensors a line, without what is the default anyway."""
    full = json.loads(graph.to_json(places=False))
    defaults = {"kind": "forward", "workspace_bytes": 0, "recomputable": True, "inplace": []}
    ops = [{k: v for k, v in op.items() if k not in defaults or v != defaults[k]} for op in full["ops"]]
    tensors = [{k: v for k, v in tensor.items() if k != "name"} for tensor in full["tensors"]]

    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    head = {k: full[k] for k in ("format", "version")} | {"name": name} | {k: full[k] for k in ("cost_unit", "fixed_bytes")}
    rows = [",".join(map(line, tensors[i : i + 8])) for i in range(0, len(tensors), 8)]
    return (
        line(head)[:-1]
        + ',\n"tensors":[\n' + ",\n".join(rows)
        + '],\n"ops":[\n' + ",\n".join(map(line, ops))
        + '],\n"results":' + line(full["results"]) + "}\n"
    )  # fmt: skip


def main() -> None:
    for name in sys.argv[1:] or list(MODELS):
        graph = trace(name)
        (FOLDER / f"{name}.json").write_text(compact(graph, name))
        print(f"{name}: {len(graph.ops)} operators", flush=True)
        torch.compiler.reset()


if __name__ == "__main__":
    main()
