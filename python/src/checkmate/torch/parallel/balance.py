# SPDX-License-Identifier: Apache-2.0
"""Where to cut a row of parts into stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Moves of one part to a neighbour that are tried before a cut is left as it is.
_MOVES = 4


def even(weights: Sequence[float], stages: int) -> list[int]:
    """The ends of this many stages, each of at least one part, whose heaviest is lightest. O(parts^2 * stages), by dynamic programming."""
    n = len(weights)
    sums = [0.0]
    for weight in weights:
        sums.append(sums[-1] + weight)
    best = [[float("inf")] * (n + 1) for _ in range(stages + 1)]
    cut = [[0] * (n + 1) for _ in range(stages + 1)]
    best[0][0] = 0.0
    for s in range(1, stages + 1):
        for end in range(s, n + 1):
            for begin in range(s - 1, end):
                heaviest = max(best[s - 1][begin], sums[end] - sums[begin])
                if heaviest < best[s][end]:
                    best[s][end], cut[s][end] = heaviest, begin
    ends = [n]
    for s in range(stages, 1, -1):
        ends.append(cut[s][ends[-1]])
    return ends[::-1]


def improved(ends: list[int], slowest: Callable[[list[int]], tuple[tuple[int, float], int, bool]]) -> list[int]:
    """Moves parts away from the slowest stage while that helps. `slowest`: how bad the worst stage of a cut is, which it is, and whether it
    is as fast as its parts are, so that there is nothing to gain."""
    worst, stage, free = slowest(ends)
    for _ in range(_MOVES):
        if free:
            break
        begins = [0, *ends[:-1]]
        tried = []
        if ends[stage] - begins[stage] > 1:
            if stage > 0:
                tried.append([*ends[: stage - 1], ends[stage - 1] + 1, *ends[stage:]])
            if stage < len(ends) - 1:
                tried.append([*ends[:stage], ends[stage] - 1, *ends[stage + 1 :]])
        found = min(((*slowest(other), other) for other in tried), key=lambda one: one[0], default=None)
        if found is None or found[0] >= worst:
            break
        worst, stage, free, ends = found
    return ends
