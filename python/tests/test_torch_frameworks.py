# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer, accelerate and Lightning train a model that is compiled in place as they train it in eager mode."""

from __future__ import annotations

import logging
import os
import pathlib
import subprocess
import sys
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")

from models import make  # noqa: E402

import checkmate  # noqa: E402
import checkmate.torch as ct  # noqa: E402

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
def test_trainer_saves_what_it_trained() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    source = str(pathlib.Path(checkmate.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, EXAMPLES / "torch_trainer.py"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "load back" in line]
    assert [line.partition(":")[0] for line in lines] == ["plain", "gradient checkpointing", "bf16"]
    assert all("bit for bit what it is without a budget" in line and line.endswith("load back equal") for line in lines), done.stdout


def _accelerated(accelerator: Any, compiled: str) -> tuple[dict[str, Any], Any]:
    model, inputs = make("perceptron")
    optimizer = torch.optim.AdamW(model.parameters())
    options: dict[str, Any] = {"accumulate": True, "inplace": True, "time_limit": 2, "costs": "estimate"}
    if compiled == "before":
        ct.compile(model, "75%", optimizer=optimizer, **options)
    model, optimizer = accelerator.prepare(model, optimizer)
    if compiled == "after":
        ct.compile(model, "75%", optimizer=optimizer, **options)
    for _ in range(4):
        with accelerator.accumulate(model):
            accelerator.backward(model(*inputs))
            optimizer.step()
            optimizer.zero_grad()
    model = accelerator.unwrap_model(model)
    return model.state_dict(), ct.plans(model) if compiled else []


def test_accelerate_prepares_before_or_after() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    expected, _ = _accelerated(accelerator, "")
    for compiled in ("before", "after"):
        torch._dynamo.reset()
        found, (plan,) = _accelerated(accelerator, compiled)
        assert same(found, expected), compiled
        assert plan.recomputed and plan.peak_bytes <= plan.budget_bytes
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("precision", ["32", "bf16-mixed"])
def test_a_part_of_a_lightning_module(precision: str, tmp_path: pathlib.Path) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, net: Any) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = self.net(*batch)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.net.parameters())

    def fit(budget: str | None) -> tuple[dict[str, Any], Any]:
        net, _ = make("perceptron")
        if budget is not None:
            ct.compile(net, budget, optimizer=torch.optim.AdamW(net.parameters()), inplace=True, time_limit=2, costs="estimate")
        torch.manual_seed(3)
        data = torch.utils.data.TensorDataset(torch.randn(3072, 256), torch.randn(3072, 256))
        module = Module(net)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                        enable_model_summary=False, precision=precision, default_root_dir=tmp_path)  # fmt: skip
            trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=1024))
            trainer.save_checkpoint(tmp_path / "last.ckpt")
        moments = 2 * sum(p.numel() * 4 for p in net.parameters())
        assert ct.optimizer_bytes(module.optimizers()) == moments + 4 * len(list(net.parameters()))
        return torch.load(tmp_path / "last.ckpt", weights_only=False)["state_dict"], ct.plans(net) if budget else []

    expected, _ = fit(None)
    found, (plan,) = fit("80%")
    assert same(found, expected)
    assert plan.recomputed
