# SPDX-License-Identifier: Apache-2.0
"""Replay of random calls: the generator's state is noted before the first, set for every further one and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .devices import on_cuda

_CPU_STATE_BYTES = 5056
_CUDA_STATE_BYTES = 16


def _device(node: fx.Node) -> torch.device:
    value = node.meta["val"]
    first = next(v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor))
    return first.device


def state_bytes(node: fx.Node) -> int:
    """Bytes of the generator's state that a random call draws from."""
    return _CUDA_STATE_BYTES if on_cuda(_device(node)) else _CPU_STATE_BYTES


def get_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_state(state: torch.Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def with_state(state: torch.Tensor, device: torch.device, target: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    now = get_state(device)
    set_state(state, device)
    try:
        return target(*args, **kwargs)
    finally:
        set_state(now, device)


def capture(graph: fx.Graph, node: fx.Node) -> fx.Node:
    device = _device(node)
    state = graph.call_function(get_state, (device,))
    mode = node.meta["val"].fake_mode if hasattr(node.meta["val"], "fake_mode") else _fake_mode(node)
    with mode:
        state.meta["val"] = torch.empty(state_bytes(node), dtype=torch.uint8)
    return state


def _fake_mode(node: fx.Node) -> Any:
    return next(v.fake_mode for v in node.meta["val"] if hasattr(v, "fake_mode"))


def replay(graph: fx.Graph, node: fx.Node, state: fx.Node, value: Callable[[fx.Node], fx.Node]) -> fx.Node:
    args = fx.map_arg(node.args, value)
    kwargs = fx.map_arg(node.kwargs, value)
    new = graph.call_function(with_state, (state, _device(node), node.target, *args), kwargs)  # type: ignore[arg-type]
    new.meta = dict(node.meta)
    return new
