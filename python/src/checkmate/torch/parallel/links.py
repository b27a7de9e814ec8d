# SPDX-License-Identifier: Apache-2.0
"""What devices send and receive with."""

from __future__ import annotations

from dataclasses import dataclass

from ...planning.device import Device
from ..cost.collectives import Link


@dataclass(frozen=True)
class Network:
    """`inside`: from one device to another in the same node of `per_node` devices; `between`: to one in another node, a device's share of
    what its node has. Each in one direction, bytes a second and seconds to start a call."""

    per_node: int
    inside: Link
    between: Link

    def __post_init__(self) -> None:
        if self.per_node < 1 or min(self.inside.bytes_per_s, self.between.bytes_per_s) <= 0:
            raise ValueError(f"a network needs devices and bytes a second, not {self}")

    def of(self, processes: int, stride: int = 1) -> Link:
        """Of a ring of processes that lie this many devices apart."""
        return self.inside if processes * stride <= self.per_node else self.between


#: By device: those of NVIDIA's own servers. Of the rates that data sheets give, 80 % are taken to be reached.
#: H100 and H200: DGX H100/H200 data sheet, NVLink 900 GB/s in both directions, eight adapters of 400 Gbit/s for eight GPUs. A100: DGX A100,
#: 600 GB/s, eight of 200 Gbit/s. V100: DGX-1, 300 GB/s, four of 100 Gbit/s for eight GPUs. T4 and K80: PCI Express 3.0 with 16 lanes, 16 GB/s
#: in one direction, and 25 Gbit/s a server of four.
_START, _REACHED = 1e-5, 0.8
_RATES = {"H100": (8, 450e9, 50e9), "H200": (8, 450e9, 50e9), "A100": (8, 300e9, 25e9), "V100": (8, 150e9, 6.25e9), "T4": (4, 16e9, 0.78e9),
          "K80": (4, 16e9, 0.78e9)}  # fmt: skip


def usual(device: Device) -> Network:
    """Of a server that such devices are sold in; of a processor, another one over 10 Gbit/s."""
    per_node, inside, between = _RATES.get(device.name.upper(), (1, 1.25e9, 1.25e9))
    return Network(per_node, Link(_REACHED * inside, _START), Link(_REACHED * between, 2 * _START))
