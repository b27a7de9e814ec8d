# SPDX-License-Identifier: Apache-2.0
"""Exported PyTorch networks: predictions, the first loss and all gradients of `checkmate` against PyTorch and ONNX Runtime.

Usage: exported.py PROGRAM

Each network is exported in three ways, and those with normalization or dropout in training mode as well. Predictions are compared with PyTorch's and ONNX Runtime's. One step of SGD at rate 1
without momentum leaves the gradients as differences of the weights; they are compared with PyTorch's where the file has every
parameter by its name. A file in training mode is trained, and its copy with the trained weights predicts what PyTorch's model
does with them in evaluation mode, in ONNX Runtime too. Exit status 1 where anything differs, or where what should be refused is not.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
import onnxruntime
import torch
from torch import nn

warnings.filterwarnings("ignore")
CLOSE = 2e-5  # of the largest number


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Dropped(Norms):
    def forward(self, x):
        x = nn.functional.dropout(torch.relu(self.norm(self.conv(x))), 0.3, self.training)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Causal attention with a mask above 4 KiB, after nanoGPT."""

    def __init__(self, width=32, heads=2, block=128):
        super().__init__()
        self.table, self.positions = nn.Embedding(50, width), nn.Embedding(block, width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.head, self.heads = nn.LayerNorm(width), nn.Linear(width, 7), heads
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, ids):
        n, length = ids.shape
        x = self.table(ids) + self.positions(torch.arange(length, device=ids.device))
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, 2))
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf")).softmax(-1)
        return self.head((x + self.project((scores @ v).transpose(1, 2).reshape(n, length, -1))).mean(1))


def gated():
    return nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 24), nn.SiLU(), nn.Linear(24, 5))


def images():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.Hardswish(), nn.MaxPool2d(2),
                         nn.ConvTranspose2d(8, 4, 2), nn.PReLU(4), nn.Upsample(scale_factor=2), nn.Flatten(),
                         nn.LazyLinear(5))


NETWORKS = {
    "norms": (Norms, lambda: torch.randn(4, 3, 12, 12), 5),
    "attention": (Attention, lambda: torch.randint(0, 50, (4, 96)), 7),
    "gated": (gated, lambda: torch.randn(4, 16), 5),
    "images": (images, lambda: torch.randn(4, 3, 16, 16), 5),
}
EXPORTS = {
    "dynamo, no optimizing": {"dynamo": True, "optimize": False},
    "dynamo": {"dynamo": True},
    "legacy": {"dynamo": False, "opset_version": 17},
}


def distance(a, b):
    return float(abs(a - b).max() / max(abs(b).max(), 1e-30))


def gradients(model, x, y):
    """Loss and gradients of a training step, as `checkmate train` takes it: normalization by the batch."""
    model.train()
    loss = nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    return loss.item(), {name: p.grad.detach().numpy() for name, p in model.named_parameters()}


def check(program, folder, model, x, y, options):
    """One line on what came out, and whether it is right."""
    path = os.path.join(folder, "m.onnx")
    torch.onnx.export(model.eval(), (x,), path, input_names=["x"], verbose=False, **options)
    numpy.save(os.path.join(folder, "x.npy"), x.numpy())
    numpy.save(os.path.join(folder, "y.npy"), y.numpy())
    result = os.path.join(folder, "out.npy")
    done = subprocess.run([program, "run", path, "--input", os.path.join(folder, "x.npy"), "-o", result, "-j", "1"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"refused: {done.stderr.strip()[:150]}", True
    got = numpy.load(result)
    by_torch = distance(got, model(x).detach().numpy())
    by_runtime = distance(got, session(path).run(None, {"x": x.numpy()})[0])
    log, weights = os.path.join(folder, "log"), os.path.join(folder, "w.safetensors")
    done = subprocess.run([program, "train", path, "--data", folder, "--batch", str(len(x)), "--steps", "1", "--lr", "1",
                           "--momentum", "0", "--loss", "cross-entropy", "--keep-order", "--costs", "flops", "-j", "1",
                           "--budget", "256MB", "--log", log, "--export", weights],
                          capture_output=True, text=True, check=False)
    text = f"predictions off by {by_torch:.1e} (PyTorch), {by_runtime:.1e} (ONNX Runtime)"
    right = by_torch < CLOSE and by_runtime < CLOSE
    if done.returncode != 0:
        return f"{text}; training refused: {done.stderr.strip()[:150]}", right
    noted = "; noted" if "note:" in done.stderr else ""
    with open(log, encoding="utf-8") as file:
        loss = json.loads(file.readline())["loss"]
    before = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    wanted_loss, wanted = gradients(model, x, y)
    after = read_safetensors(weights)
    found = [name for name in wanted if name in after and after[name].shape == before[name].shape]
    if noted:  # merged or folded: another network, and the program says so
        return f"{text}{noted}: {len(found)} of {len(wanted)} parameters by their names", right
    worst = max((distance(before[n] - after[n], wanted[n]) for n in found if abs(wanted[n]).max() > 1e-6), default=0.0)
    right = right and abs(loss - wanted_loss) < 1e-5 * wanted_loss and worst < 1e-3
    return f"{text}; loss {loss:.6f} ({wanted_loss:.6f}); {len(found)} of {len(wanted)} gradients off by {worst:.1e}", right


TRAINING = {
    "dynamo": {"dynamo": True, "optimize": False},
    "opset 13": {"dynamo": False, "opset_version": 13, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False},
    "opset 17": {"dynamo": False, "opset_version": 17, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False},
}


def check_training_mode(program, folder, model, x, options):
    """The same for a file in training mode: what the copy predicts after some steps."""
    path, copy = os.path.join(folder, "m.onnx"), os.path.join(folder, "copy.onnx")
    torch.onnx.export(model.train(), (x,), path, input_names=["x"], verbose=False, **options)
    done = subprocess.run([program, "train", path, "--data", "synthetic", "--samples", "16", "--batch", str(len(x)), "--steps", "4",
                           "--costs", "flops", "-j", "1", "--budget", "256MB", "--export", copy],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"refused: {done.stderr.strip()[:150]}", False
    trained = onnx.load(copy)
    onnx.checker.check_model(trained, full_check=True)
    held = {t.name: torch.tensor(onnx.numpy_helper.to_array(t)) for t in trained.graph.initializer}
    named = {name: held[name] for name in model.state_dict() if name in held}
    model.load_state_dict(named, strict=False)
    numpy.save(os.path.join(folder, "x.npy"), x.numpy())
    result = os.path.join(folder, "out.npy")
    subprocess.run([program, "run", copy, "--input", os.path.join(folder, "x.npy"), "-o", result, "-j", "1"], check=True,
                   capture_output=True)
    wanted = model.eval()(x).detach().numpy()
    by_program = distance(numpy.load(result), wanted)
    by_runtime = distance(session(copy).run(None, {"x": x.numpy()})[0], wanted)
    left = [name for name in model.state_dict() if name not in named and "num_batches" not in name]
    right = by_program < CLOSE and by_runtime < CLOSE and not left
    return f"the trained copy is off from PyTorch by {by_program:.1e}, in ONNX Runtime by {by_runtime:.1e}", right


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options)


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: numpy.frombuffer(data[8 + size:][slice(*t["data_offsets"])], numpy.float32).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__" and t["dtype"] == "F32"}


def main():
    wrong = 0
    for name, (make, inputs, classes) in NETWORKS.items():
        for way, options in EXPORTS.items():
            torch.manual_seed(1)
            model, x = make(), inputs()
            model(x)  # lazy parameters, and statistics that are not those of a fresh network
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(0.1 * torch.randn_like(p))
            with tempfile.TemporaryDirectory() as folder:
                text, right = check(sys.argv[1], folder, model, x, torch.arange(len(x)) % classes, options)
            wrong += not right
            print(f"{name}, {way}: {text}{'' if right else '  WRONG'}", flush=True)
    for name, make in (("norms", Norms), ("dropped", Dropped)):
        for way, options in TRAINING.items():
            torch.manual_seed(1)
            model, x = make(), torch.randn(4, 3, 12, 12)
            with tempfile.TemporaryDirectory() as folder:
                text, right = check_training_mode(sys.argv[1], folder, model, x, options)
            wrong += not right
            print(f"{name} in training mode, {way}: {text}{'' if right else '  WRONG'}", flush=True)
    print(f"wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
