# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer within a budget: accumulation, gradient checkpointing, evaluation, and checkpoints that load back equal.

The model is compiled in place, so that Trainer sees the class it knows, and what it saves has the names that from_pretrained
looks for. The same training without a budget ends with the same weights, bit for bit.
"""

import pathlib
import sys
import tempfile

import torch

import checkmate.torch

try:
    import transformers
except ImportError:
    transformers = None

LENGTH, VOCABULARY, STEPS = 64, 256, 4


def make(dropout: float = 0.1) -> "transformers.GPT2LMHeadModel":
    """Random weights: nothing is downloaded."""
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=64, n_layer=3, n_head=4, resid_pdrop=dropout,
                                     embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False, bos_token_id=0, eos_token_id=0)  # fmt: skip
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config)


def train(model: "transformers.GPT2LMHeadModel", optimizer: torch.optim.Optimizer, folder: pathlib.Path, **arguments: object) -> dict[str, float]:
    """A few steps of two batches each, with an evaluation and a checkpoint at the end; what was evaluated."""
    torch.manual_seed(1)
    sequences = [{"input_ids": row, "labels": row} for row in torch.randint(0, VOCABULARY, (64, LENGTH))]
    settings = transformers.TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=STEPS, per_device_train_batch_size=8, per_device_eval_batch_size=8, seed=2,
        gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=STEPS, save_strategy="steps", save_steps=STEPS, logging_steps=STEPS,
        report_to=[], disable_tqdm=True, dataloader_pin_memory=False, **arguments,
    )  # fmt: skip
    trainer = transformers.Trainer(model, settings, train_dataset=sequences, eval_dataset=sequences[:16], optimizers=(optimizer, None))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    trainer.save_model(str(folder / "last"))
    return trainer.evaluate()


def main() -> int:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    ok = True
    for title, arguments in (("plain", {}), ("gradient checkpointing", {"gradient_checkpointing": True}), ("bf16", {"bf16": True})):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            usual, model = make(), make()
            expected = train(usual, torch.optim.AdamW(usual.parameters(), lr=1e-3), folder / "usual", **arguments)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            checkmate.torch.compile(model, "70%", optimizer=optimizer, accumulate=True, inplace=True)
            found = train(model, optimizer, folder / "ours", **arguments)
            plan = checkmate.torch.plans(model)[0]
            kept = model.state_dict()
            loads = [
                transformers.GPT2LMHeadModel.from_pretrained(str(folder / "ours" / last)).state_dict() for last in ("last", f"checkpoint-{STEPS}")
            ]
            same = found["eval_loss"] == expected["eval_loss"] and _equal(usual.state_dict(), kept)
            back = all(_equal(loaded, kept) for loaded in loads)
        ok = ok and same and back and plan.peak_bytes <= plan.budget_bytes
        print(f"{title}: {plan.peak_bytes / 1e6:.2f} of {plan.budget_bytes / 1e6:.2f} MB, overhead {100 * plan.overhead:.1f} %, evaluated "
              f"{found['eval_loss']:.4f}, {'bit for bit' if same else 'NOT'} what it is without a budget, saved weights load back "
              f"{'equal' if back else 'CHANGED'}")  # fmt: skip
    return 0 if ok else 1


def _equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


if __name__ == "__main__":
    if transformers is None:
        print("SKIPPED: transformers is not installed (pip install transformers accelerate)")
        sys.exit(0)
    sys.exit(main())
