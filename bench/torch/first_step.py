# SPDX-License-Identifier: Apache-2.0
"""How long the first step takes: ours with nothing kept, ours with what a process before has kept, and PyTorch's aot_eager.

first_step.py [--model NAME]... [--rounds N] [--before FOLDER]

All take turns, a process each, forked from one that has imported what is needed; imports are not counted. `--before` names another
checkout, built in its build/, whose package takes turns too. Seconds are those of the step, of the processor, threads together, and in
brackets by the clock; what else the machine does disturbs the former less. The least of the rounds is shown. The last column is what ours
says that the parts of its warm start took.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent

#: Of cases.py and of zoo.py.
MODELS = ("resnet", "unet", "gpt", "GPT-2", "Llama", "BERT", "ViT", "T5", "UNet2D", "MobileNetV2")


def task(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any], Any]:
    """The model, its arguments, and what makes its loss."""
    import cases
    import zoo

    if hasattr(cases, name):
        case = getattr(cases, name)()
        return case.model.train(), case.inputs, {}, lambda output: output
    zoo.allow_torchvision()
    made = zoo.CASES[name][1]()
    return made.model.train(), made.args, made.kwargs, made.loss


def measured(name: str, way: str, cache: str) -> dict[str, Any]:
    """In a process of its own."""
    os.environ["XDG_CACHE_HOME"] = cache
    import checkmate.torch
    import torch

    torch.manual_seed(0)
    model, args, kwargs, loss = task(name)
    compiled = torch.compile(model, backend="aot_eager", dynamic=False) if way == "aot" else checkmate.torch.compile(model, "60%")
    begin, processor = time.perf_counter(), time.process_time()
    loss(compiled(*args, **kwargs)).backward()
    found: dict[str, Any] = {"wall": time.perf_counter() - begin, "cpu": time.process_time() - processor}
    if way == "ours":
        found["parts"] = str(getattr(checkmate.torch.plans(compiled)[0], "spent", ""))
    return found


def serve() -> None:
    """Reads a task a line, and forks a process for it."""
    import torch

    torch.set_num_threads(1)
    import checkmate.torch  # noqa: F401
    import torch._dynamo.backends.common
    import torch._functorch.aot_autograd
    import transformers  # noqa: F401

    print("{}", flush=True)
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                text = json.dumps(measured(*json.loads(line)))
            except Exception as error:  # noqa: BLE001 - told in the table
                text = json.dumps({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        print(text or '{"error": "the process died"}', flush=True)


class Server:
    """A process with the package of a checkout; `library`: the C library, that of CHECKMATE_LIBRARY unless it is given."""

    def __init__(self, root: pathlib.Path, library: pathlib.Path | None = None) -> None:
        own = {} if library is None else {"CHECKMATE_LIBRARY": str(library)}
        paths = [str(root / "python" / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | own | {"PYTHONPATH": os.pathsep.join(paths)})  # fmt: skip
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process that measures has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def __call__(self, *what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    servers = {"": Server(HERE.parent.parent)} | (
        {"before, ": Server(options.before, options.before / "build" / "libcheckmate.so")} if options.before else {}
    )
    columns = ["aot_eager", *(f"{which}{how}" for how in ("first", "warm") for which in reversed(servers))]
    print(f"| model | {' | '.join(columns)} | warm less aot_eager | parts of the warm start |\n" + "|---" * (len(columns) + 3) + "|")
    for name in options.model or MODELS:
        best: dict[str, dict[str, Any]] = {}
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as scratch:
                for column in columns:
                    which, how = ("before, ", column[8:]) if column.startswith("before, ") else ("", column)
                    found = servers[which](name, "aot" if how == "aot_eager" else "ours", f"{scratch}/{which}")
                    if column not in best or found.get("cpu", 0) < best[column].get("cpu", 0):
                        best[column] = found
        shown = [f"{b['cpu']:.2f} ({b['wall']:.1f})" if "cpu" in b else b["error"] for b in (best[c] for c in columns)]
        both = "cpu" in best["aot_eager"] and "cpu" in best["warm"]
        less = f"{best['warm']['cpu'] - best['aot_eager']['cpu']:+.2f}" if both else ""
        print(f"| {name} | {' | '.join(shown)} | {less} | {best['warm'].get('parts', '')} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
