# SPDX-License-Identifier: Apache-2.0
"""What a call costs on a device that you do not have, by the model of it that the C library has.

Arithmetic is that of matrix products, convolutions and attention; every other call goes by its traffic: each operand once, each
result once. Views cost nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ...errors import UnsupportedError
from ...planning.device import Class, Device, Precision, Work
from ..fx import symbols
from ..rewrite import attention, recurrent
from . import cost

_aten = torch.ops.aten

#: Move what they select.
_PARTIAL = {_aten.embedding, _aten.index, _aten.index_select, _aten.gather, _aten.slice, _aten.select, _aten.nll_loss_forward}

#: Read their operands twice.
_TWO_PASSES = {_aten.native_batch_norm, _aten._native_batch_norm_legit, _aten._native_batch_norm_legit_functional,
               _aten.native_batch_norm_backward, _aten.cudnn_batch_norm, _aten.cudnn_batch_norm_backward}  # fmt: skip

_CONVOLUTIONS = {_aten.convolution: 0, _aten.convolution_backward: 1}  # and where its input is among the arguments

#: With fewer channels a filter there is little to multiply matrices with.
_FEW = 16


def require(module: fx.GraphModule) -> None:
    """UnsupportedError for layers of Dynamo's graph whose bytes and time only a run tells."""
    if any(recurrent.is_call(node) for node in module.graph.nodes):
        raise UnsupportedError("a recurrent layer cannot be planned for a device that you do not have: its bytes and times are measured")


def nanoseconds(node: fx.Node, device: Device) -> tuple[int, int]:
    """Nanoseconds, and no bytes of workspace, which no model knows."""
    return round(device.nanoseconds(work(node))), 0


def work(node: fx.Node) -> Work:
    """What a call of a joint graph asks of a device."""
    outputs = cost._tensors(symbols.concrete(node.meta.get("val")))
    if cost._is_view(node) or not outputs:
        return Work("stream", "float32", 0, 0, 0)
    values = cost._values(node)
    operands = cost._tensors(values)
    packet = getattr(node.target, "overloadpacket", None)
    written = sum(_bytes(t) for t in outputs)
    read = written if packet in _PARTIAL else sum(_bytes(t) for t in operands) * (2 if packet in _TWO_PASSES else 1)
    macs = attention.macs(node, values)
    if macs is None:
        macs = cost.flops(node) / 2 if cost.has_formula(node) else None
    if macs is None:
        return Work("stream", "float32", 0, read + written)
    return Work(_class(node, values[0]), _precision(operands), macs, read + written)


def _bytes(value: torch.Tensor) -> int:
    """What there is of a tensor to move: elements that an expansion repeats are one."""
    return min(value.numel() * value.element_size(), symbols.number(value.untyped_storage().nbytes()))


def _precision(operands: list[torch.Tensor]) -> Precision:
    kind = next((t.dtype for t in operands if t.dtype.is_floating_point or t.dtype.is_complex), torch.float32)
    if kind not in (torch.float32, torch.float16, torch.bfloat16):
        raise UnsupportedError(f"products of {kind} have no model: plans for a device that you do not have are in float32, float16 and bfloat16")
    return "float16" if kind == torch.float16 else "bfloat16" if kind == torch.bfloat16 else "float32"


def _class(node: fx.Node, args: tuple[object, ...]) -> Class:
    """As docs/DEVICES.md has the classes."""
    packet: Any = getattr(node.target, "overloadpacket", None)
    first = _CONVOLUTIONS.get(packet)
    if first is None:
        return "matrix"
    named = dict(zip((a.name for a in node.target._schema.arguments), args, strict=False))  # type: ignore[union-attr]
    inputs, weight = args[first], args[first + 1]
    assert isinstance(inputs, torch.Tensor)
    assert isinstance(weight, torch.Tensor)
    groups, channels = named["groups"], inputs.shape[1]
    assert isinstance(groups, int)
    if groups > 1 and channels // groups < _FEW:
        return "grouped"
    ones = all(set(named[name]) == {1} for name in ("stride", "dilation"))  # type: ignore[call-overload]
    small = ones and tuple(weight.shape[2:]) == (3, 3) and groups == 1 and channels >= _FEW and not named["transposed"]
    return "conv3" if small else "matrix"


__all__ = ["nanoseconds", "require", "work"]
