# SPDX-License-Identifier: Apache-2.0
"""Step time and peak memory of `checkmate train` against PyTorch on this machine, as a Markdown table.

compare.py CHECKMATE [--rounds N] [--steps N] [--threads 1,2] [--case NAME]...

Runs are interleaved: in each round ours, then PyTorch in both layouts, of which the faster counts. A run's time is the
median of its steps after the first two; the ratio is the median over rounds of ours / PyTorch's. Memory is what the
process grows by while training. With torch.utils.checkpoint around every block PyTorch needs less memory; ours then
gets that much as its budget.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# network, batch, our model: a name of the zoo, or "onnx" for a file exported from the PyTorch network
CASES = [("MobileNet", 16, "zoo"), ("ResNet18", 8, "onnx"), ("ResNet50", 8, "zoo"), ("VGG16", 4, "zoo"),
         ("encoder", 16, "onnx")]
WARM = 2


def ours(checkmate, model, batch, threads, steps, budget=None):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [checkmate, "train", model, "--data", "synthetic", "--samples", str(2 * batch), "--batch", str(batch),
                   "--steps", str(steps), "--threads", str(threads), "--lr", "0.0001", "--momentum", "0.9", "--fused",
                   "--log", log, "--json"]
        if budget is not None:
            command += ["--budget", str(int(budget))]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            return None, (run.stderr.strip().splitlines() or ["no message"])[-1]
        result = json.loads(run.stdout)
        with open(log) as f:
            times = [json.loads(line)["step_seconds"] for line in f]
    return {"seconds": statistics.median(times[WARM:]), "bytes": result["resident_growth_bytes"],
            "overhead": result["overhead"]}, None


def torchs(name, batch, threads, steps, layout, mode):
    run = subprocess.run([sys.executable, os.path.join(HERE, "step.py"), name, str(batch), str(threads), str(steps),
                          layout, mode], capture_output=True, text=True, check=True)
    result = json.loads(run.stdout)
    return {"seconds": statistics.median(result["step_seconds"][WARM:]), "bytes": result["peak_bytes"]}


def faster_torch(name, batch, threads, steps, mode):
    layouts = ["contiguous"] if name == "encoder" else ["contiguous", "channels_last"]
    return min((torchs(name, batch, threads, steps, layout, mode) for layout in layouts), key=lambda r: r["seconds"])


def mega(value):
    return "%.0f" % (value / 1e6)


def compare(args, name, batch, model, threads, mode, budget):
    mine, theirs, failure = [], [], None
    for _ in range(args.rounds):
        theirs.append(faster_torch(name, batch, threads, args.steps, mode))
        limit = theirs[0]["bytes"] if budget else None
        result, failure = ours(args.checkmate, model, batch, threads, args.steps, limit)
        if result is None:
            break
        mine.append(result)
    label = "| %s | %d | %d | %s |" % (name, batch, threads, mode)
    if failure is not None:
        return label + " failed: " + failure.replace("|", "/") + " | | | | |"
    ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(mine, theirs))
    return label + " %.3f | %.3f | %.2f | %s | %s |" % (
        statistics.median(r["seconds"] for r in mine), statistics.median(r["seconds"] for r in theirs), ratio,
        mega(max(r["bytes"] for r in mine)), mega(max(r["bytes"] for r in theirs)))


def model_of(name, batch, kind, folder):
    if kind == "zoo":
        return name
    path = os.path.join(folder, name + ".onnx")
    run = subprocess.run([sys.executable, os.path.join(HERE, "export.py"), name, str(batch), path],
                         capture_output=True, text=True)
    if run.returncode != 0:
        print("| %s | | | skipped: no ONNX file: %s | | | | | |" % (name, run.stderr.strip().splitlines()[-1]))
        return None
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkmate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--case", action="append")
    args = parser.parse_args()
    print("| network | batch | threads | PyTorch | ours s | PyTorch s | ratio | ours MB | PyTorch MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, batch, kind in CASES:
            if args.case and name not in args.case:
                continue
            model = model_of(name, batch, kind, folder)
            if model is None:
                continue
            for threads in (int(t) for t in args.threads.split(",")):
                for mode, budget in (("plain", False), ("checkpoint", True)):
                    print(compare(args, name, batch, model, threads, mode, budget), flush=True)


main()
