# SPDX-License-Identifier: Apache-2.0
"""Calls between the processes of a job that take memory for as long as a plan says.

gloo, which is behind torch.distributed on CPUs, copies what it gathers and scatters, and its threads let go of tensors some time after a call
is over. What a plan says of a step's peak would not hold. So on CPUs processes gather by messages, which copy nothing, add up in place, and
wait until nothing else holds a tensor. Elsewhere PyTorch's own calls are made. Results are the same: gloo, too, scatters a sum by adding up
all of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import fx

#: How many calls of models with sharded parameters there were in this process. All processes make the same ones, in the same order, so that
#: messages and meetings of one call never meet those of another.
calls = 0

_UNITS = 4096

#: Seconds that another thread may take to let go of a tensor.
_PATIENCE = 1.0


def process_group(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)  # type: ignore[attr-defined, arg-type]


def _call(name: str, older: str) -> Any:
    """Of torch.distributed, by its name since PyTorch 2.13 or the one before."""
    return getattr(dist, name, None) or getattr(dist, older)


def gather(flat: torch.Tensor, mine: torch.Tensor, processes: Any, unit: int = 0) -> None:
    """Fills `flat`, of which `mine` is a part. gloo's own call copies all of it, and lets go of the copy some time later; messages do not.
    `unit`: messages of one unit of a call are none of another's."""
    n = processes.size()
    if n > 1 and flat.device.type != "cpu":
        _call("all_gather_single", "all_gather_into_tensor")(flat, mine, group=processes)
        return
    with _let_go(flat):
        _exchange(flat.view(n, -1), mine.view(-1), processes, (calls * _UNITS + unit % _UNITS) % 2**31)


def _exchange(parts: torch.Tensor, mine: torch.Tensor, processes: Any, tag: int) -> None:
    """Sends `mine` to all others, and gets their parts."""
    n, rank = processes.size(), processes.rank()
    works = []
    for distance in range(1, n):
        to, source = (rank + distance) % n, (rank - distance) % n
        works.append(dist.isend(mine, group=processes, tag=tag, group_dst=to))
        works.append(dist.irecv(parts[source], group=processes, tag=tag, group_src=source))
    for work in works:
        if work is not None:
            work.wait()


def mean(flat: torch.Tensor, processes: Any, *, divided: bool) -> torch.Tensor:
    """This process' part of the mean, or if not `divided` of the sum. On the CPU `flat` is written over, which is what gloo does with a copy."""
    n = processes.size()
    if flat.device.type != "cpu":
        reduced = flat.new_empty(flat.numel() // n)
        if n == 1:
            return reduced.copy_(flat)
        _call("reduce_scatter_single", "reduce_scatter_tensor")(
            reduced, flat, op=dist.ReduceOp.AVG if divided else dist.ReduceOp.SUM, group=processes
        )
        return reduced
    if n > 1:
        _reduce(flat, dist.ReduceOp.SUM, processes)
    reduced = flat.view(n, -1)[processes.rank()].clone()
    return reduced.div_(n) if divided and n > 1 else reduced


@contextlib.contextmanager
def _let_go(tensor: torch.Tensor) -> Iterator[None]:
    """For calls with views of a tensor. Waits behind them until its memory has no more holders than before: gloo's thread is one for a moment
    after it has said that it is done."""
    storage = tensor.untyped_storage()
    before = torch._C._storage_Use_Count(storage._cdata)
    yield
    until = time.monotonic() + _PATIENCE
    while torch._C._storage_Use_Count(storage._cdata) > before and time.monotonic() < until:
        time.sleep(0)


def _reduce(tensor: torch.Tensor, how: Any, processes: Any) -> None:
    """In place, in all processes."""
    with _let_go(tensor):
        dist.all_reduce(tensor.view(-1), op=how, group=processes)


#: Names that torch.distributed's functions have for reductions. Means are sums that are divided.
_NAMES = {"sum": "SUM", "avg": "SUM", "max": "MAX", "min": "MIN", "product": "PRODUCT"}


def _how(name: str) -> Any:
    return getattr(dist.ReduceOp, _NAMES[name])


@torch.library.custom_op("checkmate::all_reduce", mutates_args=())
def all_reduce(tensor: torch.Tensor, how: str, group: str) -> torch.Tensor:
    """As `_c10d_functional::all_reduce` and a wait for it, on the CPU."""
    processes = process_group(group)
    reduced = tensor.clone(memory_format=torch.contiguous_format)
    _reduce(reduced, _how(how), processes)
    return reduced.div_(processes.size()) if how == "avg" else reduced


@torch.library.custom_op("checkmate::all_gather", mutates_args=())
def all_gather(tensor: torch.Tensor, processes: int, group: str) -> torch.Tensor:
    """As `_c10d_functional::all_gather_into_tensor` and a wait for it, on the CPU."""
    whole = tensor.new_empty(processes * tensor.shape[0], *tensor.shape[1:])
    ranks = process_group(group)
    mine = whole.view(processes, -1)[ranks.rank()]
    mine.copy_(tensor.reshape(-1))
    gather(whole.view(-1), mine, ranks)
    return whole


@torch.library.custom_op("checkmate::reduce_scatter", mutates_args=())
def reduce_scatter(tensor: torch.Tensor, how: str, processes: int, group: str) -> torch.Tensor:
    """As `_c10d_functional::reduce_scatter_tensor` and a wait for it, on the CPU."""
    ranks = process_group(group)
    whole = tensor.clone(memory_format=torch.contiguous_format)
    _reduce(whole, _how(how), ranks)
    reduced = whole.view(processes, -1)[ranks.rank()].clone()
    if how == "avg":
        reduced.div_(processes)
    return reduced.view(tensor.shape[0] // processes, *tensor.shape[1:])


@all_reduce.register_fake
def _reduced(tensor: torch.Tensor, _how: str, _group: str) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


@all_gather.register_fake
def _gathered(tensor: torch.Tensor, processes: int, _group: str) -> torch.Tensor:
    return tensor.new_empty(processes * tensor.shape[0], *tensor.shape[1:])


@reduce_scatter.register_fake
def _scattered(tensor: torch.Tensor, _how: str, processes: int, _group: str) -> torch.Tensor:
    return tensor.new_empty(tensor.shape[0] // processes, *tensor.shape[1:])


_ours = torch.ops.checkmate
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = _ours.all_reduce.default, _ours.all_gather.default, _ours.reduce_scatter.default

#: What takes the place of torch.distributed's functions in a graph for the CPU, and where the name of a reduction is among the operands.
_INSTEAD: dict[Any, tuple[Any, int | None]] = {}
if dist.is_available():
    _functional = torch.ops._c10d_functional
    _INSTEAD = {_functional.all_reduce.default: (ALL_REDUCE, 1), _functional.all_gather_into_tensor.default: (ALL_GATHER, None),
                _functional.reduce_scatter_tensor.default: (REDUCE_SCATTER, 1)}  # fmt: skip


def synchronous(module: fx.GraphModule) -> None:
    """Replaces the functions of torch.distributed in a graph, whose results are waited for, on the CPU. O(nodes)."""
    for node in list(module.graph.nodes):
        instead, how = _INSTEAD.get(node.target, (None, None))
        value = node.meta.get("val")
        if instead is None or not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.is_complex():
            continue
        if how is not None and node.args[how] not in _NAMES:
            continue
        node.target = instead
        for wait in [user for user in node.users if user.target is torch.ops._c10d_functional.wait_tensor.default]:
            node.meta["val"] = wait.meta["val"]  # views know it by its storage
            wait.replace_all_uses_with(node)
            module.graph.erase_node(wait)
