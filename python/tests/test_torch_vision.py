# SPDX-License-Identifier: Apache-2.0
"""The structure of timm's and of torchvision's own training scripts with a model that is compiled in place: what is trained equals
what eager mode trains, and their checkpoints load back equal."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")
np = pytest.importorskip("numpy", reason="NumPy is not installed")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import zoo  # noqa: E402

import checkmate.torch as ct  # noqa: E402

zoo.allow_torchvision()
pytest.importorskip("torchvision", reason="torchvision is not installed")

FAST: dict[str, Any] = {"costs": "estimate", "time_limit": 1, "inplace": True}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and len(a) > 0 and all(torch.equal(a[name], b[name]) for name in a)


def lower(plan: Any) -> None:
    assert plan.recomputed and plan.peak_bytes <= plan.budget_bytes < plan.baseline_peak_bytes


def batch(seed: int) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    return torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))


def train_timm(folder: pathlib.Path, budget: str | None, amp: Any) -> tuple[Any, Any, pathlib.Path]:
    """train.py of timm 1.0: mixup, a loss that smooths, an average of the weights, its optimizer, scheduler, scaler and saver."""
    timm = pytest.importorskip("timm", reason="timm is not installed")
    for part in ("data", "loss", "optim", "scheduler", "utils"):
        importlib.import_module(f"timm.{part}")
    torch.manual_seed(0)
    np.random.seed(0)  # which Mixup draws from
    model = timm.create_model("test_resnet", num_classes=10, drop_rate=0.1, drop_path_rate=0.1, zero_init_last=False)
    mixup = timm.data.Mixup(mixup_alpha=0.2, label_smoothing=0.1, num_classes=10)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    scaler = timm.utils.NativeScaler(device="cpu") if amp is torch.float16 else None
    averaged = timm.utils.ModelEmaV3(model, decay=0.9)
    if budget is not None:
        ct.compile(model, budget, optimizer=optimizer, accumulate=True, **FAST)
    criterion = timm.loss.SoftTargetCrossEntropy()
    scheduler, _ = timm.scheduler.create_scheduler_v2(optimizer, sched="cosine", num_epochs=2, updates_per_epoch=2, step_on_epochs=False)
    saver = timm.utils.CheckpointSaver(model, optimizer, model_ema=averaged, amp_scaler=scaler, checkpoint_dir=str(folder), recovery_dir=str(folder))
    updates = 0
    model.train()
    for epoch in range(2):
        for index in range(4):
            images, target = mixup(*batch(10 * epoch + index))
            with torch.autocast("cpu", dtype=amp, enabled=amp is not None):
                loss = criterion(model(images), target) / 2
            update = index % 2 == 1
            if scaler is not None:
                scaler(loss, optimizer, clip_grad=1.0, parameters=timm.models.model_parameters(model), need_update=update)
            else:
                loss.backward()
                if update:
                    timm.utils.dispatch_clip_grad(timm.models.model_parameters(model), value=1.0)
                    optimizer.step()
            if update:
                optimizer.zero_grad()
                updates += 1
                averaged.update(model, step=updates)
                scheduler.step_update(num_updates=updates)
        model.eval()
        with torch.inference_mode():
            metric = float(criterion(model(images), target))
        model.train()
        saver.save_checkpoint(epoch, metric=metric)
    return model, averaged, folder / "last.pth.tar"


@pytest.mark.parametrize("amp", [None, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"])
def test_train_py_of_timm(amp: Any, tmp_path: pathlib.Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    for name in ("usual", "ours"):
        (tmp_path / name).mkdir()
    usual, usually_averaged, _ = train_timm(tmp_path / "usual", None, amp)
    model, averaged, saved = train_timm(tmp_path / "ours", "75%", amp)
    lower(ct.plans(model)[0])
    assert same(model.state_dict(), usual.state_dict())
    assert same(averaged.module.state_dict(), usually_averaged.module.state_dict())

    back = timm.create_model("test_resnet", num_classes=10)
    assert timm.models.resume_checkpoint(back, str(saved), weights_only=False) == 2
    assert same(back.state_dict(), usual.state_dict())
    timm.models.load_checkpoint(back, str(saved), use_ema=True, weights_only=False)
    assert same(back.state_dict(), averaged.module.state_dict())
    onward = timm.create_model("test_resnet", num_classes=10, checkpoint_path=str(saved))
    assert same(onward.state_dict(), averaged.module.state_dict()), "create_model prefers the average"


def train_torchvision(budget: str | None) -> tuple[Any, Any, dict[str, Any]]:
    """references/classification/train.py of torchvision: autocast around model and loss, GradScaler, clipped gradients, an average of
    weights and buffers every other step, warm-up, evaluation, and a checkpoint of everything."""
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    model = models.get_model("shufflenet_v2_x0_5", weights=None, num_classes=10)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, eps=0.0316, alpha=0.9)
    scaler = torch.amp.GradScaler("cpu")
    schedulers = [
        torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=1),
        torch.optim.lr_scheduler.StepLR(optimizer, step_size=2),
    ]
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, schedulers, milestones=[1])
    whole = model
    averaged = torch.optim.swa_utils.AveragedModel(whole, avg_fn=lambda a, b, _n: 0.9 * a + 0.1 * b, use_buffers=True)
    if budget is not None:
        ct.compile(model, budget, optimizer=optimizer, **FAST)
    for epoch in range(2):
        model.train()
        for i in range(2):
            images, target = batch(10 * epoch + i)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(images), target)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            if i % 2 == 0:
                averaged.update_parameters(model)
        scheduler.step()
        for evaluated in (model, averaged):
            evaluated.eval()
            with torch.inference_mode():
                criterion(evaluated(images), target)
    checkpoint = {"model": whole.state_dict(), "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(),
                  "model_ema": averaged.state_dict(), "scaler": scaler.state_dict(), "epoch": epoch}  # fmt: skip
    return model, averaged, checkpoint


def test_train_py_of_torchvision(tmp_path: pathlib.Path) -> None:
    models = pytest.importorskip("torchvision.models")
    usual, usually_averaged, _ = train_torchvision(None)
    model, averaged, checkpoint = train_torchvision("75%")
    lower(ct.plans(model)[0])
    assert same(model.state_dict(), usual.state_dict())
    assert same(averaged.state_dict(), usually_averaged.state_dict())

    torch.save(checkpoint, tmp_path / "checkpoint.pth")
    loaded = torch.load(tmp_path / "checkpoint.pth", map_location="cpu", weights_only=True)
    back = models.get_model("shufflenet_v2_x0_5", weights=None, num_classes=10)
    back.load_state_dict(loaded["model"])
    assert same(back.state_dict(), usual.state_dict())
    again = torch.optim.swa_utils.AveragedModel(back, use_buffers=True)
    again.load_state_dict(loaded["model_ema"])
    assert same(again.state_dict(), usually_averaged.state_dict())
    optimizer = torch.optim.RMSprop(back.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, eps=0.0316, alpha=0.9)
    optimizer.load_state_dict(loaded["optimizer"])
    assert len(optimizer.state) == len(list(back.parameters()))
