# SPDX-License-Identifier: Apache-2.0
"""Step time and memory of `checkmate train` against PyTorch on this machine.

compare.py CHECKMATE [--rounds N] [--steps N] [--threads 1,2] [--modes plain,checkpoint] [--case NAME]...
           [--records FILE]
compare.py --table FILE

The first form measures and appends one JSON record a comparison to FILE (default: standard output); the second prints
the last record of every comparison as Markdown.

Runs are interleaved: in each round ours, then PyTorch. A run's time is the median of its steps after the first two; the
ratio is the median over rounds of ours / PyTorch's. PyTorch gets the image layout with which a short run beforehand was
faster, and an allocator that keeps what is freed.
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
# The C library's allocator otherwise gives large blocks back to the system, which maps and clears them anew in every
# step: PyTorch was slower so with every one of these networks.
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "67108864"}


def ours(checkmate, model, batch, threads, steps, budget):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [checkmate, "train", model, "--data", "synthetic", "--samples", str(2 * batch), "--batch", str(batch),
                   "--steps", str(steps), "--threads", str(threads), "--lr", "0.0001", "--momentum", "0.9", "--fused",
                   "--log", log, "--json"]
        if budget is not None:
            command += ["--budget", str(budget)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit((run.stderr.strip().splitlines() or ["checkmate failed"])[-1])
        result = json.loads(run.stdout)
        with open(log) as f:
            times = [json.loads(line)["step_seconds"] for line in f]
    return {"seconds": statistics.median(times[WARM:]), "resident": result["resident_growth_bytes"],
            "counted": result["used_bytes"]}


def torchs(name, batch, threads, steps, layout, mode, count=False):
    command = [sys.executable, os.path.join(HERE, "step.py"), name, str(batch), str(threads), str(steps), layout, mode]
    run = subprocess.run(command + (["count"] if count else []), capture_output=True, text=True, check=True,
                         env={**os.environ, **KEEPING})
    result = json.loads(run.stdout)
    return {"seconds": statistics.median(result["step_seconds"][WARM:] or [0]), "resident": result["peak_bytes"],
            "counted": result.get("storage_bytes")}


def faster_layout(name, batch, threads):
    layouts = ["contiguous"] if name == "encoder" else ["contiguous", "channels_last"]
    if len(layouts) == 1:
        return layouts[0]
    return min(layouts, key=lambda v: torchs(name, batch, threads, WARM + 5, v, "plain")["seconds"])


def compare(args, name, batch, model, threads, mode, layout):
    counted = torchs(name, batch, threads, WARM, layout, mode, count=True)["counted"]
    budget = counted if mode == "checkpoint" else None
    mine, theirs = [], []
    for _ in range(args.rounds):
        mine.append(ours(args.checkmate, model, batch, threads, args.steps, budget))
        theirs.append(torchs(name, batch, threads, args.steps, layout, mode))
    return {"network": name, "batch": batch, "threads": threads, "mode": mode, "model": "ONNX" if model != name else "zoo",
            "layout": layout, "rounds": args.rounds, "steps": args.steps,
            "ours_s": statistics.median(r["seconds"] for r in mine),
            "torch_s": statistics.median(r["seconds"] for r in theirs),
            "ratios": [a["seconds"] / b["seconds"] for a, b in zip(mine, theirs)],
            "ours_counted": mine[0]["counted"], "torch_counted": counted,
            "ours_resident": max(r["resident"] for r in mine), "torch_resident": max(r["resident"] for r in theirs)}


def model_of(name, batch, kind, folder):
    if kind == "zoo":
        return name
    path = os.path.join(folder, name + ".onnx")
    subprocess.run([sys.executable, os.path.join(HERE, "export.py"), name, str(batch), path], capture_output=True,
                   check=True)
    return path


def mega(value):
    return "%.0f" % (value / 1e6)


def print_table(path):
    last = {}
    with open(path) as f:
        for line in f:
            r = json.loads(line)
            last[(r["mode"] == "checkpoint", r["network"], r["threads"])] = r
    for checkpoint in (False, True):
        print("\n%s\n" % ("With `torch.utils.checkpoint` around every block; ours within PyTorch's counted bytes:"
                          if checkpoint else "Without rematerialization:"))
        print("| network | batch | threads | PyTorch's layout | ours s | PyTorch s | ratio | least | most "
              "| counted MB, ours | PyTorch | resident MB, ours | PyTorch |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
        for key in sorted(k for k in last if k[0] == checkpoint):
            r = last[key]
            print("| %s (%s) | %d | %d | %s | %.3f | %.3f | **%.2f** | %.2f | %.2f | %s | %s | %s | %s |" % (
                r["network"], r["model"], r["batch"], r["threads"], r["layout"].replace("_", " "),
                r["ours_s"], r["torch_s"], statistics.median(r["ratios"]), min(r["ratios"]), max(r["ratios"]),
                mega(r["ours_counted"]), mega(r["torch_counted"]), mega(r["ours_resident"]),
                mega(r["torch_resident"])))


def measure(args):
    to = open(args.records, "a") if args.records else sys.stdout
    with tempfile.TemporaryDirectory() as folder, to:
        for name, batch, kind in CASES:
            if args.case and name not in args.case:
                continue
            model = model_of(name, batch, kind, folder)
            for threads in (int(t) for t in args.threads.split(",")):
                layout = faster_layout(name, batch, threads)
                for mode in args.modes.split(","):
                    print(json.dumps(compare(args, name, batch, model, threads, mode, layout)), file=to, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkmate", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--modes", default="plain,checkpoint")
    parser.add_argument("--case", action="append")
    parser.add_argument("--records")
    parser.add_argument("--table", metavar="FILE")
    args = parser.parse_args()
    if args.table:
        print_table(args.table)
    elif args.checkmate:
        measure(args)
    else:
        parser.error("which program?")


main()
