# SPDX-License-Identifier: Apache-2.0
"""How long the first step takes: ours with nothing kept, ours with what a process before has kept, and PyTorch's aot_eager.

    bench/torch/run.sh --first-step                     what the records lack; then the table of docs/PYTORCH.md
    bench/torch/run.sh --first-step --again --model T5  one model again
    bench/torch/run.sh --first-step --before FOLDER     another checkout, built in its build/, whose package takes turns too

All take turns, a process each, forked from one that has imported what is needed; imports are not counted. Seconds are those of the step, of
the processor, threads together, and in brackets by the clock; what else the machine does disturbs the former less. The least of the rounds
is shown. The last column is what ours says that the parts of its warm start took.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import kept  # noqa: E402

PACKAGES = ("torch", "transformers", "diffusers", "timm")
#: Seconds of the processor that a warm start may take more than aot_eager.
ALLOWED = 1.0

#: Of cases.py and of zoo.py.
MODELS = ("resnet", "unet", "gpt", "GPT-2", "Llama", "BERT", "ViT", "T5", "UNet2D", "MobileNetV2")

#: What columns of another checkout begin with.
BEFORE = "before, "


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


def least(name: str, servers: dict[str, Server], rounds: int) -> dict[str, dict[str, Any]]:
    """Of each column, the round that took the processor least."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            for column in ("aot_eager", *(f"{which}{how}" for how in ("first", "warm") for which in reversed(servers))):
                which, how = (BEFORE, column[len(BEFORE) :]) if column.startswith(BEFORE) else ("", column)
                found = servers[which](name, "aot" if how == "aot_eager" else "ours", f"{scratch}/{which}")
                if column not in best or found.get("cpu", 0) < best[column].get("cpu", 0):
                    best[column] = found
    return best


def more(row: dict[str, Any]) -> float | None:
    """Processor seconds that the warm start takes more than aot_eager."""
    both = [row["took"][column].get("cpu") for column in ("warm", "aot_eager")]
    return None if None in both else both[0] - both[1]


def table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row["took"]))
    lines = [f"| model | {' | '.join(columns)} | warm less aot_eager | parts of the warm start |", "|---" * (len(columns) + 3) + "|"]
    for row in rows:
        took = [row["took"].get(column, {"error": ""}) for column in columns]
        shown = [f"{t['cpu']:.2f} ({t['wall']:.1f})" if "cpu" in t else t["error"] for t in took]
        less = more(row)
        said = row["took"]["warm"].get("parts", "")
        lines.append(f"| {row['case']} | {' | '.join(shown)} | {'' if less is None else f'{less:+.2f}'} | {said} |")
    warm = [less for row in rows if (less := more(row)) is not None]
    lines += ["", f"Warm starts that take at most {ALLOWED:g} s more than aot_eager: {sum(less <= ALLOWED for less in warm)} of {len(rows)}."]
    for how in ("first", "warm"):
        ratios = [row["took"][how]["cpu"] / row["took"][BEFORE + how]["cpu"] for row in rows
                  if "cpu" in row["took"].get(BEFORE + how, {}) and "cpu" in row["took"][how]]  # fmt: skip
        if ratios:
            middle, spread = statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
            lines.append(f"{how} over before: {middle:.2f} in the median, {spread}, {len(ratios)} models.")
    rounds = sorted({row["rounds"] for row in rows})
    return "\n".join([*lines, "", f"Rounds: {', '.join(map(str, rounds))}. {kept.made(rows)}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--again", action="store_true", help="what the records have, too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "torch-first-step.jsonl")
    parser.add_argument("--page", type=pathlib.Path, help="where the table goes, between its markers")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    chosen = options.model or list(MODELS)
    if names := chosen if options.again else kept.missing(options.records, chosen):
        servers = {"": Server(HERE.parent.parent)}
        if options.before:
            servers[BEFORE] = Server(options.before, options.before / "build" / "libcheckmate.so")
        for name in names:
            row = {"case": name, "rounds": options.rounds, "took": least(name, servers, options.rounds)}
            if wrong := [took["error"] for took in row["took"].values() if "error" in took]:
                row["failed"] = wrong[0]
            kept.keep(options.records, row, *PACKAGES)
    known = kept.read(options.records)
    text = table([known[name] for name in MODELS if name in known])
    print(text)
    if options.page:
        kept.put(options.page, "first-step", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
