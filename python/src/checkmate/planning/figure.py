# SPDX-License-Identifier: Apache-2.0
"""The frontier as an SVG drawing, without any other package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 40, 52
_FOUND, _PROVEN = "#0072B2", "#D55E00"  # colours of Okabe and Ito

Point = tuple[float, float]


def _ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers within [low, high]."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-12)))
    step = next(step * k for k in (0.1, 0.2, 0.5, 1, 2) if (high - low) / (step * k) <= most)
    return [round(i * step, 10) for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _width(content: str, size: float) -> float:
    """Of a text, in pixels, in the widest of the usual sans-serif fonts."""
    return 0.66 * size * len(content)


def _fitted(content: str, size: float) -> str:
    """A text that fits the drawing, cut at its end if need be."""
    most = int((_WIDTH - 16) / _width("x", size))
    return content if len(content) <= most else content[: most - 1] + "\u2026"


def frontier_svg(title: str, found: Sequence[Point], proven: Sequence[Point], floor: float, covered: str = "schedule") -> str:
    """Points are (MB, percent of overhead), drawn as steps: what was found at a budget holds upwards, what was proven downwards. What was
    proven is that no `covered` costs less."""
    right = max([x for x, _ in found] + [floor]) * 1.02
    left = min(floor, *(x for x, _ in found)) * 0.9
    top = max(1.0, max(y for _, y in found) * 1.1)

    def x_of(x: float) -> float:
        return _LEFT + (x - left) / max(right - left, 1e-12) * (_WIDTH - _LEFT - _RIGHT)

    def y_of(y: float) -> float:
        return _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM)

    def text(x: float, y: float, content: str, anchor: str = "middle", size: float = 12) -> str:
        """Moved to the side where it would leave the drawing."""
        content = _fitted(content, size)
        wide = _width(content, size)
        begin = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        x += max(4.0, min(begin, _WIDTH - 4 - wide)) - begin
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}">{escape(content)}</text>'

    def upright(x: float, y: float, content: str) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" transform="rotate(-90 {x:g} {y:g})">{escape(content)}</text>'

    def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'

    found_style, proven_style = f'stroke="{_FOUND}" stroke-width="2"', f'stroke="{_PROVEN}" stroke-width="2" stroke-dasharray="6 4"'
    base = y_of(0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<clipPath id="plot"><rect x="{_LEFT - 4}" y="{_TOP}" width="{_WIDTH - _LEFT - _RIGHT + 8}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM + 4}"/></clipPath>',
        text(_WIDTH / 2, 22, title, size=14),
    ]
    for tick in _ticks(0, top):
        parts += [line(_LEFT, y_of(tick), _WIDTH - _RIGHT, y_of(tick), 'stroke="#dddddd"'), text(_LEFT - 6, y_of(tick) + 4, f"{tick:,.10g}", "end")]
    for tick in _ticks(left, right):
        parts += [line(x_of(tick), base, x_of(tick), base + 5, 'stroke="black"'), text(x_of(tick), base + 19, f"{tick:,.10g}")]
    parts += [
        line(_LEFT, base, _WIDTH - _RIGHT, base, 'stroke="black"'),
        line(x_of(floor), base, x_of(floor), _TOP, 'stroke="black" stroke-dasharray="2 3"'),
        text(x_of(floor) + 4, _TOP + 10, "memory floor", "start", 10),
        text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, "memory budget (MB)"),
        upright(16, _HEIGHT / 2, "overhead (% of the step's compute)"),
    ]
    ordered = sorted(found)
    path = " ".join(
        f"{'M' if i == 0 else 'H'}{x_of(x):.1f}" + (f",{y_of(y):.1f}" if i == 0 else f"V{y_of(y):.1f}") for i, (x, y) in enumerate(ordered)
    )
    parts.append(f'<path d="{path}" fill="none" clip-path="url(#plot)" {found_style}/>')
    parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{_FOUND}"/>' for x, y in ordered]
    if proven:
        path = " ".join(
            (f"M{x_of(x):.1f}," if i == 0 else "V") + f"{y_of(max(0.0, y)):.1f}" + (f"H{x_of(x):.1f}" if i else "")
            for i, (x, y) in enumerate(sorted(proven))
        )
        parts.append(f'<path d="{path}" fill="none" clip-path="url(#plot)" {proven_style}/>')
    labels = [("found", found_style), (f"proven: no {covered} costs less", proven_style)][: 2 if proven else 1]
    begin = max(_LEFT + 110.0, _WIDTH - _RIGHT - max(_width(label, 12) for label, _ in labels))
    for i, (label, style) in enumerate(labels):
        y = _TOP + 6 + 16 * i
        parts += [line(begin - 30, y, begin - 6, y, style), text(begin, y + 4, label, "start")]
    return "\n".join([*parts, "</svg>", ""])
