# SPDX-License-Identifier: Apache-2.0
"""The two calls that sharded parameters need: one gathers a group of them, one reduces their gradients.

Each parameter of a group is spread over the processes by rows. The bytes on the wire are those of FSDP2 (`fully_shard` of
torch.distributed.fsdp): every process sends its rows of all parameters one behind the other, and the gradients of all rows of one process
lie together. So a reduction adds what it adds there, in the same order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import fx

from . import exchange


def _rows(total: int, processes: int) -> int:
    """Of the parts of a tensor but the last ones, which may have less or nothing."""
    return -(-total // processes)


def _numbers(tensor: torch.Tensor) -> int:
    """Of elements in a row."""
    return int(torch.Size(tensor.shape[1:]).numel())


# Schemas are written out: PyTorch 2.6 does not read `list[...]`.
@torch.library.custom_op("checkmate::gather_shards", mutates_args=(), schema=(
    "(Tensor[] shards, SymInt[] rows, bool[] trained, bool again, ScalarType dtype, ScalarType reduce_dtype, SymInt unit, str group)"
    " -> Tensor[]"))  # fmt: skip
def gather_shards(shards: list[torch.Tensor], rows: list[int], trained: list[bool], again: bool, dtype: torch.dtype, reduce_dtype: torch.dtype,
                  unit: int, group: str) -> list[torch.Tensor]:  # fmt: skip
    """Whole parameters of these rows, as `dtype`, from this process' shards and those of the others in the process group of that name.
    `trained`: which of them have gradients, which are reduced as `reduce_dtype`. `again`: whether a plan may call this twice. `unit`: its number."""
    processes = exchange.process_group(group)
    n = processes.size()
    sizes = [_rows(total, n) * _numbers(shard) for shard, total in zip(shards, rows, strict=True)]
    flat = shards[0].new_empty(sum(sizes) * n, dtype=dtype)
    mine = flat.narrow(0, sum(sizes) * processes.rank(), sum(sizes))
    for part, shard in zip(torch.split(mine, sizes), shards, strict=True):
        part[: shard.numel()].copy_(shard.reshape(-1))
        part[shard.numel() :].zero_()
    exchange.gather(flat, mine, processes, unit)
    whole = [flat.new_empty(_rows(total, n) * n, *shard.shape[1:]) for shard, total in zip(shards, rows, strict=True)]
    torch.split_with_sizes_copy(flat.view(n, -1), sizes, dim=1, out=[tensor.view(n, -1) for tensor in whole])
    return [tensor if total == tensor.shape[0] else tensor[:total] for tensor, total in zip(whole, rows, strict=True)]


@gather_shards.register_fake
def _gathered(shards: Any, rows: Any, _trained: Any, _again: bool, dtype: torch.dtype, _reduce_dtype: torch.dtype, _unit: int,
              group: str) -> list[torch.Tensor]:  # fmt: skip
    n = exchange.process_group(group).size()
    return [shard.new_empty(_rows(total, n) * n, *shard.shape[1:], dtype=dtype)[:total] for shard, total in zip(shards, rows, strict=True)]


@torch.library.custom_op("checkmate::reduce_gradients", mutates_args=(), schema=(
    "(Tensor[] gradients, ScalarType dtype, ScalarType reduce_dtype, str group) -> Tensor"))  # fmt: skip
def reduce_gradients(gradients: list[torch.Tensor], dtype: torch.dtype, reduce_dtype: torch.dtype, group: str) -> torch.Tensor:
    """The mean over the processes of this process' rows of all gradients, one behind the other, as `dtype`; computed as `reduce_dtype`."""
    processes = exchange.process_group(group)
    n = processes.size()
    sizes = [_rows(gradient.shape[0], n) * _numbers(gradient) for gradient in gradients]
    flat = gradients[0].new_empty(n, sum(sizes), dtype=reduce_dtype)
    torch._chunk_cat(gradients, 0, n, out=flat)
    flat = flat.view(-1)
    before, after = _divisors(n, reduce_dtype)
    if before != 1:
        flat.div_(before)
    reduced = exchange.mean(flat, processes, divided=before == after == 1)
    if after != 1:
        reduced.div_(after)
    return reduced if dtype == reduce_dtype else reduced.to(dtype)


@reduce_gradients.register_fake
def _reduced(gradients: Any, dtype: torch.dtype, _reduce_dtype: torch.dtype, group: str) -> torch.Tensor:
    n = exchange.process_group(group).size()
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
    shards, ctx.rows, ctx.trained, _again, _dtype, ctx.reduce_dtype, _unit, ctx.group = inputs
    ctx.set_materialize_grads(False)  # a parameter that is not used has no gradient, as with FSDP2
    kinds = [shard.dtype for shard, trained in zip(shards, ctx.trained, strict=True) if trained]
    ctx.dtype, ctx.shapes = (kinds or [shards[0].dtype])[0], [shard.shape for shard in shards]


def _backward(ctx: Any, gradients: Any) -> Any:
    found: list[torch.Tensor | None] = [None] * len(ctx.trained)
    places = [i for i, trained in enumerate(ctx.trained) if trained and gradients[i] is not None]
    if not places:
        return found, None, None, None, None, None, None, None
    reduced = reduce_gradients([gradients[i] for i in places], ctx.dtype, ctx.reduce_dtype, ctx.group)
    n, at = exchange.process_group(ctx.group).size(), 0
    for i in places:
        shape = ctx.shapes[i]
        size = _rows(ctx.rows[i], n) * int(torch.Size(shape[1:]).numel())
        found[i] = reduced.narrow(0, at, shape.numel()).view(shape)
        at += size
    return found, None, None, None, None, None, None, None


gather_shards.register_autograd(_backward, setup_context=_remember)

GATHER, REDUCE = torch.ops.checkmate.gather_shards.default, torch.ops.checkmate.reduce_gradients.default

_TRAINED, _AGAIN = 2, 3  # operands of GATHER


def may_repeat(node: fx.Node) -> bool:
    """Whether a plan may make this call that gathers more than once."""
    return bool(node.args[_AGAIN])


def repeated_by_fsdp(node: fx.Node) -> bool:
    """Whether FSDP2 gathers the unit of this call again for the backward pass, which it does where results of the unit may have gradients."""
    readers = [user for element in node.users for user in element.users]
    return may_repeat(node) and (any(node.args[_TRAINED]) or any(reader.meta.get("partitioner_tag") == "is_backward" for reader in readers))  # type: ignore[arg-type]


def processes_of(node: fx.Node) -> int:
    """How many a call that gathers or reduces is between."""
    return int(exchange.process_group(str(node.args[-1])).size())


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
    return {rank for group in groups for rank in dist.get_process_group_ranks(exchange.process_group(group))}


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
