# SPDX-License-Identifier: Apache-2.0
"""Operators traced as the kernels that eager mode runs.

For some operators that have a kernel with a backward kernel of its own, PyTorch registers decompositions in Python that
replace them whenever a graph is traced, for compilers that would fuse the parts. An interpolation becomes two dozen calls there,
which take more time and bytes than the one kernel and round otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import DispatchKey

_aten = torch.ops.aten

#: Where such a decomposition is registered.
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@functools.cache
def _decomposed() -> list[Any]:
    """The overloads of interpolation that have one."""
    modes = ["linear1d", "bilinear2d", "trilinear3d", "bicubic2d", *(f"nearest{exact}{n}d" for exact in ("_exact", "") for n in (1, 2, 3))]
    names = (f"{prefix}upsample_{mode}{suffix}" for prefix, mode, suffix in itertools.product(("", "_"), modes, ("", "_aa")))
    packets = [getattr(_aten, name) for name in names if hasattr(_aten, name)]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return [overload for overload in overloads if any(key in overload.py_kernels for key in _KEYS)]


@contextlib.contextmanager
def native() -> Iterator[None]:
    """While this lasts, they are traced as one call forward and one backward."""
    taken = [(overload, {key: overload.py_kernels.pop(key) for key in _KEYS if key in overload.py_kernels}) for overload in _decomposed()]
    try:
        for overload, _ in taken:
            overload._dispatch_cache.clear()
        yield
    finally:
        for overload, kernels in taken:
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()
