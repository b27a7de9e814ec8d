# SPDX-License-Identifier: Apache-2.0
"""The tables and figures of what budgets.py and compare.py have measured.

table.py BUDGETS.jsonl COMPARE.csv FIGURES PAGE     writes them between the markers of PAGE, and figures of COMPARE
"""

from __future__ import annotations

import csv
import json
import pathlib
import shutil
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tradeoff  # noqa: E402
from kept import into  # noqa: E402

Row = dict[str, Any]
ORDER = ["VGG19", "ResNet50", "MobileNet", "MobileNetV2", "DenseNet121", "EfficientNetB0", "InceptionV3", "Xception", "NASNetMobile",
         "ConvNeXtTiny", "U-Net", "encoder", "LSTM", "LSTM, unrolled"]  # fmt: skip
#: Title, colour and point type of each method.
STYLES = {
    "plain": ("tf.function", "#000000", 4),
    "recompute": ("tf.recompute_grad, every block", "#E69F00", 8),
    "kept": ("tf.recompute_grad, Grappler off", "#009E73", 10),
    "sqrt": ("square root of n (chen-sqrt)", "#CC79A7", 6),
    "ours": ("checkmate.tf2", "#0072B2", 7),
}


def budgets(rows: list[Row]) -> str:
    """A line for each model and budget."""
    lines = ["| model | budget | MB | planned | measured | apart | overhead | measured | step | planning, s | operators | results |",
             "|---" * 12 + "|"]  # fmt: skip
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row)
    kept = held = alike = 0
    for name in sorted(cases, key=ORDER.index):
        for row in cases[name]:
            if "planned" in row:
                lines.append(f"| {name} | {setting(row)} | {entry(row)} |")
                kept += 1
                held += row["measured"] <= row["budget"]
                alike += row["same"]
            elif "note" in row:
                lines.append(f"| {name} | {setting(row)} | {row['note']} |" + " |" * 9)
    lines += ["", f"Models: {len(cases)}; budgets: {kept}, of which {held} held. Results bit for bit those of the unplanned step at {alike}."]
    plain = ["", "| model | tf.function, MB | unplanned in our order, MB | its time over tf.function's | results apart, relative |", "|---" * 5 + "|"]
    for name in sorted(cases, key=ORDER.index):
        usual = next((row for row in cases[name] if row["setting"] == "plain"), None)
        ours = next((row for row in cases[name] if row["setting"] == "100"), None)
        if usual and ours and "time" in usual and "measured" in ours:
            plain.append(f"| {name} | {mb(usual['measured'])} | {mb(ours['measured'])} | {1 / usual['time']:.2f} | {ours['apart']:.0e} |")
    return "\n".join([*lines, *plain])


def setting(row: Row) -> str:
    return {"min": "least", "error": ""}.get(row["setting"], row["setting"] + " %")


def entry(row: Row) -> str:
    apart = 100 * (row["measured"] / row["planned"] - 1)
    time = [f"{100 * (row['time'] - 1):+.1f} %", f"{row['step_seconds']:.2f} s"] if "time" in row else ["", ""]
    same = "bit for bit" if row["same"] else f"{row['differing']} tensors differ"
    over = "" if row["measured"] <= row["budget"] else f", {row['measured'] - row['budget']:,} bytes over"
    return " | ".join([mb(row["budget"]), mb(row["planned"]), mb(row["measured"]), f"{apart:+.3f} %", f"{100 * row['overhead']:+.1f} %", *time,
                       f"{row['seconds']:.0f}", f"{row['operators']:,}", same + over])  # fmt: skip


def mb(size: object) -> str:
    return f"{int(str(size)) / 1e6:.2f}"


def comparison(rows: list[dict[str, str]]) -> str:
    """Next to each method, ours with its peak as the budget; below, the least that ours reaches."""
    lines = [
        "| network | method | peak, MB | time over tf.function's | ours: peak, MB | time over tf.function's | ours over it | least to most |",
        "|---" * 8 + "|",
    ]
    won = total = 0
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case and row["method"] == "ours"]
        for row in (row for row in rows if row["case"] == case and row["method"] != "ours"):
            label = STYLES.get(row["method"], ("", "", 0))[0]
            if not row["seconds"]:
                lines.append(f"| {case} | {label} | {row['note']} |" + " |" * 5)
                continue
            ours = next((m for m in mine if m["setting"] == row["peak_bytes"] and m["seconds"]), None)
            text = f"| {case} | {label} | {mb(row['peak_bytes'])} | {float(row['relative']):.2f} | "
            if ours is None:
                lines.append(text + "nothing found | | | |")
                continue
            total += 1
            won += float(row["ours_over"]) <= 1
            lines.append(f"{text}{mb(ours['peak_bytes'])} | {float(ours['relative']):.2f} | {float(row['ours_over']):.3f} "
                         f"| {float(row['ours_over_least']):.3f} to {float(row['ours_over_most']):.3f} |")  # fmt: skip
        least = min(int(row["peak_bytes"]) for row in rows if row["case"] == case and row["method"] != "ours" and row["peak_bytes"])
        lower = [m for m in mine if m["seconds"] and int(m["peak_bytes"]) < least]
        if lower:
            best = min(lower, key=lambda m: int(m["peak_bytes"]))
            lines.append(f"| {case} | out of their reach | | | {mb(best['peak_bytes'])} | {float(best['relative']):.2f} | | |")
    return "\n".join([*lines, "", f"Ours takes no more time at {won} of {total} peaks."])


def draw(case: str, rows: list[dict[str, str]], path: pathlib.Path) -> None:
    curves = [(label, colour, point, [(float(mb(r["peak_bytes"])), float(r["relative"])) for r in rows if r["method"] == method and r["seconds"]])
              for method, (label, colour, point) in STYLES.items()]  # fmt: skip
    tradeoff.draw(f"{case}, TensorFlow", "measured peak (MB)", "step time / tf.function", curves, path)


def main() -> int:
    records, compared, figures, path = (pathlib.Path(argument) for argument in sys.argv[1:5])
    page = path.read_text()
    if records.exists():
        page = into(page, "budgets", budgets([json.loads(line) for line in records.read_text().splitlines()]))
    if compared.exists():
        with compared.open(newline="") as file:
            rows = list(csv.DictReader(file))
        page = into(page, "comparison", comparison(rows))
        if shutil.which("gnuplot") is None:
            print("no figures: gnuplot is not there", file=sys.stderr)
        else:
            for case in dict.fromkeys(row["case"] for row in rows):
                draw(case, [row for row in rows if row["case"] == case], figures / f"tf2-{case.lower()}.svg")
    path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
