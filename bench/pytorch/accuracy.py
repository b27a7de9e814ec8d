# SPDX-License-Identifier: Apache-2.0
"""What networks know that `checkmate train` and PyTorch trained in the same way: loss and accuracy on samples held back.

    bench/pytorch/run.sh --accuracy                          what the records lack; then the table of docs/TRAINING.md
    bench/pytorch/run.sh --accuracy --case ResNet18 --again

The data are scikit-learn's handwritten digits, which come with it: 1000 of the 1797 pictures to train on, the others held back. Both train
from the same weights, which the program initialised and exported from a seed, on the same batches in the same order, with the same optimizer and rates, in
one thread; ours within a budget of 60 % of the activations. PyTorch resizes and scales pictures as docs/ONNX.md has it, with Pillow.
What remains is in which order sums are formed. How much that matters shows PyTorch from itself, with the samples of every batch in reverse: the same
sums in another order. "Own weights": PyTorch from the weights that its modules have by themselves.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "torch")]
import kept  # noqa: E402
import networks  # noqa: E402
import weights  # noqa: E402
import zoo  # noqa: E402

PACKAGES = ("torch", "torchvision", "scikit-learn", "Pillow")
TRAINED, CLASSES, BATCH = 1000, 10, 32
WAYS = {"ours": "checkmate", "torch": "PyTorch", "reversed": "PyTorch, batches reversed", "own": "PyTorch, own weights"}
#: ImageNet's mean and deviation: --pixels imagenet.
MEAN, DEVIATION = numpy.array([0.485, 0.456, 0.406]), numpy.array([0.229, 0.224, 0.225])


def torchvision() -> Any:
    zoo.allow_torchvision()
    import torchvision

    return torchvision.models


def mobilenet() -> torch.nn.Module:
    blocks = networks.mobilenet(CLASSES)
    return torch.nn.Sequential(*blocks[:-1], torch.nn.Dropout2d(1e-3), blocks[-1])


@dataclass(frozen=True)
class Case:
    build: Callable[[], torch.nn.Module]
    side: int
    sizes: tuple[str, ...]
    steps: int
    rate: float
    decay: float
    adamw: bool = False

    def options(self) -> list[str]:
        return ["--input-shape", f"{self.side},{self.side},3", *self.sizes]


CASES = {
    "ResNet18": Case(lambda: torchvision().resnet18(num_classes=CLASSES), 32, (), 150, 0.02, 5e-4),
    "MobileNet": Case(mobilenet, 64, (), 150, 0.05, 1e-4),
    "ViT-B16": Case(
        lambda: torchvision().vision_transformer.VisionTransformer(64, 16, 4, 4, 128, 512, num_classes=CLASSES),
        64, ("--width", "128", "--depth", "4", "--heads", "4"), 300, 0.001, 0.05, True,
    ),
}  # fmt: skip


def pictures(seed: int, steps: int) -> Iterator[tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]]:
    """The batches of a whole run one after the other, and the samples held back: the same ones for every seed."""
    digits = load_digits()
    x = (digits.images * (255 / 16)).round().astype("uint8")[..., None]
    mixed = numpy.random.default_rng(0).permutation(len(x))
    learnt, held = mixed[:TRAINED], mixed[TRAINED:]
    rng = numpy.random.default_rng(seed)
    order = numpy.concatenate([rng.permutation(learnt) for _ in range(math.ceil(steps * BATCH / TRAINED))])[: steps * BATCH]
    for chosen in (order, held):
        yield x[chosen], digits.target[chosen].astype("int32")


def prepared(x: numpy.ndarray[Any, Any], side: int) -> torch.Tensor:
    """As docs/ONNX.md prepares a picture."""
    sized = [numpy.asarray(Image.fromarray(one[..., 0]).convert("F").resize((side, side), Image.Resampling.BILINEAR)) for one in x]
    return torch.from_numpy(((numpy.stack(sized)[..., None] / 255 - MEAN) / DEVIATION).astype("float32").transpose(0, 3, 1, 2))


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:3])}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout


def write(folder: pathlib.Path, x: numpy.ndarray[Any, Any], y: numpy.ndarray[Any, Any]) -> None:
    folder.mkdir()
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", y)


def start(program: str, name: str, seed: int, folder: pathlib.Path) -> pathlib.Path:
    """Initial weights: those after a step that changes none. Running statistics have moved by one step, for both."""
    path = folder / "start.safetensors"
    run(program, "train", name, "--data", "synthetic", "--samples", "32", "--batch", "32", "--steps", "1", "--lr", "1e-30", "--momentum", "0",
        "--classes", str(CLASSES), *CASES[name].options(), "--seed", str(seed), "--costs", "flops", "-t", "1", "--export", str(path))  # fmt: skip
    return path


def ours(program: str, name: str, seed: int, folder: pathlib.Path, more: tuple[str, ...] = ()) -> dict[str, float]:
    case = CASES[name]
    for kind, (x, y) in zip(("learnt", "held"), pictures(seed, case.steps), strict=True):
        write(folder / kind, x, y)
    optimizer = ["--optimizer", "adamw"] if case.adamw else ["--momentum", "0.9"]
    command = [program, "train", name, "--data", str(folder / "learnt"), "--validate", str(folder / "held"), "--resize", "--keep-order",
               "--pixels", "imagenet", *case.options(), "--batch", str(BATCH), "--steps", str(case.steps), *optimizer, "--lr", str(case.rate),
               "--weight-decay", str(case.decay), "--schedule", "cosine", "--budget", "60%act", "--fused", "--costs", "flops", "-t", "5", "-j", "1",
               "--weights", str(start(program, name, seed, folder)), "--json", *more]  # fmt: skip
    result = json.loads(run(*command))
    return {"loss": result["validation_loss"], "accuracy": result["validation_accuracy"]}


def load(name: str, model: torch.nn.Module, path: pathlib.Path) -> None:
    if name == "MobileNet":
        weights.load(name, model, str(path))
    else:
        model.load_state_dict(load_file(str(path)))


def theirs(program: str, name: str, seed: int, folder: pathlib.Path, way: str) -> dict[str, float]:
    case = CASES[name]
    (x, y), (held_x, held_y) = pictures(seed, case.steps)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = case.build()
    if way != "own":
        load(name, model, start(program, name, seed, folder))
    make: Any = torch.optim.AdamW if case.adamw else torch.optim.SGD
    more: Any = {} if case.adamw else {"momentum": 0.9}
    optimizer = make(model.parameters(), lr=case.rate, weight_decay=case.decay, **more)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, case.steps)
    labels = torch.from_numpy(y).long()
    model.train()
    for first in range(0, len(x), BATCH):
        batch = numpy.arange(first, first + BATCH)
        batch = batch[::-1].copy() if way == "reversed" else batch
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(prepared(x[batch], case.side)), labels[batch]).backward()
        optimizer.step()
        rates.step()
    model.eval()
    labels = torch.from_numpy(held_y).long()
    with torch.no_grad():
        scores = model(prepared(held_x, case.side))
    right = (scores.argmax(1) == labels).float().mean().item()
    return {"loss": torch.nn.functional.cross_entropy(scores, labels).item(), "accuracy": right}


def measure(program: str, name: str, seed: int, way: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        found = ours(program, name, seed, path) if way == "ours" else theirs(program, name, seed, path, way)
    return {"case": f"{name} {seed} {way}", "network": name, "seed": seed, "way": way} | found


#: Welch's test with three runs on each side: this many standard errors are exceeded by chance in one case of twenty.
STUDENT = 2.78


def spread(values: list[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def apart(ours: list[float], theirs: list[float], digits: int) -> str:
    """The difference of the means, and what chance explains of it."""
    noise = STUDENT * math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(ours))
    difference = statistics.mean(ours) - statistics.mean(theirs)
    word = "within" if abs(difference) <= noise else "**beyond**"
    return f"{difference:+.{digits}f}, {word} {noise:.{digits}f}"


def table(rows: dict[str, dict[str, Any]], seeds: int) -> str:
    """Accuracy and loss of every seed, mean and standard deviation of each network; then how far ours are from PyTorch's."""
    heads = ["| network | seed | " + " | ".join(WAYS.values()) + " |", "|---|---|" + "---|" * len(WAYS)]
    compared = ["| network | loss, ours less PyTorch's | accuracy, points | the same seed, most | PyTorch's from itself, most | own weights, loss "
                "| accuracy, points |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    used = []
    for name in CASES:
        found = {way: [rows.get(f"{name} {s} {way}", {"failed": ""}) for s in range(1, seeds + 1)] for way in WAYS}
        if any("failed" in row for of in found.values() for row in of):
            continue
        used += [row for of in found.values() for row in of]
        loss = {way: [row["loss"] for row in of] for way, of in found.items()}
        right = {way: [100 * row["accuracy"] for row in of] for way, of in found.items()}
        for i in range(seeds):
            heads.append(f"| {name} | {i + 1} | " + " | ".join(f"{right[way][i]:.1f} %, {loss[way][i]:.4f}" for way in WAYS) + " |")
        heads.append(f"| {name} | mean | " + " | ".join(f"{spread(right[way], 1)} %, {spread(loss[way], 4)}" for way in WAYS) + " |")
        pairs = [max(abs(x - y) for x, y in zip(loss[way], loss["torch"], strict=True)) for way in ("ours", "reversed")]
        cells = [apart(loss["ours"], loss["torch"], 4), apart(right["ours"], right["torch"], 1), *(f"{pair:.2g}" for pair in pairs),
                 apart(loss["ours"], loss["own"], 4), apart(right["ours"], right["own"], 1)]  # fmt: skip
        compared.append(f"| {name} | " + " | ".join(cells) + " |")
    between = "The differences of these, by `bench/pytorch/run.sh --accuracy` as well:"
    return "\n".join([*heads, "", between, "", *compared, "", kept.made(used)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="measure what there are records of, too")
    parser.add_argument("--records", type=pathlib.Path, default=kept.ROOT / "bench/results/pytorch-accuracy.jsonl")
    parser.add_argument("--page", type=pathlib.Path, help="the page with the table")
    args = parser.parse_args()
    names = [f"{name} {seed} {way}" for name in args.case or CASES for seed in range(1, args.seeds + 1) for way in WAYS]
    for case in names if args.again else kept.missing(args.records, names):
        name, seed, way = case.split()
        kept.keep(args.records, measure(args.program, name, int(seed), way), *PACKAGES)
    text = table(kept.read(args.records), args.seeds)
    if args.page:
        kept.put(args.page, "accuracy", text)
    print(text)


main()
