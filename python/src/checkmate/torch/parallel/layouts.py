# SPDX-License-Identifier: Apache-2.0
"""The ways to share a step between devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """`data` copies of the model, each in `pipeline` stages of `tensor` devices. Each copy has `micro_batches` of `micro_batch` samples a
    step. `sharded`: parameters, gradients and the optimizer's state are spread over the copies (FSDP2)."""

    data: int
    tensor: int
    pipeline: int
    micro_batch: int
    micro_batches: int
    sharded: bool = False

    @property
    def devices(self) -> int:
        return self.data * self.tensor * self.pipeline

    @property
    def batch(self) -> int:
        return self.data * self.micro_batch * self.micro_batches

    def __str__(self) -> str:
        ways = [(self.data, "sharded" if self.sharded else "data"), (self.tensor, "tensor"), (self.pipeline, "pipeline")]
        named = " x ".join(f"{number} {way}" for number, way in ways if number > 1) or "1 device"
        return f"{named}, {self.micro_batches} x {self.micro_batch}"


def layouts(devices: int, batch: int, *, tensor: list[int], parts: int, sharded: bool = True) -> Iterator[list[Layout]]:
    """All layouts of this many devices and samples a step; in one list those that differ in their micro-batches only, the largest first.
    `tensor`: sizes to try; `parts`: the most stages. Stages, and samples of a micro-batch, are powers of two or all there are. A
    pipeline has as many micro-batches as stages at least, as 1F1B needs. `sharded`: FSDP2 too, which is
    planned for by itself only: with neither tensor parallelism nor a pipeline."""
    for t in sorted(set(tensor)):
        for p in _powers(parts):
            if devices % (t * p):
                continue
            d = devices // (t * p)
            if batch % d:
                continue
            each = batch // d
            divisors = sorted({b for b in (*_powers(each), each) if each % b == 0 and (p == 1 or each // b >= p)}, reverse=True)
            for spread in (False, True) if sharded and d > 1 and t == p == 1 else (False,):
                if divisors:
                    yield [Layout(d, t, p, b, each // b, spread) for b in divisors]


def _powers(most: int) -> list[int]:
    return [1 << i for i in range(most.bit_length()) if 1 << i <= most]
