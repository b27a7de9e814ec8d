# SPDX-License-Identifier: Apache-2.0
"""What a schedule moves to the second memory and back."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Graph
from ...planning.frontier import size
from ...schedule import Schedule


@dataclass(frozen=True)
class Moved:
    """In one step: bytes and the seconds that the transfers take by themselves, out and back. They run while operators do. `loaded_bytes`: of
    frozen weights, however they are read; `loads`: how often one is, and `loads_waiting`: how often of these while no operator runs."""

    out_bytes: int = 0
    in_bytes: int = 0
    out_seconds: float = 0.0
    in_seconds: float = 0.0
    loaded_bytes: int = 0
    loads: int = 0
    loads_waiting: int = 0

    @staticmethod
    def of(graph: Graph, schedule: Schedule) -> Moved:
        memory, tensors = graph.second_memory, graph.tensors
        if memory is None:
            return Moved()
        weights = {i: op.outputs[0] for i, op in enumerate(graph.ops) if op.kind == "load"}
        loaded = set(weights.values())
        waiting = [tensors[weights[step.index]].bytes for step in schedule.steps if step.kind == "compute" and step.index in weights]
        concurrent = [tensors[step.index].bytes for step in schedule.steps if step.kind == "in" and step.index in loaded]
        out = [tensors[step.index].bytes for step in schedule.steps if step.kind == "out"]
        back = [tensors[step.index].bytes for step in schedule.steps if step.kind == "in" and step.index not in loaded]

        def seconds(transfers: list[int], speed: int) -> float:
            return len(transfers) * memory.latency_ns / 1e9 + sum(transfers) / speed

        return Moved(sum(out), sum(back), seconds(out, memory.out_bytes_per_second), seconds(back, memory.in_bytes_per_second),
                     sum(waiting) + sum(concurrent), len(waiting) + len(concurrent), len(waiting))  # fmt: skip

    def __str__(self) -> str:
        moves = (
            f"{size(self.out_bytes)} moved out, for which the link needs {self.out_seconds:.3g} s, and {size(self.in_bytes)} back, "
            f"{self.in_seconds:.3g} s"
            if self.out_bytes or self.in_bytes
            else "nothing is moved"
        )
        return moves + (f"; {size(self.loaded_bytes)} of frozen weights loaded in {self.loads} reads, "
                        f"{self.loads - self.loads_waiting} of them while operators run" if self.loads else "")  # fmt: skip
