# SPDX-License-Identifier: Apache-2.0
"""Inductor as the compiler of the forward and the backward graph of a schedule.

Inductor makes its own order of kernels, fuses calls and computes small ones where they are read. A value may so be held
longer than the schedule says, or never be made at all: the peak is no longer the planned one. python/README.md has by how
much, measured. Its reordering for peak memory stays on: it keeps the order it is given unless it finds a better one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

try:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn
except ImportError as _error:
    raise ImportError(f'compiler="inductor" needs PyTorch 2.8 or newer; this is {torch.__version__}') from _error

Partition = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]

_SETTINGS = {"fallback_random": True}  # random numbers are those of eager mode


class _Partitioner(CustomPartitionerFn):  # type: ignore[misc]
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def __call__(self, gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        return self.partition(gm, joint_inputs, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("checkmate",)  # caches of generated code are keyed by the graphs that are made here, too

    def uuid(self) -> str:
        return "checkmate"


def compile_graph(module: fx.GraphModule, inputs: list[Any], partition: Partition) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    settings = {"custom_partitioner_fn": _Partitioner(partition)} | _SETTINGS
    # The cache of whole compilations knows nothing of budgets and would leave the partition function out.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        made: Any = compile_fx(module, inputs, config_patches=settings)
    return made
