# SPDX-License-Identifier: Apache-2.0
"""Parts of a model as the devices of a job have them, without data, and the best plan of each within a device's memory."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from ...planning.frontier import size
from ..cost import collectives
from ..cost.collectives import Link
from ..distributed.fsdp import gathered, local
from ..memory.optimizers import optimizer_bytes
from ..memory.pipeline import InFlight
from ..options import Options
from ..plan.fit_stage import fit_in_flight
from ..predict import absent_device
from ..predict.joint_graph import joint_graph
from ..trace.phases import Phases
from ..trace.standins import Standins

#: Makes an optimizer of parameters.
MakeOptimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True)
class StagePlan:
    """Of one stage within the memory of a device. Bytes of a device, seconds of a micro-batch; `calls`: of
    those, between processes. `peak_bytes`: None where nothing was found,
    for the reason in `why`. `least_overhead`: what is proven of any schedule."""

    peak_bytes: int | None
    held_bytes: int
    gradient_bytes: int
    sent_bytes: int
    forward: float = 0.0
    backward: float = 0.0
    calls: float = 0.0
    overhead: float = 0.0
    least_overhead: float = 0.0
    why: str = ""

    @property
    def seconds(self) -> float:
        return self.forward + self.backward


@contextlib.contextmanager
def imagined(processes: int) -> Iterator[None]:
    """While this lasts, this process is the first of this many, and the others do not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
    try:
        yield
    finally:
        dist.destroy_process_group()


def without_data(model: nn.Module) -> nn.Module:
    """A copy whose tensors are on the meta device."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for value in [*module._parameters.values(), *module._buffers.values(), *vars(module).values()]:
            if isinstance(value, torch.Tensor) and id(value) not in known:
                empty = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
                known[id(value)] = (
                    nn.Parameter(empty, value.requires_grad) if isinstance(value, nn.Parameter) else empty.requires_grad_(value.requires_grad)
                )
    return copy.deepcopy(model, known)


def resized(inputs: Any, samples: int) -> Any:
    """Inputs of this many samples, on the meta device: every tensor whose first dimension is that of the first tensor has as many rows."""
    tensors = [value for value in tree_leaves(inputs) if isinstance(value, torch.Tensor)]
    if not tensors or tensors[0].dim() == 0:
        raise ValueError("inputs must have a tensor whose first dimension counts samples")
    rows = tensors[0].shape[0]

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        shape = (samples, *value.shape[1:]) if value.dim() > 0 and value.shape[0] == rows else value.shape
        return torch.empty(shape, dtype=value.dtype, device="meta").requires_grad_(value.requires_grad)

    return tree_map(one, inputs)


def _unit(name: str) -> str:
    """The part or block of a parameter: its name up to the first number; "" outside of them."""
    path = name.split(".")
    return next((".".join(path[: i + 1]) for i, part in enumerate(path) if part.isdigit()), "")


class Sharded(nn.Module):
    """A model whose parameters are spread over processes, as `fsdp.Sharded` has it: what is held are this process' rows. Its units are the
    model's parts or blocks, and all else is one more, which is gathered once."""

    model: nn.Module

    def __init__(self, model: nn.Module, processes: int) -> None:
        super().__init__()
        object.__setattr__(self, "model", model)
        names: dict[int, list[str]] = {}
        parameters: dict[int, nn.Parameter] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
            parameters[id(parameter)] = parameter
        units: dict[str, list[int]] = {}
        for key, known in names.items():
            units.setdefault(_unit(known[0]), []).append(key)
        for i, buffer in enumerate(model.buffers()):
            self.register_buffer(f"held_{i}", buffer)
        self.rows = nn.ParameterList()
        self._units: list[Any] = []
        group = dist.distributed_c10d._get_default_group().group_name
        for block, keys in units.items():
            made = []
            for key in keys:
                whole = parameters[key]
                if whole.dim() == 0:
                    raise ValueError(f"{names[key][0]} has no rows to be spread: FSDP2 has no parameters without dimensions")
                made.append(nn.Parameter(whole.new_empty(-(-whole.shape[0] // processes), *whole.shape[1:]), whole.requires_grad))
            self.rows.extend(made)
            kinds = {parameters[key].dtype for key in keys}
            if len(kinds) > 1:
                raise ValueError(f"parameters of {block or 'the model'} have several types, which FSDP2 does not gather together")
            (kind,) = kinds
            self._units.append(([names[key] for key in keys], [parameters[key].shape[0] for key in keys],
                                [row.requires_grad for row in made], bool(block), kind, kind, len(self._units), group))  # fmt: skip

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        whole: dict[str, torch.Tensor] = {}
        at = 0
        for names, *how in self._units:
            whole.update(gathered(names, [self.rows[at + i] for i in range(len(names))], *how))
            at += len(names)
        return torch.func.functional_call(self.model, whole, args, kwargs)


def plan_stage(stage: nn.Module, inputs: tuple[Any, ...], flight: InFlight, options: Options, make_optimizer: MakeOptimizer | None,
               limit: int, link: Link, *, buckets: bool) -> StagePlan:  # fmt: skip
    """The best plan found of a stage on stand-ins. `buckets`: whether DistributedDataParallel holds gradients once more."""
    device = options.device
    assert device is not None
    with absent_device.bytes_of(device):
        parts = [nn.Parameter(torch.empty_like(local(p), device="meta"), p.requires_grad) for p in stage.parameters()]
        trained = [p for p in parts if p.requires_grad]
        held, gradients = _bytes([*parts, *map(local, stage.buffers())]), _bytes(trained)
        state = optimizer_bytes(make_optimizer(list(trained))) if make_optimizer is not None and trained else 0
        needed = held + gradients + state + (gradients if buckets else 0)
        if needed > limit:
            return StagePlan(None, held + state, gradients, 0, why=f"{size(needed)} of parameters, gradients and the optimizer's state")
        given = replace(options, fixed_bytes=options.fixed_bytes + state + (gradients if buckets else 0), in_flight=flight, link=link)
        others = Standins()
        with others.within(stage), others.within(stage.model if isinstance(stage, Sharded) else None):
            traced, whole = joint_graph(stage, others.inputs(inputs), given, None, {}, Phases())
            graph = whole.graph
            fit = fit_in_flight(whole, limit, traced)
        assert traced.stage is not None
        sent = 0 if flight.last else traced.stage.outputs
        if fit is None:
            floor = graph.memory_floor + traced.stage.least_others(traced.stage.outputs)
            why = f"at least {size(floor)} are needed" if floor > limit else "no plan was found; with a larger time_limit there may be one"
            return StagePlan(None, held + state, gradients, sent, why=why)
        forward = sum(op.cost for op in graph.ops if op.kind in ("forward", "loss"))
        cost, total = fit.schedule.simulate(graph).cost, max(1, graph.total_cost)
        least = max(0.0, (fit.claim.bound_for(graph, limit) or total) / total - 1)
        talks = {i for i, op in enumerate(whole.ops) if op.node is not None and collectives.is_sent(op.node)}
        calls = sum(graph.ops[step.index].cost for step in fit.schedule.steps if step.kind == "compute" and step.index in talks)
        return StagePlan(fit.peak_bytes, held + state, gradients, sent, forward / 1e9, (cost - forward) / 1e9, calls / 1e9, cost / total - 1, least)


def output_of(stage: nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor:
    """What the next stage gets, on the meta device."""
    others = Standins()
    with others.within(stage), torch.no_grad():
        given = others.inputs(inputs)
        with others.mode:
            made = stage(*given)
    if not isinstance(made, torch.Tensor):
        raise ValueError(f"a part of a pipeline must return one tensor for the next one, not {type(made).__name__}")
    return torch.empty(made.shape, dtype=made.dtype, device="meta").requires_grad_(made.dtype.is_floating_point)


def signature(part: nn.Module) -> str:
    """What parts have in common that need the same plan: their modules' types, all of their attributes, and shapes. Attributes that are no
    plain values are alike only where they are the same object."""

    def value(v: object) -> object:
        if isinstance(v, (int, float, str, type(None), torch.dtype, torch.device)):
            return repr(v)
        if isinstance(v, torch.Tensor):
            return tuple(v.shape), tuple(local(v).shape), v.dtype, v.requires_grad
        if isinstance(v, (list, tuple)):
            return [value(one) for one in v]
        if isinstance(v, (set, frozenset)):
            return sorted(repr(value(one)) for one in v)
        if isinstance(v, dict):
            return [(key, value(one)) for key, one in v.items()]
        return of(v) if isinstance(v, nn.Module) else id(v)

    def of(module: nn.Module) -> object:
        return type(module).__module__, type(module).__qualname__, id(type(module)), [(key, value(v)) for key, v in sorted(vars(module).items())]

    return repr(of(part))


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return functools.reduce(lambda total, t: total + -(-t.numel() * t.element_size() // 512) * 512, tensors, 0)


__all__ = ["MakeOptimizer", "Sharded", "StagePlan", "imagined", "output_of", "plan_stage", "resized", "signature", "without_data"]
