# SPDX-License-Identifier: Apache-2.0
"""The two calls that sharded parameters need: one gathers a group of them, one reduces their gradients.

Each parameter of a group is spread over the processes by rows. The bytes on the wire are those of FSDP2 (`fully_shard` of
torch.distributed.fsdp): every process sends its rows of all parameters one behind the other, and the gradients of all rows of one process
lie together. So a reduction adds what it adds there, in the same order.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import fx

#: Seconds that another thread may take to let go of a tensor.
_PATIENCE = 1.0


def _rows(total: int, processes: int) -> int:
    """Of the parts of a tensor but the last ones, which may have less or nothing."""
    return -(-total // processes)


def _numbers(tensor: torch.Tensor) -> int:
    """Of elements in a row."""
    return int(torch.Size(tensor.shape[1:]).numel())


def _process_group(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)  # type: ignore[attr-defined, arg-type]


def _call(name: str, older: str) -> Any:
    """Of torch.distributed, by its name since PyTorch 2.13 or the one before."""
    return getattr(dist, name, None) or getattr(dist, older)


def _gather(flat: torch.Tensor, mine: torch.Tensor, processes: Any) -> None:
    """Fills `flat`, of which `mine` is a part. gloo's own call copies all of it, and lets go of the copy some time later; messages do not."""
    n = processes.size()
    if n > 1 and flat.device.type != "cpu":
        _call("all_gather_single", "all_gather_into_tensor")(flat, mine, group=processes)
        return
    with _let_go(flat):
        _exchange(flat.view(n, -1), mine.view(-1), processes)


def _exchange(parts: torch.Tensor, mine: torch.Tensor, processes: Any) -> None:
    """Sends `mine` to all others, and gets their parts."""
    n, rank = processes.size(), processes.rank()
    works = []
    for distance in range(1, n):
        to, source = (rank + distance) % n, (rank - distance) % n
        works.append(dist.isend(mine, group=processes, group_dst=to))
        works.append(dist.irecv(parts[source], group=processes, group_src=source))
    for work in works:
        if work is not None:
            work.wait()


def _mean(flat: torch.Tensor, processes: Any, *, whole: bool) -> torch.Tensor:
    """This process' part of the mean, or if not `whole` of the sum. On the CPU `flat` is written over, which is what gloo does with a copy."""
    n = processes.size()
    if flat.device.type != "cpu":
        reduced = flat.new_empty(flat.numel() // n)
        if n == 1:
            return reduced.copy_(flat)
        _call("reduce_scatter_single", "reduce_scatter_tensor")(reduced, flat, op=dist.ReduceOp.AVG if whole else dist.ReduceOp.SUM, group=processes)
        return reduced
    if n > 1:
        with _let_go(flat):
            dist.all_reduce(flat.view(-1), group=processes)
    reduced = flat.view(n, -1)[processes.rank()].clone()
    return reduced.div_(n) if whole and n > 1 else reduced


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


@torch.library.custom_op("checkmate::gather_shards", mutates_args=())
def gather_shards(shards: list[torch.Tensor], rows: list[int], trained: list[bool], again: bool, dtype: torch.dtype, reduce_dtype: torch.dtype,
                  group: str) -> list[torch.Tensor]:  # fmt: skip
    """Whole parameters of these rows, as `dtype`, from this process' shards and those of the others in the process group of that name.
    `trained`: which of them have gradients, which are reduced as `reduce_dtype`. `again`: whether a plan may call this twice."""
    processes = _process_group(group)
    n = processes.size()
    sizes = [_rows(total, n) * _numbers(shard) for shard, total in zip(shards, rows, strict=True)]
    flat = shards[0].new_empty(sum(sizes) * n, dtype=dtype)
    mine = flat.narrow(0, sum(sizes) * processes.rank(), sum(sizes))
    for part, shard in zip(torch.split(mine, sizes), shards, strict=True):
        part[: shard.numel()].copy_(shard.reshape(-1))
        part[shard.numel() :].zero_()
    _gather(flat, mine, processes)
    whole = [flat.new_empty(_rows(total, n) * n, *shard.shape[1:]) for shard, total in zip(shards, rows, strict=True)]
    torch.split_with_sizes_copy(flat.view(n, -1), sizes, dim=1, out=[tensor.view(n, -1) for tensor in whole])
    return [tensor if total == tensor.shape[0] else tensor[:total] for tensor, total in zip(whole, rows, strict=True)]


@gather_shards.register_fake
def _gathered(shards: Any, rows: Any, _trained: Any, _again: bool, dtype: torch.dtype, _reduce_dtype: torch.dtype, group: str) -> list[torch.Tensor]:
    n = _process_group(group).size()
    return [shard.new_empty(_rows(total, n) * n, *shard.shape[1:], dtype=dtype)[:total] for shard, total in zip(shards, rows, strict=True)]


@torch.library.custom_op("checkmate::reduce_gradients", mutates_args=())
def reduce_gradients(gradients: list[torch.Tensor], dtype: torch.dtype, reduce_dtype: torch.dtype, group: str) -> torch.Tensor:
    """The mean over the processes of this process' rows of all gradients, one behind the other, as `dtype`; computed as `reduce_dtype`."""
    processes = _process_group(group)
    n = processes.size()
    sizes = [_rows(gradient.shape[0], n) * _numbers(gradient) for gradient in gradients]
    flat = gradients[0].new_empty(n, sum(sizes), dtype=reduce_dtype)
    torch._chunk_cat(gradients, 0, n, out=flat)
    flat = flat.view(-1)
    before, after = _divisors(n, reduce_dtype)
    if before != 1:
        flat.div_(before)
    reduced = _mean(flat, processes, whole=before == after == 1)
    if after != 1:
        reduced.div_(after)
    return reduced if dtype == reduce_dtype else reduced.to(dtype)


@reduce_gradients.register_fake
def _reduced(gradients: Any, dtype: torch.dtype, _reduce_dtype: torch.dtype, group: str) -> torch.Tensor:
    n = _process_group(group).size()
    return gradients[0].new_empty(sum(_rows(gradient.shape[0], n) * _numbers(gradient) for gradient in gradients), dtype=dtype)  # type: ignore[no-any-return]


def _divisors(n: int, dtype: torch.dtype) -> tuple[float, float]:
    """What sums are divided by before and after: in half precision, which overflows, by about the root of the number each time; in types
    that do not, by none, since the reduction gives means."""
    if dtype in (torch.float32, torch.bfloat16):
        return 1.0, 1.0
    before = 1
    while n % before == 0 and n / before > before:
        before *= 2
    return float(before), n / before


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    shards, ctx.rows, ctx.trained, _again, _dtype, ctx.reduce_dtype, ctx.group = inputs
    ctx.dtype, ctx.shapes = shards[0].dtype, [shard.shape for shard in shards]


def _backward(ctx: Any, gradients: Any) -> Any:
    found: list[torch.Tensor | None] = [None] * len(ctx.trained)
    places = [i for i, trained in enumerate(ctx.trained) if trained and gradients[i] is not None]
    reduced = reduce_gradients([gradients[i] for i in places], ctx.dtype, ctx.reduce_dtype, ctx.group)
    n, at = _process_group(ctx.group).size(), 0
    for i in places:
        shape = ctx.shapes[i]
        size = _rows(ctx.rows[i], n) * int(torch.Size(shape[1:]).numel())
        found[i] = reduced.narrow(0, at, shape.numel()).view(shape)
        at += size
    return found, None, None, None, None, None, None


gather_shards.register_autograd(_backward, setup_context=_remember)

GATHER, REDUCE = torch.ops.checkmate.gather_shards.default, torch.ops.checkmate.reduce_gradients.default

_AGAIN = 3  # the operand of GATHER


def may_repeat(node: fx.Node) -> bool:
    """Whether a plan may make this call that gathers more than once."""
    return bool(node.args[_AGAIN])


def processes_of(node: fx.Node) -> int:
    """How many a call that gathers or reduces is between."""
    return int(_process_group(str(node.args[-1])).size())


def shard_bytes(node: fx.Node) -> int | None:
    """What a process holds of a parameter, if the node is one that a call gathers: every process has room for as many rows."""
    for operand in (node, *(user for user in node.users if user.target is torch.ops.aten.view.default)):
        for user in operand.users:
            if user.target is GATHER:
                spread, rows, value = list(user.args[0]), list(user.args[1]), operand.meta["val"]  # type: ignore[arg-type]
                return _rows(rows[spread.index(operand)], processes_of(user)) * _numbers(value) * int(value.element_size())
    return None


def ranks_of(module: fx.GraphModule) -> set[int]:
    """The processes between which a graph gathers: they need the same plan, since it says how often they do."""
    groups = {str(node.args[-1]) for node in module.graph.nodes if node.target is GATHER}
    return {rank for group in groups for rank in dist.get_process_group_ranks(_process_group(group))}


def place(module: fx.GraphModule) -> None:
    """Puts calls that gather right before what first reads their outputs, and calls that reduce right behind the last of their operands:
    they are traced where parameters enter the model, all before its first call and all behind the last one of the backward pass. O(nodes)."""
    graph = module.graph
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    for node in nodes:
        if node.target is GATHER:
            elements = sorted(node.users, key=position.__getitem__)
            readers = [user for element in elements for user in element.users]
            if readers:
                first = min(readers, key=position.__getitem__)
                for moved in (node, *elements):
                    first.prepend(moved)
        elif node.target is REDUCE:
            max(node.all_input_nodes, key=position.__getitem__).append(node)
