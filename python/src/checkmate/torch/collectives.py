# SPDX-License-Identifier: Apache-2.0
"""What calls that talk to the other processes of a job cost: by the bytes on the wire, since one process cannot measure them alone."""

from __future__ import annotations

import torch
from torch import fx

from . import devices, joint, shards, symbols

#: Bytes per second between processes, and seconds to start a call: gloo between processes of one machine, NVLink between GPUs. Only the
#: ratio to other calls matters, for whether parameters are gathered twice.
_LINKS = {"cpu": (1e9, 2e-4), "cuda": (1e11, 3e-5)}

_functional = torch.ops._c10d_functional
_SENT = (shards.GATHER, shards.REDUCE, _functional.all_gather_into_tensor.default, _functional.reduce_scatter_tensor.default)


def cost(node: fx.Node) -> tuple[int, int] | None:
    """Nanoseconds, and the bytes beside operands and outputs, of a call that gathers or reduces; None for other calls."""
    if node.target not in _SENT:
        return None
    made = [value for value in joint.tensors(node.meta.get("val")) if value is not None]
    device = made[0].device
    beside = sum(joint.storage_bytes(value) for value in made)
    if node.target is shards.REDUCE:
        _gradients, dtype, reduce_dtype, _group = node.args
        whole = symbols.number(made[0].numel()) * reduce_dtype.itemsize * shards.processes_of(node)  # type: ignore[arg-type, union-attr]
        beside = whole + (0 if dtype == reduce_dtype else symbols.number(made[0].numel()) * reduce_dtype.itemsize)  # type: ignore[union-attr]
    elif node.target is shards.GATHER:
        whole = beside  # what came in, beside the parameters that it is spread to
    else:
        whole = max([beside, *(joint.storage_bytes(parent.meta["val"]) for parent in node.all_input_nodes)])
        beside = 0
    if device.type == "cpu" and node.target not in (shards.GATHER, shards.REDUCE):
        beside += whole  # gloo's copy
    bandwidth, start = _LINKS.get(device.type, _LINKS["cuda"])
    return int((whole / bandwidth + start) * 1e9), devices.allocated(beside, device)
