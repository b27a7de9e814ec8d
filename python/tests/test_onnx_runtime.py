# SPDX-License-Identifier: Apache-2.0
"""What the program exports predicts in ONNX Runtime, and in PyTorch where the names are PyTorch's, what `checkmate run` predicts."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import os
import pathlib
import random
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = os.environ.get("CHECKMATE_PROGRAM", "")

pytestmark = pytest.mark.skipif(not PROGRAM, reason="CHECKMATE_PROGRAM names no program")

#: A network of each family of the zoo in small; bench/onnx/zoo.py has them all.
FAMILIES = ("MobileNet", "ResNet18", "unet_mini", "ViT-B16", "ConvNeXt-T", "Swin-T", "DDPM-CIFAR10", "GPT2", "BERT-base", "Llama-3.2-1B")


def bench() -> ModuleType:
    """bench/onnx/zoo.py; bench/torch has a module of that name, too."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    spec = importlib.util.spec_from_file_location("onnx_zoo", ROOT / "bench/onnx/zoo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(folder: pathlib.Path, *arguments: str) -> str:
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("network", FAMILIES)
def test_families(network: str, tmp_path: pathlib.Path) -> None:
    zoo = bench()
    runtime, read, same = zoo.compare(os.path.abspath(PROGRAM), network, str(tmp_path))
    assert runtime < zoo.CLOSE and read < zoo.CLOSE and same


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


COLOURS = {"blue": (40, 60, 200), "green": (50, 180, 60), "red": (210, 50, 40)}


def paint(folder: pathlib.Path) -> list[pathlib.Path]:
    """Pictures of three colours in a folder each, of different sizes, in both formats, and one that is cut off."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng, painted = random.Random(4), []
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for i in range(8):
            width, height = rng.randint(20, 70), rng.randint(20, 70)
            noise = np.random.default_rng(i).integers(-40, 40, (height, width, 3))
            painted.append(folder / name / f"{i}.{'png' if i % 2 else 'jpg'}")
            image.fromarray((np.array(colour) + noise).clip(0, 255).astype("uint8")).save(painted[-1])
    damaged = folder / "red" / "damaged.jpg"
    damaged.write_bytes(painted[0].read_bytes()[:40])
    return painted


def recipe() -> str:
    """The program of docs/ONNX.md that predicts a picture's class."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/ONNX.md").read_text(), re.DOTALL)
    (block,) = (b for b in blocks if "get_modelmeta" in b)
    assert block.count('"picture.jpg"') == 1
    return str(block)


def test_pictures(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From a folder of pictures to predictions, as docs/ONNX.md has it, and the same by `checkmate run` of the file and of the weights."""
    painted = paint(tmp_path / "photos")
    sizes = ["--input-shape", "32,48,3", "--width", "32", "--depth", "4", "--heads", "2"]
    options = ["--pixels", "imagenet", "--batch", "8", "--steps", "100", "--optimizer", "adamw", "--budget", "64MB", "--fused"]
    program(tmp_path, "train", "ViT-B16", "--data", "photos", *sizes, *options, "--costs", "flops", "-t", "2", "-j", "1",
            "--save", "w.safetensors", "--export", "model.onnx")  # fmt: skip
    tables = []
    for number, command in enumerate((["model.onnx"], ["ViT-B16", "--weights", "w.safetensors"])):
        program(tmp_path, "run", command[0], "photos", *command[1:], "-o", f"{number}.csv")
        with (tmp_path / f"{number}.csv").open() as file:
            tables.append({row[0]: row[1:] for row in csv.reader(file)})
    for table in tables:
        assert sum(path.endswith((".png", ".jpg")) for path in table) == len(painted)  # without the damaged one

    monkeypatch.chdir(tmp_path)
    code, seen = recipe(), set()
    for path in painted:
        namespace: dict[str, object] = {}
        exec(compile(code.replace('"picture.jpg"', repr(str(path))), "docs/ONNX.md", "exec"), namespace)  # noqa: S102
        printed = capsys.readouterr().out.strip()
        for table in tables:
            row = next(cells for name, cells in table.items() if name.endswith(f"{path.parent.name}/{path.name}"))
            assert row[0] == printed
            assert abs(float(row[1]) - float(softmax(namespace["y"]).max())) < 1e-4
        assert printed == path.parent.name
        seen.add(printed)
    assert seen == set(COLOURS)


def test_text(tmp_path: pathlib.Path) -> None:
    """A network that was trained on a text: the same next bytes there."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 60)
    sizes = ["--sequence-length", "16", "--width", "32", "--depth", "2", "--heads", "4"]
    program(tmp_path, "train", "GPT2", "--data", "text.txt", *sizes, "--batch", "8", "--steps", "300", "--optimizer", "adamw", "--lr", "0.003",
            "--costs", "flops", "-t", "2", "-j", "1", "--save", "w.safetensors", "--export", "model.onnx")  # fmt: skip
    said = subprocess.run(
        [PROGRAM, "run", "model.onnx", "--generate", "40", "--prompt", "the cat sat on t", "--temperature", "0"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    session = ort.InferenceSession(tmp_path / "model.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["task"], facts["input.tokens"]) == ("next token", "bytes")
    text = b"the cat sat on t"
    for _ in range(40):
        (scores,) = session.run(None, {facts["input.name"]: np.frombuffer(text[-16:], "uint8").astype("int32")[None]})
        text += bytes([int(scores[0, -1].argmax())])
    assert said.encode() == text + b"\n"
    assert len(set(text[16:].split())) > 3


@pytest.mark.parametrize(
    ("network", "sizes"),
    [("ResNet18", ["--input-shape", "32,32,3"]), ("ViT-B16", ["--input-shape", "32,32,3", "--width", "32", "--depth", "2", "--heads", "2"])],
)
def test_three_ways(network: str, sizes: list[str], tmp_path: pathlib.Path) -> None:
    """What was trained predicts the same classes here, in ONNX Runtime, and in torchvision's network, which takes the weights strictly."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    sys.path.insert(0, str(ROOT / "bench" / "torch"))
    if not importlib.import_module("zoo").allow_torchvision():
        pytest.skip("torchvision is not installed")
    models = importlib.import_module("torchvision.models")
    model = (
        models.resnet18(num_classes=5) if network == "ResNet18" else models.vision_transformer.VisionTransformer(32, 16, 2, 2, 32, 128, num_classes=5)
    )
    program(tmp_path, "train", network, *sizes, "--classes", "5", "--data", "synthetic", "--samples", "32", "--batch", "8", "--steps", "30",
            "--costs", "flops", "-t", "1", "-j", "1", "--save", "w.safetensors", "--export", "names.safetensors")  # fmt: skip
    program(tmp_path, "export", network, "--weights", "w.safetensors", "-o", "model.onnx")
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(16, 3, *map(int, sizes[1].split(",")[:2]))) + rng.normal(size=(16, 3, 1, 1))).astype("float32")
    np.save(tmp_path / "x.npy", np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    program(tmp_path, "run", network, "--weights", "w.safetensors", "--input", "x.npy", "-o", "y.npy", "-j", "1", *sizes[:2])
    ours = np.load(tmp_path / "y.npy")
    session = ort.InferenceSession(tmp_path / "model.onnx")
    (runtime,) = session.run(None, {session.get_modelmeta().custom_metadata_map["input.name"]: x})
    model.load_state_dict(safetensors.load_file(str(tmp_path / "names.safetensors")), strict=True)
    with torch.no_grad():
        eager = model.eval()(torch.from_numpy(x)).numpy()
    if session.get_modelmeta().custom_metadata_map["output"] == "probabilities":
        eager = softmax(eager)
    for theirs in (runtime, eager):
        assert np.abs(ours - theirs).max() < 1e-4 * np.abs(ours).max()
        assert (ours.argmax(-1) == theirs.argmax(-1)).all()
    assert len(set(ours.argmax(-1))) > 1
