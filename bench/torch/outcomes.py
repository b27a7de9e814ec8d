# SPDX-License-Identifier: Apache-2.0
"""Which models and training loops are planned, and what becomes of the others: the versions at hand, one line each.

    bench/torch/run.sh --outcomes                 what the records lack, or say failed; then the table of docs/PYTORCH.md
    bench/torch/run.sh --outcomes --again         all of them
    bench/torch/run.sh --outcomes --case Llama    those whose name has this in it, if the records lack them
    bench/torch/run.sh --outcomes --list
    CKM_TORCH_TRACE=1 shows where a case fails

A case is a separate process: three steps in eager mode, the same three planned for a share of the peak, from the same weights and
random numbers. Losses, gradients, parameters and buffers are compared bit by bit; the peak of one more planned step is measured by the
allocator's reports (physical.py). Where the share does not fit, the budget that the error names is tried. Where the model cannot be traced
as one graph it is planned in parts, for eager mode's own peak, or twice or four times as much.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import multiprocessing
import os
import pathlib
import resource
import signal
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import kept  # noqa: E402

Row = dict[str, Any]
STEPS = 3
#: Wall time limit of a case, as a multiple of its limit of processor seconds.
WAIT = 20
PACKAGES = ("torch", "transformers", "timm", "torchvision", "diffusers", "peft")

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
    # A separate batch for each step: SpecAugment writes its mask into the caller's tensors.
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


def _train(work: Work, call: Any, model: Any) -> tuple[list[Any], float, float]:
    """What three steps leave behind, and the seconds of the first: by the wall, and of the processor."""
    import torch

    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    found, first = [], (0.0, 0.0)
    for i in range(STEPS):
        _seed(i)
        begin, used = time.perf_counter(), time.process_time()
        for j in range(work.micro_batches):
            with work.around():
                loss = work.step(call, i * work.micro_batches + j)
            loss.backward()
            found.append(loss.detach())
        if i == 0:
            first = time.perf_counter() - begin, time.process_time() - used
        work.between(model, call)
        found += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    return found + [t.detach().clone() for t in [*model.parameters(), *model.buffers()]], *first


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


def _measured(name: str, share: str) -> Row:
    import torch

    import checkmate.torch as ct

    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=50)
    _seed(0)
    work = CASES[name]()
    twin = copy.deepcopy(work.model)
    expected, *_ = _train(work, twin, twin)
    row: Row = {"case": name, "how": "as one graph", "asked": share}
    eager = _peak(work, twin, twin)

    def attempt(budget: Any, **options: Any) -> None:
        torch._dynamo.reset()
        model = copy.deepcopy(work.model)
        compiled = ct.compile(model, budget, time_limit=2, **work.options, **options)
        found, row["first_step_s"], row["first_step_processor_s"] = _train(work, compiled, model)
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
                    row |= {"how": "in parts", "asked": f"{times} x eager mode's peak"}
                    break
        except ct.InfeasibleError as error:
            row["refused"] = str(error)
            if error.smallest_known is not None:
                attempt(error.smallest_known)
                row["asked"] = "the budget named"
    row["said"] = sorted({str(w.message) for w in said if str(w.message).startswith("checkmate:")})
    return row


def _made(name: str, limit: int, share: str) -> Row:
    """A row, by a separate process with its own plan cache, forked from this one, which has imported what is needed."""
    with tempfile.TemporaryDirectory() as cache:
        answer = pathlib.Path(cache) / "row.json"
        child = multiprocessing.get_context("fork").Process(target=_answer, args=(name, limit, share, answer))
        child.start()
        child.join(WAIT * limit)
        late = child.is_alive()
        if late:
            child.kill()
            child.join()
        if answer.exists():
            return json.loads(answer.read_text())
    late = late or child.exitcode == -signal.SIGXCPU
    return {"case": name, "failed": f"not over after {limit} s of the processor" if late else f"the process ended with {child.exitcode}"}


def _answer(name: str, limit: int, share: str, answer: pathlib.Path) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    os.environ["XDG_CACHE_HOME"] = str(answer.parent)
    try:
        row = _measured(name, share)
    except Exception as error:
        if "CKM_TORCH_TRACE" in os.environ:
            raise
        row = {"case": name, "failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    written = answer.with_suffix(".new")
    # Where this machine has the tree and its packages is of no use to a reader.
    text = json.dumps(row)
    for folder in (sysconfig.get_paths()["purelib"], str(kept.ROOT)):
        text = text.replace(json.dumps(folder + "/")[1:-1], "")
    written.write_text(text)
    written.replace(answer)


def _short(text: str) -> str:
    text = text.removeprefix("checkmate: ").replace("|", "/")
    return text if len(text) < 260 else text[:257] + "..."


def _line(row: Row) -> str:
    if "failed" in row:
        return f"| {row['case']} | failed | | | | {_short(row['failed'])} |"
    told = _short("; ".join(([row["refused"]] if "refused" in row else []) + row["said"]))
    if "apart" not in row:
        return f"| {row['case']} | refused | | | | {told} |"
    bits = "bit for bit" if not row["apart"] else f"{row['apart']} of {row['values']} values differ"
    held = "-" if row["over"] is None else f"{100 * row['over']:.1f} %"
    how = row["how"] if row["how"] == "as one graph" else f"in parts ({row['graphs']} planned)"
    return f"| {row['case']} | {how}, {row['asked']} | {bits} | {held} | {row['first_step_processor_s']:.1f} | {told} |"


def table(rows: list[Row]) -> str:
    lines = ["| case | planned for | against eager mode | peak, of the budget | first step, s of the processor | what is said |", "|---" * 6 + "|"]
    lines += map(_line, rows)
    planned = [row for row in rows if "apart" in row]
    apart = [row for row in planned if row["apart"]]
    over = [row["case"] for row in planned if (row["over"] or 0) > 1]
    silent = [row["case"] for row in apart if not row["said"]]
    whole = sum(row["how"] == "as one graph" for row in planned)
    refused, failed = (sum(key in row and "apart" not in row for row in rows) for key in ("refused", "failed"))
    lines += ["", f"Tried: {len(rows)}; planned: {len(planned)}, of which {whole} as one graph, {len(planned) - len(over)} within the budget, "
              f"{len(planned) - len(apart)} bit for bit, {len(apart) - len(silent)} that say why they are not; "
              f"refused: {refused}; failed: {failed}."]  # fmt: skip
    lines += [f"- over the budget: {', '.join(over)}"] * bool(over) + [f"- differ and do not say so: {', '.join(silent)}"] * bool(silent)
    return "\n".join([*lines, "", kept.made(rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", help="a part of a name")
    parser.add_argument("--again", action="store_true", help="what the records have, too")
    parser.add_argument("--limit", type=int, default=300, help="seconds of the processor for a case")
    parser.add_argument("--budget", default="75%")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "torch-outcomes.jsonl")
    parser.add_argument("--page", type=pathlib.Path, help="where the table goes, between its markers")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [name for name in CASES if not options.case or any(part in name for part in options.case)]
    if options.list:
        print("\n".join(chosen))
        return
    # Before the first case: that the library is not there is no row.
    import checkmate.torch  # noqa: F401
    import torch._dynamo.backends.common
    import torch._functorch.aot_autograd
    import zoo  # noqa: F401

    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401
    torch.set_num_threads(1)
    for name in chosen if options.again else kept.missing(options.records, chosen):
        kept.keep(options.records, _made(name, options.limit, options.budget), *PACKAGES)
    known = kept.read(options.records)
    text = table([known[name] for name in CASES if name in known])
    print(text)
    if options.page:
        kept.put(options.page, "outcomes", text)


if __name__ == "__main__":
    main()
