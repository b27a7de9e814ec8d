# SPDX-License-Identifier: Apache-2.0
"""What the libraries behind CUDA's kernels take in addition to the tensors of a step.

cuBLAS has a workspace for each thread and stream, which PyTorch's allocator hands out at the first product and which stays:
it is part of every step's peak. Autograd's backward pass is another thread. cuDNN may be told to try its algorithms
(`torch.backends.cudnn.benchmark`), with workspace that no plan can know, and to choose by time: no two trials need agree, so a
convolution that is computed again might give other bits.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...errors import UnsupportedError
from . import meter

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm"}
_CONVOLUTIONS = {"convolution", "convolution_backward", "cudnn_convolution"}


def _named(nodes: list[fx.Node], names: set[str]) -> list[fx.Node]:
    return [node for node in nodes if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name.removeprefix("aten::") in names]


def check(nodes: list[fx.Node], device: torch.device) -> None:
    """UnsupportedError for settings under which a call computed again may differ or take what is not planned."""
    if device.type == "cuda" and torch.backends.cudnn.benchmark and _named(nodes, _CONVOLUTIONS):
        raise UnsupportedError(
            "torch.backends.cudnn.benchmark is on: cuDNN then tries algorithms with workspace that no plan knows of, and may compute a "
            "convolution again by another one. Set torch.backends.cudnn.benchmark = False"
        )


def kept_bytes(nodes: list[fx.Node], device: torch.device) -> int:
    """Bytes that stay allocated between calls once products of these types have run, forward and backward."""
    products = _named(nodes, _PRODUCTS) if device.type == "cuda" else []
    if not products:
        return 0
    types = dict.fromkeys(value.dtype for node in products if isinstance(value := node.meta.get("val"), torch.Tensor))
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # of an earlier step: they are made anew
    if clear is not None:
        clear()

    def products_of_all() -> None:
        for kind in types:
            _product(kind, device)

    with unset_fake_temporarily():
        return meter.left(products_of_all, device)


def _product(kind: torch.dtype, device: torch.device) -> None:
    """Products with and without a bias, which are functions of two libraries, and their gradients."""
    if not kind.is_floating_point or kind.itemsize < 2:
        return  # of 8 bits: their scales and layouts differ, the library is the same
    weight, bias = (torch.ones(shape, dtype=kind, device=device, requires_grad=True) for shape in ((16, 16), (16,)))
    with torch.enable_grad():
        result = torch.bmm(torch.addmm(bias, weight, weight)[None], weight[None])
    torch.autograd.grad(result.sum(), [weight, bias])
