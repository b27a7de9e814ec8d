# SPDX-License-Identifier: Apache-2.0
"""The figure of step time against peak memory that the benchmarks of the front ends share."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Sequence

#: Label, colour, gnuplot's point type, and the points: megabytes and times over the reference's.
Curve = tuple[str, str, int, Sequence[tuple[float, float]]]


def draw(title: str, x_label: str, y_label: str, curves: Sequence[Curve], path: pathlib.Path) -> None:
    """The last curve is ours and drawn thick; curves without points are left out, and a single point has no line. Times that differ much are drawn by their logarithm."""
    drawn = [curve for curve in curves if curve[3]]
    times = [y for *_, points in drawn for _, y in points]
    script = [f'set terminal svg size 640,470 dynamic font "DejaVu Sans,12" background "#ffffff"\nset output "{path}"',
              f'set title "{title}" noenhanced', f'set xlabel "{x_label}"', f'set ylabel "{y_label}" noenhanced',
              "set lmargin at screen 0.115\nset rmargin at screen 0.97\nset tmargin at screen 0.92\nset bmargin at screen 0.30",
              "set key at screen 0.5, screen 0.165 center top vertical maxrows 3 Left reverse samplen 1.6 font ',11' noenhanced",
              'set border 3 linecolor rgb "#444444"', 'set tics nomirror textcolor rgb "#222222"', 'set grid linecolor rgb "#dddddd" linetype 1',
              "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05", "set format y '%g'"]  # fmt: skip
    if max(times) > 2.5 * min(times):
        script += ["set offsets graph 0.03, graph 0.03, 0, 0", f"set yrange [{0.93 * min(times)}:{1.08 * max(times)}]", "set logscale y",
                   f'set ylabel "{y_label}, logarithmic" noenhanced', "set ytics (0.8, 1, 1.2, 1.5, 2, 3, 4, 5, 7, 10)"]  # fmt: skip
    plots = []
    for i, (label, colour, point, points) in enumerate(drawn):
        script += [f"$curve{i} << END", *(f"{x} {y}" for x, y in sorted(points)), "END"]
        width = 2.5 if i == len(drawn) - 1 else 1
        how = "linespoints" if len(points) > 1 else "points"
        plots.append(f'$curve{i} using 1:2 with {how} linewidth {width} linecolor rgb "{colour}" pointtype {point} pointsize 1.1 title "{label}"')
    script.append("plot " + ", ".join(plots))
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
