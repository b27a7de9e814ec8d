# SPDX-License-Identifier: Apache-2.0
"""Strides of results that PyTorch's tracing has otherwise than its kernels.

Where a result is traced as not contiguous, a reshape of it is traced as a copy, which eager mode does not make.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_aten = torch.ops.aten


@contextlib.contextmanager
def as_kernels_have_them() -> Iterator[None]:
    """While a graph is traced."""
    try:
        from torch._decomp import meta_table
        from torch._subclasses.fake_impls import op_implementations_dict as known
    except ImportError:  # another PyTorch; the copies stay
        yield
        return
    tables: list[tuple[Any, Any]] = [(known, _IMPLEMENTATIONS), (meta_table, _IMPLEMENTATIONS)]  # what is in the second is not decomposed
    added = [(table, op) for table, mine in tables for op in mine if op not in table]
    for table, op in added:
        table[op] = _IMPLEMENTATIONS[op]
    try:
        yield
    finally:
        for table, op in added:
            del table[op]


def _layer_norm_backward(fake_mode: Any, _op: object, gradient: Any, x: Any, _shape: object, _mean: Any, _rstd: Any, weight: Any, bias: Any,
                         output_mask: list[bool]) -> tuple[Any, Any, Any]:  # fmt: skip
    """Contiguous, on CPUs and on GPUs, whatever the gradient's strides are: as those of empty_like(..., contiguous_format)."""
    with fake_mode:
        made = [
            None if tensor is None or not wanted else torch.empty_like(tensor, memory_format=torch.contiguous_format)
            for tensor, wanted in zip((x, weight, bias), output_mask, strict=True)
        ]
    return made[0], made[1], made[2]


_IMPLEMENTATIONS = {_aten.native_layer_norm_backward.default: _layer_norm_backward}
