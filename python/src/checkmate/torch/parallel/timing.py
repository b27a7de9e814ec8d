# SPDX-License-Identifier: Apache-2.0
"""How long a step of a pipeline takes, by simulation of its passes."""

from __future__ import annotations

from collections.abc import Sequence

from ..memory import pipeline


def pipeline_seconds(schedule: str, forward: Sequence[float], backward: Sequence[float], micro_batches: int, *, transfer: float = 0.0,
                     ranks: int | None = None) -> list[float]:  # fmt: skip
    """When each process of a pipeline is through with its passes, in seconds from the start of the step.

    schedule: "gpipe", "1f1b" or "interleaved", as `checkmate.torch.in_flight` has them.
    forward, backward: seconds of a pass of one micro-batch, one a stage.
    transfer: seconds that a stage's output, and its gradient, need to the next process. Sending delays no other process.
    ranks: processes of the pipeline; for "interleaved" only.

    A process runs its passes in the order of the schedule, each as soon as what it needs is there. ValueError for what is no pipeline.
    O(stages * micro_batches).
    """
    stages = len(forward)
    if len(backward) != stages:
        raise ValueError(f"forward has {stages} stages and backward {len(backward)}")
    orders = pipeline.passes(schedule, stages, micro_batches, ranks=ranks)
    over: dict[tuple[str, int, int], float] = {}  # by letter, stage and micro-batch
    done: list[dict[tuple[str, int], int]] = [{} for _ in orders]
    at, free = [0] * len(orders), [0.0] * len(orders)
    waiting = list(range(len(orders)))
    while waiting:
        moved = False
        for process in waiting:
            while at[process] < len(orders[process]):
                letter, stage = orders[process][at[process]]
                number = done[process].get((letter, stage), 0)
                needed = _needed(letter, stage, number, stages)
                if needed is not None and needed not in over:
                    break
                there = 0.0 if needed is None else over[needed] + (transfer if needed[1] % len(orders) != stage % len(orders) else 0.0)
                free[process] = max(free[process], there) + (forward if letter == "F" else backward)[stage]
                over[letter, stage, number] = free[process]
                done[process][letter, stage] = number + 1
                at[process] += 1
                moved = True
        waiting = [process for process in waiting if at[process] < len(orders[process])]
        if waiting and not moved:
            raise ValueError(f"the passes of {schedule} wait for each other")
    return free


def _needed(letter: str, stage: int, number: int, stages: int) -> tuple[str, int, int] | None:
    """The pass of another stage that a pass waits for; a backward pass at the last stage comes behind its own forward pass anyway."""
    if letter == "F":
        return None if stage == 0 else ("F", stage - 1, number)
    return None if stage == stages - 1 else ("B", stage + 1, number)
