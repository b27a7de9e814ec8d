# SPDX-License-Identifier: Apache-2.0
"""Weights that the program trained, in torchvision's and transformers' models, and theirs in the program: the names and shapes of their
state_dict, loaded strictly, and the same predictions both ways."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.9")
np = pytest.importorskip("numpy", reason="NumPy is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "torch"))

import zoo  # noqa: E402

zoo.allow_torchvision()

PROGRAM = os.environ.get("CHECKMATE_PROGRAM", "")
GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "pytorch_names.txt"
TEXT = ["--sequence-length", "12", "--vocabulary", "61", "--width", "32", "--depth", "2", "--heads", "4"]

pytestmark = pytest.mark.skipif(not PROGRAM, reason="CHECKMATE_PROGRAM names no program")


def vision() -> Any:
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    return importlib.import_module("torchvision.models")


def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def convnext(width: int, classes: int) -> Any:
    config, widths = vision().convnext.CNBlockConfig, [width, 2 * width, 4 * width, 8 * width]
    stages = [config(widths[i], widths[i + 1] if i < 3 else None, [1, 1, 3, 1][i]) for i in range(4)]
    return vision().convnext.ConvNeXt(stages, num_classes=classes)


def swin(width: int, classes: int) -> Any:
    heads = [3, 6, 12, 24]
    return vision().swin_transformer.SwinTransformer([4, 4], width, [1, 1, 3, 1], heads, [7, 7], num_classes=classes)


def vit(image: int, width: int, heads: int, classes: int) -> Any:
    return vision().vision_transformer.VisionTransformer(image, 16, 2, heads, width, 4 * width, num_classes=classes)


def gpt2(words: int, width: int, heads: int, layers: int) -> Any:
    config = transformers().GPT2Config(vocab_size=words, n_positions=1024, n_embd=width, n_layer=layers, n_head=heads)
    return transformers().GPT2LMHeadModel(config)


def llama(words: int, width: int, heads: int, layers: int, hidden: int, kv_heads: int, tied: bool, base: float) -> Any:
    config = transformers().LlamaConfig(
        vocab_size=words, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_parameters={"rope_type": "default", "rope_theta": base},
    )  # fmt: skip
    return transformers().LlamaForCausalLM(config)


def bert(words: int, width: int, heads: int, layers: int) -> Any:
    config = transformers().BertConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
    )
    return transformers().BertForMaskedLM(config)


# A model as the zoo has it, small: network, options, the model there, whether the program ends in a softmax.
MODELS: dict[str, tuple[str, list[str], Callable[[], Any], bool]] = {
    "resnet18": ("ResNet18", ["--input-shape", "64,64,3"], lambda: vision().resnet18(num_classes=5), True),
    "densenet121": ("DenseNet121", ["--input-shape", "64,64,3"], lambda: vision().densenet121(num_classes=5), True),
    "vit": ("ViT-B16", ["--input-shape", "32,32,3", "--width", "32", "--depth", "2", "--heads", "4"], lambda: vit(32, 32, 4, 5), False),
    "convnext": ("ConvNeXt-T", ["--input-shape", "64,64,3", "--width", "16", "--depth", "6"], lambda: convnext(16, 5), False),
    "swin": ("Swin-T", ["--input-shape", "60,60,3", "--width", "24", "--depth", "6", "--heads", "3"], lambda: swin(24, 5), False),
    "gpt2": ("GPT2", TEXT, lambda: gpt2(61, 32, 4, 2), False),
    "llama": ("Llama-2-7B", TEXT, lambda: llama(61, 32, 4, 2, 88, 4, False, 1e4), False),
    "llama3": ("Llama-3.2-1B", TEXT, lambda: llama(61, 32, 4, 2, 128, 1, True, 5e5), False),
    "bert": ("BERT-base", TEXT, lambda: bert(61, 32, 4, 2), False),
}


def program(folder: pathlib.Path, *arguments: str) -> str:
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def predict(folder: pathlib.Path, network: str, options: list[str], weights: str, inputs: dict[str, Any]) -> Any:
    files = []
    for name, x in inputs.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x)
        files += ["--input", f"{name}={name}.npy"]
    program(folder, "run", network, "--weights", weights, *files, "-o", "y.npy", "-j", "1", *options)
    return np.load(folder / "y.npy")


def inputs_of(network: str, options: list[str]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    if "--input-shape" in options:
        height, width, channels = map(int, options[options.index("--input-shape") + 1].split(","))
        return {"input": rng.normal(size=(2, channels, height, width)).astype("float32")}
    tokens = {"tokens": rng.integers(0, 61, (2, 12)).astype("int32")}
    return tokens | ({"segments": np.zeros((2, 12), "int32")} if network == "BERT-base" else {})


def eager(model: Any, inputs: dict[str, Any], softmax: bool) -> Any:
    first = torch.from_numpy(next(iter(inputs.values())))
    with torch.no_grad():
        y = model.eval()(first if first.ndim == 4 else first.long())
    y = getattr(y, "logits", y)
    return (y.softmax(-1) if softmax else y).numpy()


def randomize(model: Any) -> None:
    """Other statistics than those of a fresh network; what is tied stays so."""
    generator = torch.Generator().manual_seed(2)
    for name, t in model.state_dict().items():
        if name.endswith("running_var"):
            t.copy_(torch.rand(t.shape, generator=generator) + 0.5)
        elif name.endswith(("running_mean", ".bias", "layer_scale")):
            t.copy_(torch.rand(t.shape, generator=generator) * 0.4 - 0.2)


@pytest.mark.parametrize("which", MODELS)
def test_weights_both_ways(which: str, tmp_path: pathlib.Path) -> None:
    network, options, build, softmax = MODELS[which]
    torch.manual_seed(1)
    model = build()
    randomize(model)
    options = [*options, "--classes", "5"] if "--input-shape" in options else options
    inputs = inputs_of(network, options)

    # Theirs here.
    state = {name: t.detach().clone() for name, t in model.state_dict().items()}
    safetensors.save_file(state, str(tmp_path / "theirs.safetensors"))
    ours, theirs = predict(tmp_path, network, options, "theirs.safetensors", inputs), eager(model, inputs, softmax)
    assert np.abs(ours - theirs).max() < 2e-4 * np.abs(theirs).max()
    assert (ours.argmax(-1) == theirs.argmax(-1)).all()
    assert theirs.std() > 1e-4 * np.abs(theirs).max()

    # Ours there, strictly, and every bit is what it was.
    program(tmp_path, "export", network, "--weights", "theirs.safetensors", "-o", "ours.safetensors", *options)
    loaded = safetensors.load_file(str(tmp_path / "ours.safetensors"))
    fresh = build()
    fresh.load_state_dict(loaded, strict=True)
    for name, t in fresh.state_dict().items():
        assert name.endswith("num_batches_tracked") or torch.equal(t, state[name]), name
    assert np.array_equal(eager(fresh, inputs, softmax), theirs)


def test_trained_weights(tmp_path: pathlib.Path) -> None:
    """What `train` exports, and a checkpoint, which has names of its own."""
    network, options, build, softmax = MODELS["resnet18"]
    options = [*options, "--classes", "5"]
    train = ["--data", "synthetic", "--samples", "8", "--batch", "4", "--steps", "4", "--lr", "0.01", "--costs", "flops", "-t", "1", "-j", "1"]
    program(tmp_path, "train", network, *train, *options, "--save", "saved.safetensors", "--export", "exported.safetensors")
    inputs = inputs_of(network, options)
    ours = predict(tmp_path, network, options, "exported.safetensors", inputs)
    assert np.array_equal(ours, predict(tmp_path, network, options, "saved.safetensors", inputs))
    model = build()
    model.load_state_dict(safetensors.load_file(str(tmp_path / "exported.safetensors")))
    theirs = eager(model, inputs, softmax)
    assert (ours.argmax(-1) == theirs.argmax(-1)).all() and np.abs(ours - theirs).max() < 1e-4

    # Keras' network of that name is another one.
    done = subprocess.run(
        [PROGRAM, "export", "ResNet50", "--weights", "exported.safetensors", "-o", "no.safetensors", *options],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "Names of PyTorch are read where the network is PyTorch's" in done.stderr


# The networks of the golden list, with their sizes there.
LISTED: dict[str, Callable[[], Any]] = {
    "ResNet18": lambda: vision().resnet18(),
    "ResNet34": lambda: vision().resnet34(),
    "VGG16": lambda: vision().vgg16(),
    "VGG19": lambda: vision().vgg19(),
    "DenseNet121": lambda: vision().densenet121(),
    "ViT-B16": lambda: vision().vit_b_16(),
    "ConvNeXt-T": lambda: vision().convnext_tiny(),
    "Swin-T": lambda: vision().swin_t(),
    "GPT2": lambda: gpt2(50257, 768, 12, 12),
    "TinyLlama-1.1B": lambda: llama(32000, 2048, 32, 22, 5632, 4, False, 1e4),
    "Llama-3.2-1B": lambda: llama(128256, 2048, 32, 16, 8192, 8, True, 5e5),
    "BERT-base": lambda: bert(30522, 768, 12, 12),
}


@pytest.mark.parametrize("network", LISTED)
def test_names_and_shapes(network: str) -> None:
    """The golden list, which every run of the tests holds against the zoo, is what their models have."""
    with torch.device("meta"):
        model = LISTED[network]()
    theirs = {f"{name} {'x'.join(map(str, t.shape))}" for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    lines = GOLDEN.read_text().splitlines()
    ours = {line.removeprefix(f"{network}: ") for line in lines if line.startswith(f"{network}: ")}
    assert ours == theirs
