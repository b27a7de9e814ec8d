# SPDX-License-Identifier: Apache-2.0
"""Fake tensors in place of a model's parameters, buffers and inputs: shapes, types and strides without data.

A model may be made under `torch.device("meta")` or under `FakeTensorMode`, which allocates nothing, or be an ordinary one on any
device. It is traced as if it were on the CPU, whose code paths every build of PyTorch can trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from ..errors import UnsupportedError


class Standins:
    """Stand-ins of one fake mode, the same one for the same tensor; those of tensors that share a storage share one."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the tensor is held, so that its id stays its own
        self._bases: dict[int, tuple[torch.UntypedStorage, torch.Tensor]] = {}  # by storage; that is held too

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._known:
            self._known[id(tensor)] = tensor, self._made(tensor)
        return self._known[id(tensor)][1]

    def _made(self, tensor: torch.Tensor) -> torch.Tensor:
        if is_traceable_wrapper_subclass(tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise UnsupportedError(
                f"a {type(tensor).__name__} of layout {tensor.layout} has no stand-in: to plan for a device that is not there, the model's "
                "tensors must be ordinary ones"
            )
        fake = self._laid_out(tensor)
        return torch.nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else fake.requires_grad_(tensor.requires_grad)

    def _laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        storage, kind = tensor.untyped_storage(), tensor.dtype
        whole = tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == storage.nbytes()
        with self.mode, torch.no_grad():
            if storage._cdata not in self._bases and whole:
                self._bases[storage._cdata] = storage, torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device="cpu")
                return self._bases[storage._cdata][1]
            if storage._cdata not in self._bases:
                self._bases[storage._cdata] = storage, torch.empty(storage.nbytes() // tensor.element_size(), dtype=kind, device="cpu")
            base = self._bases[storage._cdata][1]
            if base.dtype != kind:
                raise UnsupportedError(f"tensors of {base.dtype} and {kind} share memory, which has no stand-in on a device that is not there")
            return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def inputs(self, values: Any) -> Any:
        """The same nested arguments."""
        return tree_map(lambda value: self.of(value) if isinstance(value, torch.Tensor) else value, values)

    @contextlib.contextmanager
    def within(self, model: object) -> Iterator[None]:
        """While this lasts a module's parameters and buffers, and tensors that are plain attributes of its modules, are stand-ins."""
        before: list[tuple[dict[str, Any], dict[str, Any]]] = []
        try:
            for module in model.modules() if isinstance(model, torch.nn.Module) else ():
                holders: list[dict[str, Any]] = [module._parameters, module._buffers, vars(module)]  # type: ignore[list-item]
                for holder in holders:
                    tensors = {name: value for name, value in holder.items() if isinstance(value, torch.Tensor)}
                    before.append((holder, tensors))
                    holder.update({name: self.of(value) for name, value in tensors.items()})
            yield
        finally:
            for holder, tensors in before:
                holder.update(tensors)
