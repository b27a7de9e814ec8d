# SPDX-License-Identifier: Apache-2.0
"""The command line. Needs nothing but Python: help and wrong options come before everything else."""

from __future__ import annotations

import argparse
import itertools
import math
import pathlib
import shlex
import tempfile

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
PARTS = ("budgets", "methods", "graphs")
#: The networks; those in which all methods are compared first.
TITLES = {
    "gpt2": "GPT-2 medium, bf16",
    "resnet50": "ResNet-50, channels last",
    "llama": "Llama-like, 1 B, bf16",
    "vit": "ViT-L/16, bf16",
    "diffusion": "diffusion U-Net, bf16",
    "bert": "BERT-like encoder, bf16",
    "mixer": "MLP-Mixer-B/16, bf16",
    "segmentation": "segmentation U-Net",
}
COMPARED = list(itertools.islice(TITLES, 5))
#: The error of a row that there was no time for.
NO_TIME = "left out: no time"
#: What run.sh adds, always as --NAME=VALUE.
HIDDEN = ("--check", "--package", "--tests")

DESCRIPTION = """\
Measures checkmate.torch within some minutes, on an NVIDIA GPU or, with small models, on a CPU: do budgets hold, what do they cost in
time, how does PyTorch's own checkpointing compare, do CUDA graphs and generated code work. Writes a JSON file and a page. The tests
that need a GPU come first, if pytest is there. Needs Python 3.10 or newer and PyTorch 2.6 or newer; no network, no compiler but for
generated code.
"""
EPILOG = """\
environment:
  CKM_TORCH_PYTHON      the python that has PyTorch (default: python3, then /usr/bin/python3)
  CHECKMATE_LIBRARY     with --tree: the library (default: that of build/)

examples:
  bench/gpu/run.sh                                     the newest wheel in dist/, ten minutes
  bench/gpu/run.sh --wheel FILE.whl --minutes 60       everything, not the main rows only
  bench/gpu/run.sh --scale 0.25                        a GPU with a fourth of 80 GB
  bench/gpu/run.sh --tree --device cpu --small         no GPU: does everything run?
  bench/gpu/run.sh --case gpt2 --parts budgets         one network, one part

exit status: 0 measured; 1 a test failed, or nothing was measured; 2 wrong options, no GPU or no package; 77 no python with PyTorch
"""


def _positive(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _rounds(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _settings(text: str) -> str:
    for setting in text.split(","):
        if setting != "min" and not (setting.isascii() and setting.isdigit() and int(setting)):
            raise argparse.ArgumentTypeError(f"'{setting}' is neither a whole percentage above 0 nor min")
    return text


def _parts(text: str) -> str:
    for part in text.split(","):
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"there is no '{part}'; there are {', '.join(PARTS)}")
    return text


def _json(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if path.suffix != ".json":
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .json; the page goes next to it, with .md instead")
    return path


# What a wrong value is called: "invalid number value".
_positive.__name__ = _rounds.__name__ = "number"


def arguments(parser: argparse._ActionsContainer) -> None:
    """What measure.py hands on to process.py."""
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="(default: %(default)s)")
    parser.add_argument("--small", action="store_true", help="models of a few hundred thousand parameters, for a CPU")
    parser.add_argument("--scale", type=_positive, default=1.0, metavar="S", help="multiplies full-size batches: 0.25 for a GPU with 20 GB")
    parser.add_argument("--seconds", type=_positive, default=3.0, metavar="S", help="time limit of our solver for a plan (default: %(default)g)")
    parser.add_argument("--settings", type=_settings, default="50,70,100,30,min", metavar="LIST",
                        help="budgets: percent of what eager mode takes above parameters, gradients and the like; min: the least "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--rounds", type=_rounds, default=7, metavar="N", help="steps of each variant that are timed (default: %(default)s)")
    parser.add_argument("--inductor", action=argparse.BooleanOptionalAction, default=True, help="generated code, too (default: yes)")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="bench/gpu/run.sh",
        usage="bench/gpu/run.sh [--wheel FILE | --tree] [options]    (--help lists them)",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    package = made.add_argument_group("what is measured").add_mutually_exclusive_group()
    package.add_argument("--wheel", metavar="FILE", help="the wheel of `make wheel` (default: the newest in dist/)")
    package.add_argument("--tree", action="store_true", help="this tree's package, with the library of `make`, in a wheel's place")
    measuring = made.add_argument_group("measurements")
    measuring.add_argument("--minutes", type=_positive, default=10, metavar="M",
                           help="for all measurements; what does not fit is named on the page (default: %(default)g)")  # fmt: skip
    measuring.add_argument("--case", action="append", choices=TITLES, metavar="NAME",
                           help=f"only this network; may be repeated (default: all of {', '.join(TITLES)})")  # fmt: skip
    measuring.add_argument("--parts", type=_parts, default=",".join(PARTS), metavar="LIST",
                           help=f"budgets; methods: side by side, of {', '.join(COMPARED)}; graphs: CUDA graphs and generated code, of two of these "
                           "(default: %(default)s)")  # fmt: skip
    measuring.add_argument("--output", type=_json, metavar="FILE.json",
                           help="the page goes next to it, as FILE.md (default: bench/results/gpu.json, on a CPU gpu-cpu.json)")  # fmt: skip
    arguments(measuring)
    for hidden in HIDDEN:
        made.add_argument(hidden, help=argparse.SUPPRESS)
    return made


def cases(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Part and network, the most informative first."""
    chosen = list(dict.fromkeys(options.case or TITLES))
    wanted: list[tuple[str, str]] = []
    compared = [name for name in COMPARED if name in chosen]
    for name in compared:
        wanted += [("budgets", name), ("methods", name)]
    wanted += [("graphs", name) for name in compared[1:2] + compared[:1]]  # a network with convolutions first
    wanted += [("budgets", name) for name in chosen if name not in compared]
    return [(part, name) for part, name in wanted if part in options.parts.split(",")]


def output(options: argparse.Namespace) -> pathlib.Path:
    found: pathlib.Path = options.output or RESULTS / ("gpu.json" if options.device == "cuda" else "gpu-cpu.json")
    return found


def check(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exits with what is wrong: no case left, or files that cannot be written."""
    if not cases(options):
        made.error(f"nothing to measure: of {', '.join(options.case)} there is only the part budgets; --parts {options.parts} leaves that out")
    path = output(options)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in (path, path.with_suffix(".md")):
            if file.is_dir():
                raise IsADirectoryError(None, "is a folder", str(file))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        made.exit(2, f"{made.prog}: {path} cannot be written ({error.strerror}); --output FILE.json puts it and the page elsewhere\n")


def for_shell(options: argparse.Namespace) -> str:
    """What run.sh has to know, as assignments."""
    values = {"wheel": options.wheel or "", "tree": "yes" if options.tree else "", "device": options.device}
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def as_given(arguments: list[str], program: str) -> str:
    """The command, without what run.sh adds and without this machine's folders."""
    found: list[str] = []
    before = ""
    for text in arguments:
        name, equals, value = text.partition("=")
        if name in HIDDEN:
            continue
        if before in ("--wheel", "--output"):
            found.append(pathlib.Path(text).name)
        elif equals and name in ("--wheel", "--output"):
            found.append(f"{name}={pathlib.Path(value).name}")
        else:
            found.append(text)
        before = text
    return shlex.join([program, *found])
