# SPDX-License-Identifier: Apache-2.0
"""Models whose parameters `torch.distributed.fsdp.fully_shard` (FSDP2) has spread over processes.

FSDP2's hooks gather the parameters of a unit before it runs, forwards and backwards, and reduce its gradients behind it. Dynamo cannot trace
them. So they are taken off while a planned model is called, and the call is that of the model as a function of whole parameters, each group
of which one call of `shards.gather_shards` makes. Then gathered parameters are tensors of the joint graph like others, and whether they
are held until the backward pass or gathered again is decided by the plan.

Parameters, gradients and optimizers stay FSDP2's: distributed tensors, of which a process has its rows. Called without the plan, in
evaluation for example, the model runs as FSDP2 has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ...errors import UnsupportedError
from . import exchange, shards

Group = Any  # FSDPParamGroup, which is not in PyTorch's public interface
State = Any


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process' part of a distributed tensor; another tensor as it is."""
    part: Any = getattr(tensor, "_local_tensor", tensor)
    return part  # type: ignore[no-any-return]


def held_bytes(parameter: torch.Tensor) -> int:
    """What a process holds of a parameter, and of its gradient: of a distributed one its part, with FSDP2's padding."""
    part = local(parameter)
    return parameter.numel() * parameter.element_size() if part is parameter else part.untyped_storage().nbytes()


def of(model: object) -> Sharded | None:
    """The model with whole parameters, if `fully_shard` was called on it or on a part of it."""
    if not isinstance(model, torch.nn.Module) or not torch.distributed.is_available():
        return None
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:  # before PyTorch 2.6
        return None
    if not any(isinstance(module, FSDPModule) for module in model.modules()):
        return None
    if not isinstance(model, FSDPModule):
        raise UnsupportedError(
            "fully_shard was called on parts of the model but not on the model itself: call it on the model last, as FSDP2 needs it"
        )
    return Sharded(model)


def check_options(*, graph_breaks: str, fallback: str, verify: bool, **options: Any) -> None:
    """UnsupportedError for options that a sharded model cannot be compiled with."""
    refused = {
        'graph_breaks="split"': graph_breaks != "error",
        'fallback="eager"': fallback != "error",
        "verify=True": verify,
        'compiler="inductor"': options.get("compiler", "eager") != "eager",
        "in_flight=": options.get("in_flight") is not None,
        "dynamic=": bool(options.get("dynamic")),
    }
    given = [name for name, is_given in refused.items() if is_given]
    if given:
        raise UnsupportedError(f"{', '.join(given)}: not with a model that fully_shard was called on")


def gathered(names: list[list[str]], spread: list[torch.Tensor], rows: list[int], trained: list[bool], *how: Any) -> dict[str, torch.Tensor]:
    """The whole parameters of a unit by all of their names, from this process' rows of them. The rest is as `shards.gather_shards` has it."""
    made = shards.gather_shards(spread, rows, trained, *how)
    return {name: made[i] if trained[i] else made[i].detach() for i, several in enumerate(names) for name in several}


class Sharded:
    """`call` is the model, for Dynamo to trace within `whole()`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._units: list[tuple[list[list[str]], list[torch.Tensor], list[int], list[bool], bool, torch.dtype, torch.dtype, int, str]] = []
        self._states: list[State] = []
        self._seen: list[tuple[int, bool]] = []

    def call(self, *args: Any, **kwargs: Any) -> Any:
        whole: dict[str, torch.Tensor] = {}
        for names, spread, rows, trained, *how in self._units:
            whole.update(gathered(names, [shard.to_local() for shard in spread], rows, trained, *how))  # type: ignore[attr-defined]
        return torch.func.functional_call(self.model, whole, args, kwargs, tie_weights=False)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """For one call: FSDP2's hooks are off but for their conversions, and the model's own call is what runs."""
        exchange.calls += 1
        if not self._states:
            self._prepare()
        self._refresh()
        hooks = [(module, name, getattr(module, name)) for module in self._modules for name in ("_forward_pre_hooks", "_forward_hooks")]
        compiled = self.model._compiled_call_impl
        try:
            for module, name, there in hooks:
                setattr(module, name, type(there)((key, self._replaced.get(key, hook)) for key, hook in there.items() if key not in self._taken))
            self.model._compiled_call_impl = None
            yield
        finally:
            self.model._compiled_call_impl = compiled
            for module, name, there in hooks:
                setattr(module, name, there)

    def _prepare(self) -> None:
        """What stays: the units, and which of the hooks are FSDP2's."""
        self.model._get_fsdp_state()._lazy_init()
        self._states = list(dict.fromkeys(module._get_fsdp_state() for module in self.model.modules() if hasattr(module, "_get_fsdp_state")))
        self._taken: set[int] = set()
        self._replaced: dict[int, Callable[..., Any]] = {}
        self._modules: list[torch.nn.Module] = []
        for state in self._states:
            before, after = state._pre_forward_hook_handle, state._post_forward_hook_handle
            policy = state._mp_policy
            self._modules += state._modules
            for handle, dtype, make in ((before, policy.param_dtype if policy.cast_forward_inputs else None, _converts_inputs),
                                        (after, policy.output_dtype, _converts_outputs)):  # fmt: skip
                if dtype is None:
                    self._taken.add(handle.id)
                else:
                    self._replaced[handle.id] = make(dtype)

    def _refresh(self) -> None:
        """What may change between calls: parameters are frozen, or others are put in their places."""
        for state in self._states:
            _check(state)
            for group in _groups(state):
                if group.is_unsharded:
                    group.reshard()
                for member in group.fsdp_params:
                    if any(getattr(module, name) is not member.sharded_param for module, name in _places(member)):
                        member.reset_sharded_param()
                        member._setattr_on_modules(member.sharded_param)  # where it is tied to others, too
        members = [member for state in self._states for group in _groups(state) for member in group.fsdp_params]
        seen = [(id(member.sharded_param), member.sharded_param.requires_grad) for member in members]
        if seen != self._seen:
            self._units, self._seen = self._read(), seen

    def _read(self) -> list[Any]:
        modules = {id(module): f"{name}." if name else "" for name, module in self.model.named_modules()}
        units: list[Any] = []
        for state in self._states:
            for group in _groups(state):
                members = group.fsdp_params
                spread = [member.sharded_param for member in members]
                dtypes = {member.param_dtype or member.orig_dtype for member in members}
                if len(dtypes) > 1:
                    raise UnsupportedError(
                        f"parameters of one unit have several types ({', '.join(sorted(map(str, dtypes)))}), which are gathered apart"
                    )
                (dtype,) = dtypes
                reduced = [member.reduce_dtype for member in members if member.sharded_param.requires_grad and member.reduce_dtype is not None]
                names = [[modules[id(module)] + name for module, name in _places(member)] for member in members]
                units.append((names, spread, [member._orig_size[0] for member in members],
                              [shard.requires_grad for shard in spread], group.post_forward_mesh_info is not None, dtype, (reduced or [dtype])[0],
                              len(units), group._all_gather_process_group.group_name))  # fmt: skip
        return units


def _places(member: Any) -> list[tuple[torch.nn.Module, str]]:
    """The modules that have a parameter, several where it is tied, and its names in them."""
    place = member._module_info
    return list(zip((place.module, *place.shared_modules), (place.param_name, *place.shared_param_names), strict=True))


def _groups(state: State) -> list[Group]:
    several = getattr(state, "_fsdp_param_groups", None)  # since PyTorch 2.11
    return [group for group in (several if several is not None else [state._fsdp_param_group]) if group is not None and group.fsdp_params]


def _check(state: State) -> None:
    """UnsupportedError for what is not planned for."""
    from torch.distributed.fsdp._fully_shard._fsdp_common import HSDPMeshInfo

    if len(state._modules) > 1:
        raise UnsupportedError("a unit of several modules, fully_shard([a, b]), is not planned: shard them one by one")
    for group in _groups(state):
        where = f'of the unit "{group._module_fqn or type(state._modules[0]).__name__}"'
        if isinstance(group.mesh_info, HSDPMeshInfo):
            raise UnsupportedError(f"parameters {where} are sharded and replicated (a mesh of two dimensions), which is not planned")
        if getattr(group, "gradient_divide_factor", None) is not None:
            raise UnsupportedError(f"gradients {where} have a divisor of their own (set_gradient_divide_factor), which is not planned")
        if not group.reduce_grads:
            raise UnsupportedError("set_requires_gradient_sync(False) is not known to the plan, which reduces gradients in every step")
        for comm, usual in (("_all_gather_comm", "DefaultAllGather"), ("_reduce_scatter_comm", "DefaultReduceScatter")):
            if type(getattr(group, comm, None)).__name__ not in (usual, "NoneType"):
                raise UnsupportedError(
                    f"calls between processes {where} are the user's own ({type(getattr(group, comm)).__name__}), which is not planned"
                )
        for member in group.fsdp_params:
            if hasattr(getattr(member, "_sharded_local_tensor", None), "fsdp_pre_all_gather"):
                raise UnsupportedError(f"parameters {where} say themselves how they are gathered (fsdp_pre_all_gather), which is not planned")
            if member.offload_to_cpu:
                raise UnsupportedError(f"parameters {where} are kept on the CPU (CPUOffloadPolicy), which is not planned")
            if getattr(member, "is_dtensor", False):
                raise UnsupportedError(f"parameters {where} are distributed tensors already (tensor parallelism with FSDP2), which is not planned")
            if member.fsdp_placement.dim != 0:
                raise UnsupportedError(
                    f"parameters {where} are sharded along dimension {member.fsdp_placement.dim}; only rows, dimension 0, are planned"
                )


def _converts_inputs(dtype: torch.dtype) -> Callable[..., Any]:
    def convert(_module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        return _converted(args, dtype), _converted(kwargs, dtype)

    return convert


def _converts_outputs(dtype: torch.dtype) -> Callable[..., Any]:
    def convert(_module: torch.nn.Module, _args: Any, output: Any) -> Any:
        return _converted(output, dtype)

    return convert


def _converted(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(lambda value: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value, values)
