# SPDX-License-Identifier: Apache-2.0
"""A training step on a device that you do not have: traced on stand-ins, and reported with what is modelled and what is not known."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch

from ...graph import Graph
from ...planning import device as models
from ...planning.device import Device
from ...planning.frontier import seconds, size
from ...schedule import Way
from ...solver import Solution
from ..fx.devices import AS_ON_CUDA
from ..options import Settings
from ..rewrite.attention import Kernel


def find(name: str, settings: Settings) -> Device:
    """The device. ValueError for one that is not known, and for options that need one that is there."""
    device = models.find(name)
    if settings.get("costs", "estimate") != "estimate":
        raise ValueError(f'costs="measure" runs the model\'s calls, and device="{device.name}" is not here to run them: leave costs out')
    if settings.get("compiler", "eager") != "eager":
        raise ValueError(
            f'device="{device.name}" has models of the kernels that PyTorch calls, not of those that inductor generates: leave compiler out'
        )
    if settings.get("counts", "allocated") != "allocated":
        raise ValueError(f'counts="reserved" follows the settings of the allocator that is here, and device="{device.name}" is not: leave counts out')
    if settings.get("dynamic", False) is not False:
        raise ValueError(f'what is planned for device="{device.name}" is for the sizes of the inputs: leave dynamic out')
    if settings.get("offload") is not None:
        raise ValueError(f'offload= is for the machine that is here, and device="{device.name}" is not: leave offload out')
    if torch.is_autocast_enabled("cuda"):
        raise ValueError(f'what is planned for device="{device.name}" is traced on the CPU, where torch.autocast("cuda") does nothing: call explain '
                         'under torch.autocast("cpu", ...) of the same type')  # fmt: skip
    return device


@contextlib.contextmanager
def bytes_of(device: Device | None) -> Iterator[None]:
    """While this lasts bytes are counted as that device's allocator counts them."""
    token = AS_ON_CUDA.set(AS_ON_CUDA.get() or (device is not None and device.is_gpu))
    try:
        yield
    finally:
        AS_ON_CUDA.reset(token)


def fits(device: Device, graph: Graph, ways: Sequence[Way], chosen: Solution | None, solutions: Sequence[Solution]) -> list[str]:
    """What of the step fits into the device's memory. The first of the `ways` keeps everything."""
    whole = ways[0].peak_bytes
    found = [s for s in [*solutions, *([chosen] if chosen is not None else [])] if s.schedule is not None]
    least = min([*(s.peak_bytes or 0 for s in found), *(way.peak_bytes for way in ways)])
    if not device.is_gpu:
        return []
    memory = device.memory_bytes
    lines = ["", f"what fits into the {size(memory)} of {device.name}, {device.what}:"]

    def verdict(peak: int) -> str:
        return f"fits, {size(memory - peak)} to spare" if peak <= memory else f"does not fit, {size(peak - memory)} too much"

    lines.append(f"  keeping everything, {size(whole)}: {verdict(whole)}")
    within = [s for s in found if (s.peak_bytes or 0) <= memory]
    best = min(within, key=lambda s: s.cost or 0, default=None)
    if best is not None and whole > memory:
        peak, time, more = best.peak_bytes or 0, seconds(best.cost or 0), 100 * (best.overhead or 0.0)
        lines.append(f"  a plan of {size(peak)}: {verdict(peak)}, {time} a step, {more:.1f}% more computation")
    lines.append(f"  the least of the plans above, {size(least)}: {verdict(least)}")
    if graph.memory_floor > memory:
        lines.append(f"  {size(graph.memory_floor)} are needed whatever is computed again")
    return lines


def carried(device: Device, whole: Way) -> list[str]:
    """What the link to the host's memory can carry in a step that keeps everything, and what there is at its peak."""
    link = device.link
    if link is None:
        return []
    out, back = (int(rate * whole.cost / 1e9) for rate in (link.out_bytes_per_s, link.in_bytes_per_s))
    return [
        "",
        f"what the link of {device.name} to the host can carry, {link.what}: {size(link.out_bytes_per_s)} a second out, "
        f"{size(link.in_bytes_per_s)} back",
        f"  in the {seconds(whole.cost)} that a step computes: {size(out)} out and, at the same time, {size(back)} back; "
        f"{size(whole.peak_bytes)} are in memory at its peak",
    ]


def modelled(device: Device, attention: Iterable[Kernel], *, optimizer: bool) -> list[str]:
    """What the figures are made of."""
    rates = [f"products in float32{' as TF32' if device.has_tf32 else ''} at {_rate(device.efficiency['matrix'], device.matrix_rate)}"]
    halves = [kind for kind, rate in device.half_rates.items() if rate > 0]
    if halves:
        rates.append(f"in {' and '.join(halves)} at {_rate(device.half_efficiency, device.half_rates[halves[0]])}")
    rates.append(f"memory at {100 * device.efficiency['stream']:.0f}% of {device.bytes_per_s / 1e9:,.0f} GB/s")
    lines = [
        "",
        "nothing was measured; this is modelled:",
        f"  time: for each call the longer of its arithmetic and its traffic on {device.name}: {', '.join(rates)}; views take none.",
        "        Forward and backward pass only: not the optimizer's update, nor what Python takes where it is slower than the device",
    ]
    if halves and device.source:
        lines.append(f"        Efficiency in half precision: {device.source}")
    if device.is_gpu:
        lines.append("  bytes: those of the tensors, each rounded up to 512 as PyTorch's allocator does on CUDA")
        lines.append("        Not known and not in it: workspaces of cuBLAS and cuDNN, CUDA's context (some hundred MB), fragmentation. The device's")
        lines.append(f"        memory is given as {size(device.memory_bytes)}, which is less than it has, to leave room for them")
    else:
        lines.append("  bytes: those of the tensors; workspaces of kernels are not known and not in it")
    if optimizer:
        lines.append("        The optimizer's state is in it, as after its first step")
    lines.append("  calls: as PyTorch traces them on the CPU" + _attention(attention))
    return lines


def _rate(efficiency: float, macs_per_s: float) -> str:
    return f"{100 * efficiency:.0f}% of {2 * macs_per_s / 1e12:,.4g} TFLOP/s"


_KERNELS = {"flash": "flash attention", "efficient": "memory-efficient attention", "math": "taken apart, since no kernel takes such operands"}


def _attention(chosen: Iterable[Kernel]) -> str:
    named = [f"{_KERNELS[which]} ({count} call{'' if count == 1 else 's'})" for which, count in sorted(Counter(chosen).items())]
    return f", but for attention: {', '.join(named)}" if named else ""
