# SPDX-License-Identifier: Apache-2.0
"""The table and the figures of what compare.py has measured.

table.py CSV MARKDOWN FIGURES

Times are the processor's, of one thread, as shares of eager mode's; next to every peak of another method is our time at
that budget.
"""

from __future__ import annotations

import csv
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tradeoff  # noqa: E402

Row = dict[str, str]
TITLES = {"resnet": "ResNet-18", "unet": "U-Net", "mobilenet": "MobileNetV2-like", "gpt": "GPT", "encoder": "BERT-like encoder", "mixer": "MLP-Mixer",
          "gpt2": "GPT-2 (transformers)", "llama": "Llama (transformers)", "vit": "ViT (transformers)",
          "unet2d": "UNet2DConditionModel (diffusers)"}  # fmt: skip
#: Title, colour and point type of each method.
STYLES = {
    "eager": ("eager", "#000000", 4),
    "checkpoint": ("checkpoint, every block", "#E69F00", 8),
    "selective": ("checkpoint, selective", "#009E73", 6),
    "budget": ("activation memory budget", "#56B4E9", 10),
    "decomposed": ("activation memory budget, decomposed", "#CC79A7", 12),
    "inductor": ("activation memory budget, inductor", "#56B4E9", 10),
    "ours": ("checkmate.torch", "#0072B2", 7),
    "ours-inductor": ("checkmate.torch, inductor", "#0072B2", 7),
}
#: Where and how the rows of each file were measured, which the rows do not say: to be changed with them.
MADE = {
    "torch": [
        "Measured on a virtual machine of two shared cores with nothing else running on it, PyTorch 2.13.0 for CPU, one thread",
        "a process, seven steps in each of three processes, by `bench/torch/run.sh --rounds 7`; close rows again by `bench/torch/run.sh --close`.",
    ],
    "torch-library": [
        "Measured on two shared cores, PyTorch 2.13.0 for CPU, transformers 5.23.0, diffusers 0.42.1, one process for each",
        "configuration, by `bench/torch/run.sh --library`; the cores were busy for the GPT-2, the Llama and the preparation of the others.",
        "The 13 rows above 0.97 ran again on a quiet machine, by `bench/torch/run.sh --library --close --rounds 40 --repeats 1`.",
    ],
    "torch-library-inductor": [
        "Measured on two cores of a shared machine that was busy with other work, PyTorch 2.13.0 for CPU, transformers 5.23.0,",
        "diffusers 0.42.1, one process for each configuration, by `bench/torch/run.sh --inductor --library --shares 0.2,0.5,0.8`.",
    ],
}
#: Ours, and what it is compared with.
AGAINST = {"eager": "ours", "checkpoint": "ours", "selective": "ours", "budget": "ours", "decomposed": "ours", "inductor": "ours-inductor"}


def measured(path: pathlib.Path) -> dict[str, list[Row]]:
    cases: dict[str, list[Row]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["seconds"]:
                several = "" if row["threads"] == "1" else f", {row['threads']} threads"
                cases.setdefault(row["case"] + several, []).append(row)
    return cases


def title(case: str) -> str:
    name, *several = case.split(", ")
    return ", ".join([TITLES[name], *several])


def relative(row: Row) -> float:
    return float(row["relative"])


def spread(row: Row) -> float:
    """Half of what the repeats differ by."""
    return (float(row["relative_most"]) - float(row["relative_least"])) / 2


def close(row: Row, mine: Row) -> bool:
    """Whether the repeats of the two overlap."""
    return max(float(row["relative_least"]), float(mine["relative_least"])) <= min(float(row["relative_most"]), float(mine["relative_most"]))


def over(row: Row, mine: Row) -> float:
    """Ours over the other: head to head, if that was measured, else by both over eager mode."""
    return float(row["ours_over"]) if row.get("ours_over") else relative(mine) / relative(row)


def timed(row: Row) -> str:
    return f"{relative(row):.3f} ± {spread(row):.3f}"


def megabytes(row: Row, column: str = "peak_bytes") -> float:
    return int(row[column]) / 1e6


def is_ours(row: Row) -> bool:
    return row["method"].startswith("ours")


def counterpart(row: Row, rows: list[Row]) -> Row | None:
    """Ours with the largest budget that is not above the other method's peak."""
    fitting = [r for r in rows if r["method"] == AGAINST[row["method"]] and int(r["setting"]) <= int(row["peak_bytes"])]
    return max(fitting, key=lambda r: int(r["setting"]), default=None)


def markdown(cases: dict[str, list[Row]], made: list[str]) -> str:
    lines = []
    summary = ["", "| network | eager MB | ours over it | checkpoint MB | time | ours over it | least of the budget settings, MB | time | ours over it "
               "| ours, least MB | time |", "|---" * 11 + "|"]  # fmt: skip
    won = even = total = 0
    for case, rows in cases.items():
        eager = next(r for r in rows if r["method"] == "eager")
        lines += [f"\n### {title(case)}\n", f"{eager['rounds']} rounds; a step in eager mode takes {float(eager['seconds' if ',' in case else 'cpu_seconds']):.3f} s.\n",
                  "| method | setting | peak MB | time | ours: peak MB | predicted | time | predicted | recomputed | gap | ours over it |",
                  "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for row in sorted((r for r in rows if not is_ours(r)), key=lambda r: -int(r["peak_bytes"])):
            mine = counterpart(row, rows)
            text = f"| {STYLES[row['method']][0]} | {row['setting']} | {megabytes(row):.2f} | {timed(row)} | "
            lines.append(text + ours(mine) + against(row, mine) if mine else text + "| | | | | | |")
            if mine:
                total += 1
                won += over(row, mine) <= 1
                even += bool(over(row, mine) > 1 and row.get("ours_over") and float(row["ours_over_least"]) <= 1)
        if {"checkpoint", "ours"} <= {r["method"] for r in rows}:
            summary.append(f"| {title(case)} | {short(rows)} |")
        least = min(int(r["peak_bytes"]) for r in rows if not is_ours(r))
        for row in sorted((r for r in rows if is_ours(r) and int(r["setting"]) < least), key=lambda r: -int(r["peak_bytes"])):
            lines.append("| out of their reach | | | | " + ours(row) + " |")
    head = ["# Training in less memory: PyTorch's own ways and checkmate.torch", "",
            "How this is measured: [../torch/README.md](../torch/README.md). Peaks are physical, in MB; times are seconds of processor",
            "time a step of one thread, by the clock of several, over eager mode's in the same round, medians; behind ± half of what the medians of repeats with new",
            "processes differ by. Next to each method is ours with its peak as the budget. Where the repeats of the two overlap, they",
            "ran once more, head to head: the last column then has the median of ours over the other's time, and the least and the most",
            "of a repeat. With one repeat it is of steps of the same round, of all alike.", "", *made, *[""][: len(made)],
            f"Ours takes no more time at {won} of {total} peaks."]  # fmt: skip
    if won < total:
        head.append(f"At {even} of the others the repeats do not agree which is faster; at {total - won - even} it takes more.")
    if len(summary) > 3:
        head += summary
    return "\n".join([*head, *lines]) + "\n"


def short(rows: list[Row]) -> str:
    """A network in one row: at the peaks of eager mode, of checkpoint, and the least of the budget's settings; and our least."""
    eager, checkpoint = (next(r for r in rows if r["method"] == method) for method in ("eager", "checkpoint"))
    budget = min((r for r in rows if r["method"] in ("budget", "decomposed")), key=megabytes)
    least = min((r for r in rows if is_ours(r)), key=megabytes)
    cells = [f"{megabytes(eager):.1f}", ratio(eager, rows)]
    for row in (checkpoint, budget):
        cells += [f"{megabytes(row):.1f}", f"{relative(row):.2f}", ratio(row, rows)]
    return " | ".join([*cells, f"{megabytes(least):.1f}", f"{relative(least):.2f}"])


def ratio(row: Row, rows: list[Row]) -> str:
    mine = counterpart(row, rows)
    return "" if mine is None else f"{over(row, mine):.2f}"


def against(row: Row, mine: Row) -> str:
    measured = f" ({float(row['ours_over_least']):.3f} to {float(row['ours_over_most']):.3f})" if row.get("ours_over") else ""
    return f" {over(row, mine):.3f}{measured} |"


def ours(row: Row) -> str:
    gap = f"{100 * float(row['gap']):.1f} %" if row["gap"] else ""
    return (
        f"{megabytes(row):.2f} | {megabytes(row, 'predicted_bytes'):.2f} | {timed(row)} | "
        f"{1 + float(row['predicted_overhead']):.3f} | {row['recomputed']} | {gap} |"
    )


def draw(case: str, rows: list[Row], path: pathlib.Path) -> None:
    curves = [(label, colour, point, [(megabytes(r), relative(r)) for r in rows if r["method"] == method])
              for method, (label, colour, point) in STYLES.items()]  # fmt: skip
    compiled = ", Inductor" if "inductor" in path.stem else ""
    tradeoff.draw(title(case) + compiled, "physical peak (MB)", "step time / eager", curves, path)


def main() -> int:
    path, table, figures = (pathlib.Path(argument) for argument in sys.argv[1:4])
    cases = measured(path)
    table.write_text(markdown(cases, MADE.get(path.stem, [])))
    if shutil.which("gnuplot") is None:
        print("no figures: gnuplot is not there", file=sys.stderr)
        return 0
    for case, rows in cases.items():
        if "," not in case:  # of one thread
            draw(case, rows, figures / f"{path.stem}-{case}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
