# SPDX-License-Identifier: Apache-2.0
"""Bytes of an optimizer's state, also before its first step, which makes it.

That step is taken by a copy of the optimizer whose parameters are fake tensors: they have shapes, types and devices but no
data. What is then held in addition to the parameters and their gradients is the state, whatever the optimizer.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from ..fx.dataflow import storage_bytes, storage_key

#: Wrappers that hold no state of their own, and where they keep the optimizer that they hand steps on to.
_WRAPPERS = {"AcceleratedOptimizer": "optimizer", "LightningOptimizer": "optimizer", "_FabricOptimizer": "optimizer",
             "ZeroRedundancyOptimizer": "optim"}  # fmt: skip


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the optimizer's state: as it is, or before the first step as it will be after it. ValueError where that step
    cannot be tried out."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be one of the model's parameters, such as torch.optim.Adam(model.parameters()), not {optimizer!r}")
    optimizer = unwrapped(optimizer)
    if isinstance(optimizer, torch.optim.LBFGS):
        return _lbfgs_bytes(optimizer)
    if not has_state(optimizer):
        return _dry_run_bytes(optimizer)
    held = _held_bytes(optimizer)
    if all(p in optimizer.state for p in _parameters(optimizer) if p.requires_grad):
        return held
    try:  # what was frozen before gets its state in the next step
        return max(held, _dry_run_bytes(optimizer))
    except ValueError:
        return held


def has_state(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it has made tensors already; some note numbers when they are made themselves."""
    return any(True for _ in _tensors(unwrapped(optimizer).state, set()))


def unwrapped(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer behind the wrappers of accelerate, Lightning and torch.distributed."""
    while True:
        attribute = next((_WRAPPERS[kind.__name__] for kind in type(optimizer).__mro__ if kind.__name__ in _WRAPPERS), None)
        inner = getattr(optimizer, attribute, None) if attribute is not None else None
        if not isinstance(inner, torch.optim.Optimizer):
            return optimizer
        optimizer = inner


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _tensors(value: object, seen: set[int]) -> Iterator[torch.Tensor]:
    """All tensors under optimizers and containers, those inside of tensor subclasses in place of these."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if is_traceable_wrapper_subclass(value):
            for name in value.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
                yield from _tensors(getattr(value, name), seen)
        else:
            yield value
    elif isinstance(value, torch.optim.Optimizer):
        yield from _tensors(vars(value), seen)
    elif isinstance(value, (dict, list, tuple, set, frozenset)):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _tensors(element, seen)


def _held_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the distinct storages that the optimizer holds, the parameters' and gradients' not counted."""
    parameters = _parameters(optimizer)
    gradients = [p.grad for p in parameters if p.grad is not None]
    model = {storage_key(t) for t in _tensors([*parameters, *gradients], set())}
    found = {storage_key(t): storage_bytes(t) for t in _tensors(optimizer, set()) if t.layout == torch.strided}
    return sum(size for key, size in found.items() if key not in model)


def _lbfgs_bytes(optimizer: torch.optim.LBFGS) -> int:
    """The most that it holds while its closure runs: pairs of directions and steps, one more pair that was no good, the direction
    and what it was made of, two gradients; in a line search the parameters at its start and up to six gradients more. Each is
    one tensor as large as all parameters."""
    (group,) = optimizer.param_groups
    pairs, searches = group["history_size"], group["line_search_fn"] is not None
    numbers = 4 * pairs + 16  # scalar products and coefficients, a tensor each
    one = sum(p.numel() * p.element_size() for p in group["params"])
    return one * (2 * pairs + 6 + (7 if searches else 0)) + 8 * numbers


class _MadeUp(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What is read from fake tensors: numbers are 0.5 or 1, and `truth` is what questions are answered with. Kernels of other
    libraries that only write to their operands do nothing."""

    def __init__(self, truth: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.truth = truth

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func is aten._local_scalar_dense.default:
            return self.truth if args[0].dtype == torch.bool else 0.5 if args[0].dtype.is_floating_point else 1
        if func is aten.equal.default:
            return self.truth
        if func.namespace not in ("aten", "prim", "prims") and not func._schema.returns:
            return None
        return func(*args, **(kwargs or {}))


def _dry_run_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The larger of the states after steps whose questions about data are all answered with yes, or all with no."""
    found, failures = [], []
    for truth in (False, True):
        for with_closure in (False, True):
            try:
                found.append(_state_after_a_step(optimizer, truth, with_closure))
                break
            except Exception as error:  # noqa: BLE001 - of code from elsewhere
                failures.append(error)
    if not found or (failures and max(found) == 0):
        reason = str(failures[0]).strip().partition("\n")[0]
        raise ValueError(
            f"the state of {type(optimizer).__name__} is not known before its first step, and it cannot be tried out "
            f"({type(failures[0]).__name__}: {reason}): take one step before, or leave optimizer out and give its bytes as fixed_bytes"
        )
    return max(found)


def _state_after_a_step(optimizer: torch.optim.Optimizer, truth: bool, with_closure: bool) -> int:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    twin = _fake_copy(optimizer, mode)
    step: Any = type(twin).step
    if getattr(step, "hooked", False):  # else hooks of the user's would run
        step = step.__wrapped__
    with torch.compiler.set_stance("force_eager"), mode, _MadeUp(truth):
        loss = torch.zeros(())
        if with_closure and "closure" in inspect.signature(step).parameters:
            step(twin, closure=lambda: loss)
        else:
            step(twin)
    return _held_bytes(twin)


def _fake_copy(optimizer: torch.optim.Optimizer, mode: FakeTensorMode) -> torch.optim.Optimizer:
    """Its tensors are fake, and the parameters have gradients."""
    memo: dict[int, Any] = {}
    for p in _parameters(optimizer):
        fake = mode.from_tensor(p.detach(), static_shapes=True)
        fake.requires_grad_(p.requires_grad)
        if p.requires_grad:
            with mode:
                fake.grad = torch.zeros_like(fake)
        memo[id(p)] = fake
    twin: torch.optim.Optimizer = object.__new__(type(optimizer))
    memo[id(optimizer)] = twin
    for value in [*vars(optimizer).values(), *(value for group in optimizer.param_groups for value in group.values())]:
        if isinstance(value, torch.Generator):  # the user's keeps its state
            memo[id(value)] = torch.Generator(value.device)
    # Hooks are the user's, and learning rate schedulers put a method of the real optimizer in place of `step`.
    attributes = {name: OrderedDict() if name.endswith("_hooks") else value for name, value in vars(optimizer).items() if name != "step"}
    with FakeCopyMode(mode):
        twin.__dict__.update(copy.deepcopy(attributes, memo))
    for group in twin.param_groups:  # one kernel of many tensors, or one written for a device, holds what the plain one does
        group.update({name: False for name in ("foreach", "fused") if name in group})
    return twin


__all__ = ["has_state", "optimizer_bytes", "unwrapped"]
