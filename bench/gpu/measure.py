# SPDX-License-Identifier: Apache-2.0
"""Measures checkmate.torch on this machine's GPU within some minutes: one JSON file and one page.

run.sh starts it and passes its own options on; command.py has them. Every case is a separate process (process.py) with a limit, the
most informative first; what it has printed by then is kept, and the files are written anew after every row. A case that takes less
leaves its time to those after it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import command
import page

HERE = pathlib.Path(__file__).resolve().parent
Row = dict[str, Any]
#: Shares of the time: a comparison of methods plans some ten times, and times all of them.
WEIGHTS = {"budgets": 1.0, "methods": 1.6, "graphs": 1.0}
#: Seconds beyond its limit that a case has to finish what it is at.
GRACE = 15.0
#: Fewer seconds are not worth a start.
LEAST = 5.0


def processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def commit() -> str:
    """Of the tree, with "-dirty" behind it where files have been changed; "" if it is no checkout."""
    top = HERE.parents[1]
    try:
        git = ["git", "--no-optional-locks", "-C", str(top)]
        found = subprocess.run([*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True, timeout=60, check=True).stdout.rstrip("\n")
        if pathlib.Path(found).resolve() != top:
            return ""
        return subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], capture_output=True, text=True, timeout=60,
                              check=True).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""


def package(options: argparse.Namespace) -> Row:
    """What is measured."""
    import checkmate

    found: Row = {"version": checkmate.__version__, "package": options.package or "not from run.sh"}
    if options.tree and (of := commit()):
        found["commit"] = of
    return found


def machine(device: str) -> Row:
    import torch

    found: Row = {"torch": torch.__version__, "python": platform.python_version(), "system": platform.platform(), "processor": processor(),
                  "cores": os.cpu_count()}  # fmt: skip
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "memory": properties.total_memory, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                  "allocator": os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")}  # fmt: skip
    else:
        found["threads"] = torch.get_num_threads()
    return found


def runs_here(parser: argparse.ArgumentParser, device: str) -> None:
    """Exits with what is missing: a GPU, or what the package needs."""
    try:
        import torch
    except ImportError as error:
        parser.exit(2, f"{parser.prog}: PyTorch does not run here: {error}\n")
    if device == "cuda" and not torch.cuda.is_available():
        advice = "--device cpu --small runs everything with small models on the CPU"
        parser.exit(2, f"{parser.prog}: PyTorch {torch.__version__} finds no GPU here; {advice}\n")
    try:
        import checkmate.torch  # noqa: F401
    except (ImportError, OSError) as error:
        parser.exit(2, f"{parser.prog}: the package does not run here: {error}\n")


def rows(part: str, name: str, limit: float, options: argparse.Namespace) -> Iterator[Row]:
    """Of a case, as they come; the last says so if it ended before its time."""
    arguments = [sys.executable, str(HERE / "process.py"), part, name, "--limit", str(limit), "--device", options.device,
                 "--scale", str(options.scale), "--seconds", str(options.seconds), "--settings", options.settings, "--rounds", str(options.rounds),
                 "--inductor" if options.inductor else "--no-inductor", *(["--small"] if options.small else [])]  # fmt: skip
    deadline = time.monotonic() + limit + GRACE
    with tempfile.TemporaryDirectory() as cache, (pathlib.Path(cache) / "errors").open("w+", errors="replace") as errors:
        # KINETO_LOG_LEVEL: its profiler reports every start. CUBLAS_WORKSPACE_CONFIG: without it cuBLAS need not be deterministic.
        theirs = {"XDG_CACHE_HOME": cache, "PYTHONWARNINGS": "ignore", "KINETO_LOG_LEVEL": "99", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        environment = os.environ | theirs
        with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
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
                    if line.strip() == "end":
                        return
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
    for path, text in ((output, json.dumps(record, indent=1) + "\n"), (output.with_suffix(".md"), page.page(record))):
        new = path.with_name(path.name + ".new")
        try:
            new.write_text(text, encoding="utf-8")
            new.replace(path)
        except OSError as error:
            sys.exit(f"{path} cannot be written any more: {error.strerror}")


def measured(record: Row) -> bool:
    return any("error" not in row for case in record["cases"] for row in case["rows"])


def title(name: str, small: bool) -> str:
    return command.TITLES[name].removesuffix(", bf16") + ", small" if small else command.TITLES[name]


def main() -> int:
    parser = command.parser()
    options = parser.parse_args()
    command.check(parser, options)
    if options.check == "options":
        print(command.for_shell(options))
        return 0
    runs_here(parser, options.device)
    if options.check:
        return 0
    if options.device == "cpu" and not options.small:
        print("the full size on a CPU takes long and much memory; --small has small models", file=sys.stderr)
    output = command.output(options)
    wanted = command.cases(options)
    record: Row = {
        "command": command.as_given(sys.argv[1:], "bench/gpu/run.sh" if options.package else "bench/gpu/measure.py"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "checkmate": package(options),
        "machine": machine(options.device),
        "device": options.device,
        "small": options.small,
        "parts": options.parts.split(","),
        "tests": options.tests or "not run",
        "cases": [
            {"part": part, "network": name, "title": title(name, options.small), "limit": 0.0, "rows": [{"error": command.NO_TIME}]}
            for part, name in wanted
        ],
    }
    # run.sh starts this in the background, where shells have interruptions ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    begin = time.monotonic()
    begun = 0
    try:
        for i, (part, name) in enumerate(wanted):
            left = 60 * options.minutes - (time.monotonic() - begin)
            share = left * WEIGHTS[part] / sum(WEIGHTS[p] for p, _ in wanted[i:])
            # Twice its share at most, since others may take less; the last ones pay if they do not.
            limit = min(2 * share, left - GRACE)
            if limit < LEAST:
                continue
            begun += 1
            case = record["cases"][i]
            case["limit"] = limit
            case["rows"] = []
            print(f"{part} {name}: {limit:.0f} s at most", file=sys.stderr, flush=True)
            started = time.monotonic()
            for row in rows(part, name, limit, options):
                case["rows"].append(row)
                case["took"] = time.monotonic() - started
                record["seconds"] = time.monotonic() - begin
                print(f"  {page.short(row)}", file=sys.stderr, flush=True)
                write(record, output)
    except KeyboardInterrupt:
        found = "nothing was measured"
        if measured(record):
            case["rows"].append({"error": "interrupted"})
            write(record, output)
            found = f"what was found by then is in {output}"
        print(f"{parser.prog}: interrupted; {found}", file=sys.stderr)
        return 130
    if not begun:
        print(f"{parser.prog}: nothing was measured: --minutes {options.minutes:g} is too little for any case, nothing is written", file=sys.stderr)
        return 1
    record["seconds"] = time.monotonic() - begin
    write(record, output)
    print(f"{output}, {output.with_suffix('.md').name}")
    if not measured(record):
        print(f"{parser.prog}: nothing was measured: the page says why of each network", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
