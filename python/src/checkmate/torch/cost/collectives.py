# SPDX-License-Identifier: Apache-2.0
"""What calls that talk to the other processes of a job cost: by the bytes on the wire, since one process cannot measure them alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import fx

from ..distributed import exchange, shards
from ..fx import dataflow, devices, symbols


class Link(NamedTuple):
    """What a process sends and receives with."""

    bytes_per_s: float
    start_s: float  # of each call

    def seconds(self, size: float, calls: int = 1) -> float:
        return size / self.bytes_per_s + calls * self.start_s


#: gloo between processes of one machine, NVLink between GPUs. Only the ratio to other calls matters, for whether parameters are gathered
#: twice.
_LINKS = {"cpu": Link(1e9, 2e-4), "cuda": Link(1e11, 3e-5)}

_SENT = (shards.GATHER, shards.REDUCE, exchange.ALL_REDUCE, exchange.ALL_GATHER, exchange.REDUCE_SCATTER)


def on_ring(size: float, processes: int, *, reduced_and_gathered: bool = False) -> float:
    """The bytes that each process of a ring sends, of a tensor of this size that is gathered, or reduced and scattered, or both.
    Source: Patarasuk and Yuan 2009, section 3."""
    return size * (processes - 1) / processes * (2 if reduced_and_gathered else 1)


def is_sent(node: fx.Node) -> bool:
    """Whether a call talks to other processes."""
    return node.target in _SENT


def between(module: fx.GraphModule) -> dict[tuple[int, ...], list[str]]:
    """The calls of a graph among the same processes, by their ranks, in order: what each is of. Without those of FSDP2, whose processes compare
    whole graphs. O(nodes)."""
    found: dict[tuple[int, ...], list[str]] = {}
    for node in module.graph.nodes:
        functional = str(getattr(node.target, "namespace", "")) == "_c10d_functional" and "wait" not in str(node.target)
        if node.target in (shards.GATHER, shards.REDUCE) or not (functional or is_sent(node)) or not isinstance(node.args[-1], str):
            continue
        ranks = tuple(sorted(dist.get_process_group_ranks(exchange.process_group(node.args[-1]))))
        what = str(node.target.__name__).partition(".")[0]
        values = [] if "all_to_all" in what else [node.args[0].meta.get("val")]  # to which each may bring what it likes
        shapes = [[size if isinstance(size, int) else "?" for size in value.shape] for value in values if isinstance(value, torch.Tensor)]
        found.setdefault(ranks, []).append(" ".join([what, *map(str, shapes)]))
    return found


def cost(node: fx.Node, link: Link | None = None) -> tuple[int, int] | None:
    """Nanoseconds, and the bytes in addition to operands and outputs, of a call that gathers or reduces; None for other calls. Over a `link`, as on a
    ring of the processes; without, as if all bytes were sent between the devices that are here."""
    if not is_sent(node):
        return None
    made = [value for value in dataflow.tensors(node.meta.get("val")) if value is not None]
    device = made[0].device
    whole, extra = sum(dataflow.storage_bytes(value) for value in made), 0
    if node.target is shards.GATHER:
        extra = whole  # what came in, in addition to the parameters that it is spread to
    elif node.target is shards.REDUCE:
        _gradients, dtype, reduce_dtype, _group = node.args
        part = symbols.number(made[0].numel()) * reduce_dtype.itemsize  # type: ignore[union-attr]
        whole = part * shards.processes_of(node)
        extra = whole + (0 if dtype == reduce_dtype else part)
    elif node.target is exchange.REDUCE_SCATTER:
        whole = extra = whole * int(node.args[2])  # type: ignore[arg-type]
    if link is None:
        seconds = _LINKS.get(device.type, _LINKS["cuda"]).seconds(whole)
    else:
        seconds = link.seconds(on_ring(whole, shards.processes_of(node), reduced_and_gathered=node.target is exchange.ALL_REDUCE))
    return int(seconds * 1e9), devices.allocated(extra, device)
