# SPDX-License-Identifier: Apache-2.0
"""Strides of results that PyTorch's tracing has otherwise than its kernels.

Where a result is traced as not contiguous, a reshape of it is traced as a copy, which eager mode does not make. Where it is traced as
contiguous and is not, the reshape is traced as a view, which fails when it runs. So elementwise calls whose operands are not all
contiguous are asked for their strides: the processor's own kernel runs on a few elements that lie in the same order.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

_aten = torch.ops.aten

#: How a tensor lies: its type, the sizes of a small one, and strides that have the order of its own.
_Small = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]


@contextlib.contextmanager
def as_kernels_have_them() -> Iterator[None]:
    """While a graph is traced."""
    try:
        from torch._decomp import meta_table
        from torch._subclasses.fake_impls import op_implementations_dict as known
        from torch._subclasses.fake_tensor import FakeTensorMode

        dispatch: Any = FakeTensorMode._dispatch_impl
        forget: Any = FakeTensorMode.cache_clear
    except (ImportError, AttributeError):  # another PyTorch; the copies stay
        yield
        return
    tables: list[tuple[Any, Any]] = [(known, _IMPLEMENTATIONS), (meta_table, _IMPLEMENTATIONS)]  # what is in the second is not decomposed
    added = [(table, op) for table, mine in tables for op in mine if op not in table]

    @functools.wraps(dispatch)
    def asked(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _corrected(mode, func, args, kwargs, dispatch(mode, func, types, args, kwargs))

    for table, op in added:
        table[op] = _IMPLEMENTATIONS[op]
    FakeTensorMode._dispatch_impl = asked  # type: ignore[method-assign, assignment]
    forget()
    try:
        yield
    finally:
        FakeTensorMode._dispatch_impl = dispatch  # type: ignore[method-assign]
        forget()
        for table, op in added:
            del table[op]


def _corrected(mode: Any, func: Any, args: Any, kwargs: Any, found: Any) -> Any:
    """What a call was traced to give, with the strides that it has."""
    if not _is_asked(func) or not isinstance(found, torch.Tensor) or found.dim() < 2 or found.device.type != "cpu":
        return found
    leaves, spec = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not all(_plain(tensor) for tensor in [found, *tensors]) or all(tensor.is_contiguous() for tensor in tensors):
        return found
    if any(tensor.dim() > found.dim() for tensor in tensors) or any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in leaves):
        return found
    try:
        if torch.broadcast_shapes(*(tensor.shape for tensor in tensors)) != found.shape:  # type: ignore[no-untyped-call]
            return found
        order = _order(func, tuple(_small(leaf, found) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves), spec)
    except Exception:  # noqa: BLE001 - a position that the few elements do not have, or what no kernel is written for
        return found
    if order is None:
        return found
    strides, step = [0] * found.dim(), 1
    for dim in order:
        strides[dim] = step
        step *= max(1, found.shape[dim])
    if all(mine == theirs or size < 2 for mine, theirs, size in zip(strides, found.stride(), found.shape, strict=True)):
        return found
    with mode:
        return torch.empty_strided(found.shape, strides, dtype=found.dtype, device=found.device)


@functools.cache
def _is_asked(func: Any) -> bool:
    """Whether a call computes one tensor of tensors and numbers, and has no effects."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten" or func._schema.is_mutable or len(func._schema.returns) != 1:
        return False
    if torch.Tag.nondeterministic_seeded in func.tags or any(value.alias_info is not None for value in func._schema.returns):
        return False
    return all(str(argument.type) in _TAKEN for argument in func._schema.arguments)


_TAKEN = {"Tensor", "Optional[Tensor]", "number", "Optional[number]", "float", "Optional[float]", "int", "Optional[int]", "bool",
          "Optional[bool]", "str", "Optional[str]"}  # fmt: skip


def _plain(tensor: torch.Tensor) -> bool:
    sizes = (*tensor.shape, *tensor.stride())
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and all(isinstance(size, int) for size in sizes)


def _small(tensor: torch.Tensor, result: torch.Tensor) -> _Small:
    """One of few elements whose dimensions lie in the same order; those that the result has, too, have its sizes."""
    behind = result.dim() - tensor.dim()
    shape = tuple(1 if size == 1 else 2 + (dim + behind) % 3 for dim, size in enumerate(tensor.shape))
    strides, step = [0] * tensor.dim(), 1
    for dim in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
        if tensor.stride(dim) > 0:
            strides[dim] = step
            step *= shape[dim]
    dense = tensor.numel() == 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.dtype, shape, tuple(strides if dense else (2 * stride for stride in strides))


@functools.lru_cache(4096)
def _order(func: Any, leaves: tuple[Any, ...], spec: Any) -> tuple[int, ...] | None:
    """The dimensions of what the kernel gives, the innermost first; None where they have gaps between them."""
    with _disable_current_modes():
        made = [_made(*leaf) if isinstance(leaf, tuple) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(made, spec)
        found = func(*args, **kwargs)
    if not isinstance(found, torch.Tensor):
        return None
    order = sorted(range(found.dim()), key=lambda d: (found.stride(d), -d))
    step = 1
    for dim in order:
        if found.shape[dim] > 1 and found.stride(dim) != step:
            return None
        step *= found.shape[dim]
    return tuple(order)


def _made(dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    room = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.ones(room, dtype=dtype).as_strided(shape, strides)


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
