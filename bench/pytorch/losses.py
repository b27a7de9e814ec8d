# SPDX-License-Identifier: Apache-2.0
"""Losses of the first steps of `checkmate train` and of PyTorch from the same weights and data, as a Markdown table.

losses.py CHECKMATE [--steps N] [--case NAME]... [--tolerance R]

Weights: our own initial ones, carried over layer by layer, for networks of the zoo; PyTorch's own for the others, which
the ONNX file holds that both are given. Data: samples drawn once, read by both in the same order. Rounding grows from
step to step, fastest through batch normalization, so PyTorch is also compared with itself: its two image layouts (the
encoder: two numbers of threads) give other roundings of the same training. Ends with status 1 when ours is apart from
PyTorch by more than the tolerance, relative to the loss, and by more than four times what PyTorch is from itself.
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch

import networks
import weights

HERE = os.path.dirname(os.path.abspath(__file__))
# network, batch, learning rate. "onnx": our model is the file exported from the PyTorch network.
CASES = [("MobileNet", 8, 0.001, "onnx"), ("ResNet18", 8, 0.001, "onnx"), ("ResNet50", 8, 0.001, "zoo"),
         ("VGG16", 4, 0.001, "zoo"), ("encoder", 16, 0.001, "onnx")]
MOMENTUM = 0.9


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(command[:3]), (done.stderr.strip().splitlines() or ["failed"])[-1]))
    return done.stdout


def our_losses(checkmate, model, folder, batch, steps, rate, more):
    log = os.path.join(folder, "log.jsonl")
    run([checkmate, "train", model, "--data", folder, "--keep-order", "--batch", str(batch), "--steps", str(steps),
         "--lr", str(rate), "--momentum", str(MOMENTUM), "--log", log] + more)
    with open(log) as f:
        return [json.loads(line)["loss"] for line in f]


def torch_losses(blocks, x, y, batch, steps, rate, other):
    blocks = copy.deepcopy(blocks)
    torch.set_num_threads(1 if other and x.dim() != 4 else 2)
    if other and x.dim() == 4:
        blocks = blocks.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(blocks.parameters(), lr=rate, momentum=MOMENTUM)
    loss_of = torch.nn.CrossEntropyLoss()
    losses = []
    blocks.train()
    for step in range(steps):
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        h = x[part]
        for block in blocks:
            h = block(h)
        loss = loss_of(h, y[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def apart(some, others):
    return [abs(a - b) / abs(b) for a, b in zip(some, others)]


def compare(args, name, batch, rate, kind, folder):
    build, shape, classes = networks.NETWORKS[name]
    random = numpy.random.default_rng(1)
    x = random.standard_normal((args.steps * batch,) + shape, dtype=numpy.float32)
    y = random.integers(0, classes, args.steps * batch).astype(numpy.int32)
    last = kind == "zoo" and len(shape) == 3
    numpy.save(os.path.join(folder, "x.npy"), numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x)
    numpy.save(os.path.join(folder, "y.npy"), y)
    torch.manual_seed(1)
    blocks = torch.nn.ModuleList(build())
    model, more = name, []
    if kind == "onnx":
        model = os.path.join(folder, name + ".onnx")
        run([sys.executable, os.path.join(HERE, "export.py"), name, str(batch), model])
    else:
        start = os.path.join(folder, "start.safetensors")
        run([args.checkmate, "train", name, "--data", "synthetic", "--samples", "1", "--batch", "1", "--steps", "1",
             "--lr", "0", "--momentum", "0", "--export", start])
        weights.load(name, blocks, start)
        more = ["--weights", start]
    ours = our_losses(args.checkmate, model, folder, batch, args.steps, rate, more)
    data = (torch.from_numpy(x), torch.from_numpy(y).long(), batch, args.steps, rate)
    theirs = torch_losses(blocks, *data, other=False)
    itself = apart(torch_losses(blocks, *data, other=True), theirs)
    difference = apart(ours, theirs)
    print("| %s | %d | %s | %.6f | %.6f | %.6f | %.6f | %.1e | %.1e | %.1e |" % (
        name, batch, kind, ours[0], theirs[0], ours[-1], theirs[-1], difference[0], max(difference), max(itself)),
        flush=True)
    return len(ours) == args.steps and max(difference) <= max(args.tolerance, 4 * max(itself))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkmate")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--case", action="append")
    args = parser.parse_args()
    print("| network | batch | weights | first loss, ours | PyTorch's | loss %d, ours | PyTorch's "
          "| apart, first | apart, most | PyTorch from itself, most |" % args.steps)
    print("|---|---|---|---|---|---|---|---|---|---|")
    good = True
    for name, batch, rate, kind in CASES:
        if not args.case or name in args.case:
            with tempfile.TemporaryDirectory() as folder:
                good = compare(args, name, batch, rate, kind, folder) and good
    sys.exit(0 if good else 1)


main()
