# SPDX-License-Identifier: Apache-2.0
"""What autograd saves, in a file: `torch.autograd.graph.save_on_cpu` of a model on the CPU, with a file for the memory of the host.

As save_on_cpu does, a hook copies every saved tensor when it is saved and reads it back when it is needed, while the step waits. It does better in
three things: parameters, buffers and inputs are left where they are; tensors of less than `_LEAST` bytes, too; and a tensor that is saved
several times is written once.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import torch

_LEAST = 1000


class _File:
    def __init__(self, folder: str) -> None:
        self.handle, path = tempfile.mkstemp(dir=folder)
        os.unlink(path)
        self.end = 0
        self.known: dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], _Saved] = {}
        self.held: set[int] = set()

    def begin(self, held: list[torch.Tensor]) -> None:
        """Of a step, whose tensors go over those of the last one."""
        self.end = 0
        self.known.clear()
        self.held = {t.untyped_storage().data_ptr() for t in held}

    def pack(self, value: torch.Tensor) -> Any:
        storage = value.untyped_storage()
        if value.numel() * value.element_size() < _LEAST or storage.data_ptr() in self.held:
            return value
        key = value.data_ptr(), value._version, tuple(value.shape), value.stride()
        found = self.known.get(key)
        if found is None or found.origin() is not value:
            found = self.known[key] = _Saved(self, value)
        return found

    def unpack(self, saved: Any) -> torch.Tensor:
        return saved.back() if isinstance(saved, _Saved) else saved


class _Saved:
    """One tensor in the file. Its strides are kept where it has no gaps."""

    def __init__(self, file: _File, value: torch.Tensor) -> None:
        self.file, self.at, self.origin = file, file.end, weakref.ref(value)
        self.like = torch.empty_like(value, device="meta")
        value = value.detach()
        data = (
            value
            if value.stride() == self.like.stride()
            else torch.empty_strided(self.like.shape, self.like.stride(), dtype=value.dtype).copy_(value)
        )
        file.end += data.numel() * data.element_size()
        view, at = _bytes(data), self.at
        while view:
            wrote = os.pwrite(file.handle, view, at)
            view, at = view[wrote:], at + wrote

    def back(self) -> torch.Tensor:
        value = torch.empty_strided(self.like.shape, self.like.stride(), dtype=self.like.dtype)
        view, at = _bytes(value), self.at
        while view:
            got = os.preadv(self.file.handle, [view], at)
            view, at = view[got:], at + got
        return value


def _bytes(value: torch.Tensor) -> memoryview:
    return memoryview((ctypes.c_char * (value.numel() * value.element_size())).from_address(value.data_ptr())).cast("B")


def saving(model: torch.nn.Module, folder: str) -> Callable[..., Any]:
    file = _File(folder)

    def run(*inputs: Any) -> Any:
        file.begin(
            [
                *model.parameters(),
                *model.buffers(),
                *(t for t in inputs if isinstance(t, torch.Tensor)),
            ]
        )
        with torch.autograd.graph.saved_tensors_hooks(file.pack, file.unpack):
            return model(*inputs)

    return run
