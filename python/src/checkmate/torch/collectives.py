# SPDX-License-Identifier: Apache-2.0
"""What calls that talk to the other processes of a job cost: by the bytes on the wire, since one process cannot measure them alone."""

from __future__ import annotations

from torch import fx

from . import devices, exchange, joint, shards, symbols

#: Bytes per second between processes, and seconds to start a call: gloo between processes of one machine, NVLink between GPUs. Only the
#: ratio to other calls matters, for whether parameters are gathered twice.
_LINKS = {"cpu": (1e9, 2e-4), "cuda": (1e11, 3e-5)}

_SENT = (shards.GATHER, shards.REDUCE, exchange.ALL_REDUCE, exchange.ALL_GATHER, exchange.REDUCE_SCATTER)


def cost(node: fx.Node) -> tuple[int, int] | None:
    """Nanoseconds, and the bytes beside operands and outputs, of a call that gathers or reduces; None for other calls."""
    if node.target not in _SENT:
        return None
    made = [value for value in joint.tensors(node.meta.get("val")) if value is not None]
    device = made[0].device
    whole, beside = sum(joint.storage_bytes(value) for value in made), 0
    if node.target is shards.GATHER:
        beside = whole  # what came in, beside the parameters that it is spread to
    elif node.target is shards.REDUCE:
        _gradients, dtype, reduce_dtype, _group = node.args
        part = symbols.number(made[0].numel()) * reduce_dtype.itemsize  # type: ignore[union-attr]
        whole = part * shards.processes_of(node)
        beside = whole + (0 if dtype == reduce_dtype else part)
    elif node.target is exchange.REDUCE_SCATTER:
        whole = beside = whole * int(node.args[2])  # type: ignore[arg-type]
    bandwidth, start = _LINKS.get(device.type, _LINKS["cuda"])
    return int((whole / bandwidth + start) * 1e9), devices.allocated(beside, device)
