# SPDX-License-Identifier: Apache-2.0
"""Fake tensors in place of a model's parameters, buffers and inputs: shapes, types and strides without data.

A model may be made under `torch.device("meta")` or under `FakeTensorMode`, which allocates nothing, or be an ordinary one on any
device. It is traced as if it were on the CPU, whose code paths every build of PyTorch can trace.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from ...errors import UnsupportedError


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], values: Any) -> Any:
    """Nested arguments with their tensors changed, also those in the fields of dataclasses, which Dynamo looks into and PyTorch's trees
    do not. A dataclass is copied only where something in it has changed, so that its code sees the object that it was given."""

    def of(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
        changed = {name: new for name, old in fields.items() if (new := _mapped(change, old)) is not old and _tensors(old)}
        if not changed:
            return value
        made = copy.copy(value)
        for name, new in changed.items():
            object.__setattr__(made, name, new)  # it may be frozen
        return made

    return tree_map(of, values)


def _tensors(values: Any) -> list[torch.Tensor]:
    """Of nested arguments, in their order."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    _mapped(note, values)
    return found


def require_data(model: object, inputs: Any) -> None:
    """ValueError for a model or inputs that have none, which only a plan for a device that you do not have can do without."""
    held = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    for value in [*held, *_tensors(inputs)]:
        if isinstance(value, FakeTensor) or value.is_meta:
            raise ValueError('the model or its inputs have no data (torch.device("meta") or FakeTensorMode), so nothing can run or be measured: '
                             'say device="H100" or such to plan for a device that is not here')  # fmt: skip


NOTHING_TRACED = "nothing was traced: the model needs inputs or parameters that require gradients"


def require_gradients(model: object, inputs: Any) -> None:
    """ValueError for a module with which there is nothing to differentiate."""
    if isinstance(model, torch.nn.Module):
        held = [value for module in model.modules() for value in vars(module).values()]
        if not any(isinstance(v, torch.Tensor) and v.requires_grad for v in [*model.parameters(), *model.buffers(), *held, *_tensors(inputs)]):
            raise ValueError(NOTHING_TRACED)


def require_no_mode() -> None:
    """ValueError under `FakeTensorMode`, of which there can be one only."""
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
        raise ValueError("explain makes stand-ins of its own: call it outside of FakeTensorMode; the model may be made under it")


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
        if type(getattr(tensor, "data", tensor)).__name__ == "DTensor":
            return self._distributed(tensor)
        if is_traceable_wrapper_subclass(tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise UnsupportedError(
                f"a {type(tensor).__name__} of layout {tensor.layout} has no stand-in: to plan for a device that you do not have, the model's "
                "tensors must be ordinary ones"
            )
        fake = self._laid_out(tensor)
        return torch.nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else fake.requires_grad_(tensor.requires_grad)

    def _distributed(self, tensor: Any) -> torch.Tensor:
        """Of this process' part, between processes that need not be there."""
        made: torch.Tensor = type(tensor.data)(self.of(tensor._local_tensor), tensor._spec, requires_grad=False)
        return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made.requires_grad_(tensor.requires_grad)

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
                raise UnsupportedError(f"tensors of {base.dtype} and {kind} share memory, which has no stand-in on a device that you do not have")
            return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def inputs(self, values: Any) -> Any:
        """The same nested arguments."""
        return _mapped(self.of, values)

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
