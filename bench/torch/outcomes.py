# SPDX-License-Identifier: Apache-2.0
"""Which models and training loops are planned, and what becomes of the others: the versions at hand, one line each.

outcomes.py [--case PART OF A NAME]... [--limit SECONDS] [--budget SHARE]     prints the table, a row as soon as it is known
outcomes.py --list

A case is a process of its own: three steps in eager mode, the same three planned for a share of the peak, from the same weights and
random numbers. Losses, gradients, parameters and buffers are compared bit by bit; the peak of the second planned step is measured by the
allocator's reports (physical.py). Where the model cannot be traced as one graph it is planned in parts, for eager mode's own peak, or twice
or four times as much.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
STEPS = 3

#: Of zoo.py, those that differ in how they are built.
MODELS = (
    "GPT-2", "Llama", "Llama, grouped queries", "Gemma 2", "Bloom", "Mixtral", "Mamba", "BERT", "DeBERTa-v2", "T5", "BART", "Whisper",
    "wav2vec 2.0", "wav2vec 2.0, features frozen", "ViT", "Swin", "SegFormer", "CLIP", "ResNet-18 (timm)", "ConvNeXt-Atto",
    "EfficientNet-B0 (timm)", "MobileNetV2", "DenseNet", "DeepLabV3", "UNet2D", "AutoencoderKL", "DiT", "Llama with LoRA", "ViT with DoRA",
)  # fmt: skip


@dataclasses.dataclass
class Work:
    """`step(call)` gives a loss; `again` is what a loop does around it."""

    model: Any
    step: Callable[[Any, int], Any]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    micro_batches: int = 1
    between: Callable[[Any, Any], None] = lambda model, call: None


def _zoo(name: str) -> Work:
    import zoo

    task = zoo.make(name)
    return Work(task.model, lambda call, _i: task.loss(call(*task.args, **task.kwargs)))


def _hugging(name: str, given: dict[str, Any], config: dict[str, Any], **call: Any) -> Work:
    import transformers
    import zoo

    zoo.allow_torchvision()
    transformers.logging.set_verbosity_error()
    made = getattr(transformers, name)(getattr(transformers, _config(name))(**config)).train()
    # A batch of its own for each step: SpecAugment writes its mask into the caller's tensors.
    return Work(made, lambda run, _i: run(**copy.deepcopy(given), **call).loss)


def _config(name: str) -> str:
    return name.split("For")[0] + "Config"


SIZES = {"vocab_size": 500, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "pad_token_id": 2,
         "bos_token_id": 0, "eos_token_id": 1}  # fmt: skip
EXPERTS = SIZES | {"moe_intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2}


def _tokens(**more: Any) -> dict[str, Any]:
    import zoo

    return zoo.labelled(4, 64) | more


def _spec_augment() -> Work:
    import torch

    sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "max_source_positions": 100, "vocab_size": 500, "pad_token_id": 2, "bos_token_id": 0,
             "eos_token_id": 1, "decoder_start_token_id": 3, "apply_spec_augment": True, "mask_time_prob": 0.1}  # fmt: skip
    given = {"input_features": torch.randn(2, 80, 200), "labels": torch.randint(5, 500, (2, 16))}
    return _hugging("WhisperForConditionalGeneration", given, sizes)


def _masked_video() -> Work:
    import torch

    sizes = {"image_size": 32, "patch_size": 16, "num_frames": 4, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 64, "decoder_num_attention_heads": 2, "decoder_hidden_size": 64, "decoder_num_hidden_layers": 1,
             "decoder_intermediate_size": 64}  # fmt: skip
    mask = torch.arange(8).expand(2, 8) < 5
    return _hugging("VideoMAEForPreTraining", {"pixel_values": torch.randn(2, 4, 3, 32, 32), "bool_masked_pos": mask}, sizes)


def _detection() -> Work:
    import torch
    import transformers

    backbone = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], out_features=["stage4"])
    sizes = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": backbone, "d_model": 32,
             "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "num_queries": 5, "num_labels": 3}  # fmt: skip
    labels = [{"class_labels": torch.tensor([0, 1]), "boxes": torch.rand(2, 4)} for _ in range(2)]
    return _hugging("DetrForObjectDetection", {"pixel_values": torch.randn(2, 3, 64, 64), "labels": labels}, sizes)


def _net(**options: Any) -> Work:
    """What the loops train: attention, dropout, a normalization with statistics."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.TransformerEncoderLayer(64, 4, 128, 0.1, batch_first=True) for _ in range(3)]
            self.layers, self.norm, self.head = nn.ModuleList(layers), nn.BatchNorm1d(64), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return nn.functional.cross_entropy(self.head(self.norm(x.mean(1))), y)

    batches = [(torch.randn(16, 32, 64), torch.randint(0, 10, (16,))) for _ in range(2 * STEPS)]
    return Work(Net(), lambda call, i: call(*batches[i]), **options)


def _small_last() -> Work:
    work = _net()
    whole = work.step
    work.step = lambda call, i: whole(lambda x, y: call(x[:5], y[:5]), i) if i == STEPS - 1 else whole(call, i)
    return work


def _evaluated() -> Work:
    import torch

    def between(_model: Any, call: Any) -> None:
        call.eval()
        with torch.no_grad():
            call(torch.ones(4, 32, 64), torch.zeros(4, dtype=torch.long))
        call.train()

    return _net(between=between)


def _clipped() -> Work:
    import torch

    return _net(between=lambda model, _call: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))


def _mixed() -> Work:
    import torch

    return _net(around=lambda: torch.autocast("cpu", torch.bfloat16))


def _frozen() -> Work:
    work = _net()
    work.model.layers[0].requires_grad_(False)
    return work


def _forces() -> Work:
    import torch
    from torch import nn

    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            energy = self.net(x)
            (forces,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
            return energy.square().mean() + forces.square().mean()

    x = torch.randn(512, 3, requires_grad=True)
    return Work(Forces(), lambda call, _i: call(x))


def _recurrent() -> Work:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(32, 64, 2, batch_first=True, dropout=0.2), nn.Linear(64, 8)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.head(self.rnn(x)[0]).flatten(0, 1), y.flatten())

    x, y = torch.randn(8, 40, 32), torch.randint(0, 8, (8, 40))
    return Work(Tagger(), lambda call, _i: call(x, y))


def _ctc() -> Work:
    import torch
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 20))

        def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
            return nn.functional.ctc_loss(self.layers(x).log_softmax(-1), y, n, m)

    given = torch.randn(50, 8, 32), torch.randint(1, 20, (8, 12)), torch.full((8,), 50), torch.full((8,), 12)
    return Work(Reader(), lambda call, _i: call(*given))


CASES: dict[str, Callable[[], Work]] = {
    **{name: (lambda name=name: _zoo(name)) for name in MODELS},
    "OLMoE": lambda: _hugging("OlmoeForCausalLM", _tokens(), SIZES | {"num_experts": 4, "num_experts_per_tok": 2}),
    "Qwen3-MoE, 2 of 4 key-value heads, a mask": lambda: _hugging("Qwen3MoeForCausalLM", _tokens(attention_mask=_tokens()["labels"] > 0), EXPERTS),
    "Qwen3-MoE, router logits": lambda: _hugging("Qwen3MoeForCausalLM", _tokens(), EXPERTS, output_router_logits=True),
    "Whisper with SpecAugment": _spec_augment,
    "VideoMAE": _masked_video,
    "DETR": _detection,
    "loop: plain": _net,
    "loop: gradients of two batches": lambda: _net(micro_batches=2, options={"accumulate": True}),
    "loop: mixed precision, bfloat16": _mixed,
    "loop: clipped gradients": _clipped,
    "loop: the last batch is smaller": _small_last,
    "loop: evaluation after each step": _evaluated,
    "loop: a frozen layer": _frozen,
    "loop: compiled in place": lambda: _net(options={"inplace": True}),
    "loop: forces in the forward pass": _forces,
    "loop: an LSTM": _recurrent,
    "loop: a CTC loss in the model": _ctc,
}


def _seed(value: int) -> None:
    import random

    import torch

    torch.manual_seed(value)
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value)


def _train(work: Work, call: Any, model: Any) -> tuple[list[Any], float]:
    """What three steps leave behind, and the seconds of the first."""
    import torch

    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    found, first = [], 0.0
    for i in range(STEPS):
        _seed(i)
        begin = time.perf_counter()
        for j in range(work.micro_batches):
            with work.around():
                loss = work.step(call, i * work.micro_batches + j)
            loss.backward()
            found.append(loss.detach())
        first = first or time.perf_counter() - begin
        work.between(model, call)
        found += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    return found + [t.detach().clone() for t in [*model.parameters(), *model.buffers()]], first


def _same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:  # no gradient, and one of zeros
        return not any(bool(value.any()) for value in (ours, theirs) if value is not None)
    import torch

    return torch.equal(ours, theirs) or bool(torch.equal(torch.nan_to_num(ours), torch.nan_to_num(theirs)))


def _peak(work: Work, call: Any, model: Any) -> int:
    import physical

    def step() -> None:
        with work.around():
            loss = work.step(call, 0)
        loss.backward()

    model.zero_grad(set_to_none=True)
    measured = physical.allocator_peak(step)
    return measured + physical.held_bytes(model, [])


def _measured(name: str, share: str) -> dict[str, Any]:
    import torch

    import checkmate.torch as ct

    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=50)
    _seed(0)
    work = CASES[name]()
    twin = copy.deepcopy(work.model)
    expected, _ = _train(work, twin, twin)
    row: dict[str, Any] = {"case": name, "how": f"one graph, {share}"}
    eager = _peak(work, twin, twin)

    def attempt(budget: Any, **options: Any) -> None:
        torch._dynamo.reset()
        model = copy.deepcopy(work.model)
        compiled = ct.compile(model, budget, time_limit=2, **work.options, **options)
        found, row["first_step_s"] = _train(work, compiled, model)
        row["apart"] = sum(not _same(a, b) for a, b in zip(found, expected, strict=True))
        row["values"] = len(found)
        plans = ct.plans(compiled)
        row["graphs"] = len(plans)
        row["over"] = _peak(work, compiled, model) / max(plan.budget_bytes for plan in plans) if plans else None

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            attempt(share)
        except ct.UnsupportedError as error:
            row["refused"] = str(error)
            for times in (1, 2, 4):
                with contextlib.suppress(ct.UnsupportedError, ct.InfeasibleError):
                    attempt(times * eager, graph_breaks="split")
                    row["how"] = f"split, {times} x eager mode's peak"
                    break
        except ct.InfeasibleError as error:
            row["refused"] = str(error)
    row["said"] = sorted({str(w.message) for w in said if str(w.message).startswith("checkmate:")})
    return row


def _rows(names: list[str], limit: float, share: str) -> Iterator[dict[str, Any]]:
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            environment = {"XDG_CACHE_HOME": cache}
            try:
                ran = subprocess.run([sys.executable, __file__, "--one", name, "--budget", share], env={**_environment(), **environment},
                                     capture_output=True, text=True, timeout=limit, check=False)  # fmt: skip
                last = (ran.stdout.strip().splitlines() or [""])[-1]
                yield json.loads(last) if last.startswith("{") else {"case": name, "failed": (ran.stderr.strip().splitlines() or ["no output"])[-1]}
            except subprocess.TimeoutExpired:
                yield {"case": name, "failed": f"not over after {limit:.0f} s"}


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def _line(row: dict[str, Any]) -> str:
    def short(text: str) -> str:
        text = text.removeprefix("checkmate: ").replace("|", "/")
        text = text.replace(str(pathlib.Path(sys.prefix)) + "/", "")
        return text if len(text) < 260 else text[:257] + "..."

    if "failed" in row:
        return f"| {row['case']} | | | | | not run: {short(row['failed'])} |"
    told = short("; ".join([row["refused"]] if "refused" in row else row["said"]))
    if "apart" not in row:
        return f"| {row['case']} | refused | | | | {told} |"
    bits = "bit for bit" if not row["apart"] else f"{row['apart']} of {row['values']} values differ"
    held = "-" if row["over"] is None else f"{100 * row['over']:.0f} %"
    return f"| {row['case']} | {row['how']}, {row['graphs']} planned | {bits} | {held} | {row['first_step_s']:.0f} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--limit", type=float, default=120, help="seconds for a case")
    parser.add_argument("--budget", default="75%")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.path.insert(0, str(HERE))
        print(json.dumps(_measured(given.one, given.budget)))
        return
    names = [name for name in CASES if not given.case or any(part in name for part in given.case)]
    if given.list:
        print("\n".join(names))
        return
    versions = []
    for package in ("torch", "transformers", "timm", "torchvision", "diffusers", "peft"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    print(
        f"{', '.join(versions)}\n\n| case | planned | against eager mode | peak, of the budget | first step, s | what is said |\n|---|---|---|---|---|---|"
    )
    for row in _rows(names, given.limit, given.budget):
        print(_line(row), flush=True)


if __name__ == "__main__":
    main()
