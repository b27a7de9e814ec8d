# SPDX-License-Identifier: Apache-2.0
"""Measures checkmate.torch on this machine's GPU within some minutes: one JSON file and one page.

measure.py [--minutes 10] [--device cuda|cpu] [--small] [--scale S] [--case NAME]... [--parts budgets,methods,graphs] [--output FILE]

Every case is a process of its own (process.py) with a limit, the most informative first; what it has printed by then is kept, and
the files are written anew after every row. A case that takes less leaves its time to those after it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import networks
import page
import process

HERE = pathlib.Path(__file__).parent
Row = dict[str, Any]
#: Shares of the time: a comparison of methods plans some ten times, and times all of them.
WEIGHTS = {"budgets": 1.0, "methods": 1.6, "graphs": 1.0}
#: Seconds beyond its limit that a case has to finish what it is at.
GRACE = 15.0


def machine(device: str) -> Row:
    import torch

    found: Row = {"torch": torch.__version__, "python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "memory": properties.total_memory, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                  "allocator": os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")}  # fmt: skip
    else:
        found["threads"] = torch.get_num_threads()
    return found


def cases(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Part and network, the most informative first."""
    chosen = options.case or list(networks.NETWORKS)
    wanted: list[tuple[str, str]] = []
    compared = [name for name in networks.COMPARED if name in chosen]
    for name in compared:
        wanted += [("budgets", name), ("methods", name)]
    wanted += [("graphs", name) for name in compared[1:2] + compared[:1]]  # a network with convolutions first
    wanted += [("budgets", name) for name in chosen if name not in compared]
    return [(part, name) for part, name in wanted if part in options.parts.split(",")]


def rows(part: str, name: str, limit: float, options: argparse.Namespace) -> Iterator[Row]:
    """Of a case, as they come; the last says so if it ended before its time."""
    command = [sys.executable, str(HERE / "process.py"), part, name, "--limit", str(limit), "--device", options.device, "--scale", str(options.scale),
               "--seconds", str(options.seconds), "--settings", options.settings, "--rounds", str(options.rounds),
               "--inductor" if options.inductor else "--no-inductor", *(["--small"] if options.small else [])]  # fmt: skip
    deadline = time.monotonic() + limit + GRACE
    with tempfile.TemporaryDirectory() as cache, (pathlib.Path(cache) / "errors").open("w+") as errors:
        # KINETO_LOG_LEVEL: its profiler reports every start. CUBLAS_WORKSPACE_CONFIG: without it cuBLAS need not be deterministic.
        environment = os.environ | {"XDG_CACHE_HOME": cache, "PYTHONWARNINGS": "ignore", "KINETO_LOG_LEVEL": "99", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
            said: queue.Queue[str | None] = queue.Queue()

            def read() -> None:
                assert running.stdout is not None
                for line in running.stdout:
                    said.put(line)
                said.put(None)

            threading.Thread(target=read, daemon=True).start()
            try:
                while True:
                    try:
                        line = said.get(timeout=max(0.0, deadline - time.monotonic()))
                    except queue.Empty:
                        yield {"error": f"not done in {limit + GRACE:.0f} s"}
                        return
                    if line is None:
                        break
                    if line.startswith("{"):
                        yield json.loads(line)
            finally:
                running.kill()
        if running.returncode not in (0, 1):
            errors.seek(0)
            last = [text.strip() for text in errors if text.strip()][-1:]
            yield {"error": f"the process ended with {running.returncode}: {' '.join(last)[:200]}"}


def write(record: Row, output: pathlib.Path) -> None:
    """Both files, each as a whole."""
    output.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((output, json.dumps(record, indent=1) + "\n"), (output.with_suffix(".md"), page.page(record))):
        new = path.with_name(path.name + ".new")
        new.write_text(text)
        new.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="for all of it")
    parser.add_argument("--case", action="append", choices=networks.NETWORKS)
    parser.add_argument("--parts", default="budgets,methods,graphs")
    parser.add_argument("--output", type=pathlib.Path, help="the JSON file; the page lies beside it (default: bench/results/gpu.json, gpu-cpu.json)")
    parser.add_argument("--tests", default="not run", help=argparse.SUPPRESS)
    process.arguments(parser)
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(process.PARTS):
        parser.error(f"--parts: there is no {', '.join(sorted(unknown))}; there are {', '.join(process.PARTS)}")
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here; --device cpu --small runs everything with small models on the CPU")
    output = options.output or HERE.parent / "results" / ("gpu.json" if options.device == "cuda" else "gpu-cpu.json")
    command = ["bench/gpu/run.sh", "--minutes", f"{options.minutes:g}", "--device", options.device]
    command += [*(["--small"] if options.small else []), *(["--scale", f"{options.scale:g}"] if options.scale != 1 else [])]
    record: Row = {"machine": machine(options.device), "command": " ".join(command), "device": options.device, "small": options.small,
                   "tests": options.tests, "cases": []}  # fmt: skip
    begin = time.monotonic()
    wanted = cases(options)
    for i, (part, name) in enumerate(wanted):
        left = 60 * options.minutes - (time.monotonic() - begin)
        share = left * WEIGHTS[part] / sum(WEIGHTS[p] for p, _ in wanted[i:])
        # Twice its share at most, since others may take less; the last ones pay if they do not.
        limit = min(2 * share, left - GRACE)
        case: Row = {"part": part, "network": name, "title": networks.NETWORKS[name].title.removesuffix(", bf16") + ", small" if options.small else networks.NETWORKS[name].title, "limit": limit, "rows": []}
        record["cases"].append(case)
        if limit < 5:
            case["rows"].append({"error": "left out: no time"})
            continue
        print(f"{part} {name}: {limit:.0f} s at most", file=sys.stderr, flush=True)
        started = time.monotonic()
        for row in rows(part, name, limit, options):
            case["rows"].append(row)
            case["took"] = time.monotonic() - started
            record["seconds"] = time.monotonic() - begin
            print(f"  {page.short(row)}", file=sys.stderr, flush=True)
            write(record, output)
    record["seconds"] = time.monotonic() - begin
    write(record, output)
    print(f"{output}, {output.with_suffix('.md').name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
