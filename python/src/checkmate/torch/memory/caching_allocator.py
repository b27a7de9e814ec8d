# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's caching allocator takes from a GPU for a sequence of allocations, simulated without one.

The allocator asks CUDA for segments and hands out blocks of them: the smallest free block that is large enough, split where enough
is left, and joined with its free neighbours when it comes back; see c10/cuda/CUDACachingAllocator.cpp. Sizes up to 1 MiB come from
segments of 2 MiB, others from segments of 20 MiB or, from 10 MiB on, of their own size. What lies between blocks in use is reserved and
of no use to larger requests. With expandable segments each of the two pools is one range of addresses that grows by pages of 2 or 20 MiB
at its end.
"""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass, field

import torch

_MIB = 1 << 20
_UNIT = 512
_SMALL, _SMALL_SEGMENT, _LARGE_SEGMENT, _OWN_SEGMENT, _ROUND = _MIB, 2 * _MIB, 20 * _MIB, 10 * _MIB, 2 * _MIB


def rounded(size: int, unit: int = _UNIT) -> int:
    return max(unit, -(-size // unit) * unit)


@dataclass
class Block:
    """A part of a segment, in a list with its neighbours."""

    start: int
    size: int
    small: bool
    free: bool = False
    before: Block | None = field(default=None, repr=False)
    after: Block | None = field(default=None, repr=False)


class CachingAllocator:
    """One stream's. O(log blocks) to find a block, O(blocks) to note it."""

    def __init__(self, *, expandable: bool) -> None:
        self.expandable = expandable
        self.reserved = self.allocated = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}  # by size and address
        self._last: dict[bool, Block | None] = {True: None, False: None}  # of an expandable range
        self._next_address = 0

    def allocate(self, size: int) -> Block:
        size = rounded(size)
        small = size <= _SMALL
        free = self._free[small]
        at = bisect.bisect_left(free, (size, 0), key=lambda entry: entry[:2])
        # The end of a range, which could grow, is left for larger requests.
        if self.expandable and at + 1 < len(free) and free[at][2] is self._last[small]:
            at += 1
        if at < len(free):
            block = free.pop(at)[2]
            block.free = False
        else:
            block = self._grown(size, small) if self.expandable else self._segment(size, small)
        left = block.size - size
        if left >= _UNIT if small or self.expandable else left > _SMALL:
            self._split(block, size)
        self.allocated += block.size
        return block

    def release(self, block: Block) -> None:
        assert not block.free
        self.allocated -= block.size
        if block.before is not None and block.before.free:
            self._forget(block.before)
            block = self._joined(block.before, block)
        if block.after is not None and block.after.free:
            self._forget(block.after)
            block = self._joined(block, block.after)
        self._note(block)

    def _segment(self, size: int, small: bool) -> Block:
        length = _SMALL_SEGMENT if small else _LARGE_SEGMENT if size < _OWN_SEGMENT else rounded(size, _ROUND)
        block = Block(self._next_address, length, small)
        self._next_address += length
        self.reserved += length
        return block

    def _grown(self, size: int, small: bool) -> Block:
        """A block at the end of the range, with what is free there."""
        last = self._last[small]
        present = 0
        if last is not None and last.free:
            self._forget(last)
            present = last.size
        more = rounded(size - present, _SMALL_SEGMENT if small else _LARGE_SEGMENT)
        self.reserved += more
        if last is not None and last.free:
            last.size += more
            last.free = False
            return last
        block = Block(0 if last is None else last.start + last.size, more, small, before=last)
        if last is not None:
            last.after = block
        self._last[small] = block
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.start + size, block.size - size, block.small, before=block, after=block.after)
        if block.after is not None:
            block.after.before = rest
        block.size, block.after = size, rest
        if self._last[block.small] is block:
            self._last[block.small] = rest
        self._note(rest)

    def _joined(self, first: Block, second: Block) -> Block:
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        if self._last[first.small] is second:
            self._last[first.small] = first
        return first

    def _note(self, block: Block) -> None:
        block.free = True
        bisect.insort(self._free[block.small], (block.size, block.start, block), key=lambda entry: entry[:2])

    def _forget(self, block: Block) -> None:
        free = self._free[block.small]
        del free[bisect.bisect_left(free, (block.size, block.start), key=lambda entry: entry[:2])]


_KNOWN = {"expandable_segments", "garbage_collection_threshold"}


def _settings(text: str) -> dict[str, str]:
    return dict(part.strip().partition(":")[::2] for part in text.split(",") if part.strip())


def expandable_segments() -> bool | None:
    """Whether the process has asked for them, in its environment or since; None where it asks for rules that are not simulated here."""
    settings = _settings(os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "")
    # Newer versions of PyTorch tell what was set last while the process runs. What that does not name stays as it was.
    tells = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    settings |= _settings(tells() if tells is not None else "")
    return settings.get("expandable_segments", "").lower() == "true" if settings.keys() <= _KNOWN else None
