# SPDX-License-Identifier: Apache-2.0
"""Networks of the zoo as ONNX files: what `checkmate export` writes against `checkmate run`, in ONNX Runtime and read again.

Usage: zoo.py PROGRAM [NETWORK...]

Each network gets random weights and running statistics, is exported, checked by onnx.checker, and predicts three samples. Prints a line
for each, with the largest difference as a part of the largest number and whether all classes are the same; exit status 1 where
a difference is above 1e-4 or a class is another.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

CLOSE = 1e-4
TEXT = "--sequence-length 20 --vocabulary 97 --width 32 --depth 2 --heads 2"
SIZES = {
    "VGG16": "32,32,3", "VGG19": "32,32,3", "MobileNet": "32,32,3", "ResNet18": "64,64,3", "ResNet34": "33,35,3",
    "ResNet50": "64,64,3", "ResNet101": "64,64,3", "ResNet152": "64,64,3", "MobileNetV2": "65,66,3", "ResNet50V2": "64,64,3",
    "ResNet101V2": "64,64,3", "ResNet152V2": "64,64,3", "DenseNet121": "64,64,3", "DenseNet169": "64,64,3", "DenseNet201": "64,64,3",
    "Xception": "71,71,3", "InceptionV3": "75,75,3", "NASNetMobile": "64,64,3", "NASNetLarge": "64,64,3",
    "unet_mini": "64,64,3", "unet": "64,64,3", "vgg_unet": "64,64,3", "mobilenet_unet": "224,224,3", "resnet50_unet": "64,64,3",
    "segnet": "64,64,3", "vgg_segnet": "64,64,3", "mobilenet_segnet": "224,224,3", "resnet50_segnet": "64,64,3",
    "fcn_8": "64,64,3", "fcn_8_vgg": "64,96,3", "fcn_8_mobilenet": "224,224,3", "fcn_8_resnet50": "64,64,3",
    "fcn_32": "64,64,3", "fcn_32_vgg": "64,64,3", "fcn_32_mobilenet": "224,224,3", "fcn_32_resnet50": "64,64,3",
    "pspnet": "192,192,3", "vgg_pspnet": "192,192,3", "resnet50_pspnet": "192,192,3",
    "pspnet_50": "473,473,3", "pspnet_101": "473,473,3",
    "GPT2": TEXT, "BERT-base": TEXT, "Llama-2-7B": TEXT,
    "Llama-3.2-1B": "--sequence-length 20 --vocabulary 97 --width 64 --depth 2 --heads 8",
    "ViT-B16": "--input-shape 32,48,3 --width 32 --depth 2 --heads 2",
    "ConvNeXt-T": "--input-shape 64,64,3 --width 16 --depth 6", "ConvNeXt-S": "--input-shape 64,64,3 --width 16 --depth 12",
    "Swin-T": "--input-shape 112,116,3 --width 24 --depth 12 --heads 3",
    "DDPM-CIFAR10": "--input-shape 32,32,3 --width 32 --depth 1", "DDPM-256": "--input-shape 64,64,3 --width 32 --depth 1",
    "linear3": "32,32,3", "test": "32,32,3",
}  # fmt: skip


def options(network: str) -> list[str]:
    size = SIZES[network]
    return size.split() if size.startswith("--") else ["--input-shape", size]


def randomize(path: str) -> None:
    """Other values in a file of weights: statistics of no fresh network, weights that keep numbers from growing or vanishing."""
    rng = numpy.random.default_rng(3)
    with open(path, "r+b") as file:
        (head,) = struct.unpack("<Q", file.read(8))
        for name, t in json.loads(file.read(head)).items():
            if name == "__metadata__" or t["dtype"] != "F32":
                continue
            shape, (begin, end) = t["shape"], t["data_offsets"]
            if name.endswith(("variance", "gamma", "scale", "running_var")):
                values = rng.uniform(0.6, 1.4, shape)
            else:
                fan_in = numpy.prod(shape[:-1]) if name.count("/") else numpy.prod(shape[1:])
                values = rng.uniform(-1, 1, shape) * (numpy.sqrt(4 / fan_in) if len(shape) > 1 else 0.2)
            values = values.astype("<f4").tobytes()
            assert len(values) == end - begin
            file.seek(8 + head + begin)
            file.write(values)


def samples(session: onnxruntime.InferenceSession) -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(1)
    feed = {}
    for i in session.get_inputs():
        shape = [3 if d == "batch" else d for d in i.shape]
        if i.type == "tensor(int32)":
            feed[i.name] = rng.integers(0, 2 if i.name == "segments" else 97, shape).astype("int32")
        else:
            feed[i.name] = rng.uniform(0, 999, shape) if i.name == "time" else rng.normal(0, 1, shape)
            feed[i.name] = feed[i.name].astype("float32")
    return feed


def compare(program: str, network: str, folder: str) -> tuple[float, float, bool]:
    """The largest differences to ONNX Runtime, and to the file read again; whether all three predict the same classes."""

    def run(*arguments: str) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise SystemExit(f"{network}: {arguments[0]}: {done.stderr}")

    size = options(network)
    train = ["--data", "synthetic", "--samples", "2", "--batch", "2", "--steps", "1", "--costs", "flops", "-t", "1", "-q"]
    run("train", network, *train, *size, "--save", "w.safetensors")
    run("export", network, "--weights", "w.safetensors", *size, "-o", "plain.safetensors")
    weights, model = f"{folder}/plain.safetensors", f"{folder}/model.onnx"
    randomize(weights)
    run("export", network, "--weights", weights, "-o", model, *size)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model)
    feed = samples(session)
    (theirs,) = session.run(None, feed)
    own, again = [], []
    for name, x in feed.items():
        numpy.save(f"{folder}/first_{name}.npy", x)
        numpy.save(f"{folder}/{name}.npy", numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x)
        own += ["--input", f"{name}={name}.npy"]
        again += ["--input", f"{name}=first_{name}.npy"]
    run("run", network, "--weights", weights, *own, "-o", "y.npy", *size)
    run("run", model, *again, "-o", "again.npy")
    ours, read = numpy.load(f"{folder}/y.npy"), numpy.load(f"{folder}/again.npy")
    ours = ours.transpose(0, 3, 1, 2) if ours.ndim == 4 else ours
    assert ours.shape == theirs.shape == read.shape and numpy.isfinite(ours).all()
    assert ours.std() > 0
    near = numpy.sort(ours, -1)  # where two classes are as likely to the last digits, either is right
    clear = near[..., -1] - near[..., -2] > CLOSE * numpy.abs(ours).max()
    same = all((ours.argmax(-1) == y.argmax(-1))[clear].all() for y in (theirs, read))
    top = numpy.abs(ours).max()
    return float(numpy.abs(ours - theirs).max() / top), float(numpy.abs(ours - read).max() / top), bool(same)


def main() -> int:
    program, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(SIZES)
    wrong = 0
    for network in chosen:
        with tempfile.TemporaryDirectory() as folder:
            runtime, read, same = compare(program, network, folder)
        good = runtime < CLOSE and read < CLOSE and same
        wrong += not good
        print(f"{network:18} ONNX Runtime {runtime:.1e}  read again {read:.1e}  {'same classes' if same else 'OTHER CLASSES'}", flush=True)
    print(f"{len(chosen)} networks, wrong: {wrong}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
