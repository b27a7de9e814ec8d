# SPDX-License-Identifier: Apache-2.0
"""Devices that the C library has a model of: what they are, and how long a kernel takes there."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass, field
from typing import Any, Literal

from .._library import CDeviceKernels, lib
from ..errors import call

#: As in include/checkmate/cost.h: what the efficiency of a device is stated for, and the arithmetic of a kernel.
Class = Literal["conv3", "matrix", "grouped", "stream"]
_CLASSES: list[Class] = ["conv3", "matrix", "grouped", "stream"]
Precision = Literal["float32", "float16", "bfloat16"]
_PRECISIONS: list[Precision] = ["float32", "float16", "bfloat16"]


@dataclass(frozen=True)
class Work:
    """What a call asks of a device: multiply-accumulates, which count unless the class is "stream", bytes read and written,
    and how many kernels it is."""

    arithmetic: Class
    precision: Precision
    macs: float
    bytes: float
    launches: float = 1.0


@dataclass(frozen=True)
class Link:
    """What connects a device's memory to a second one, both ways at once."""

    what: str
    out_bytes_per_s: int
    in_bytes_per_s: int


@dataclass(frozen=True)
class Device:
    """A built-in device. `memory_bytes`: what tensors may take of its own memory; 0 where it has none. `has_tf32`: products in
    float32 are taken to run on units of less precision, at `matrix_rate`. `half_rates`: peak
    multiply-accumulates a second of its matrix units by half precision; 0 where it has no such units. `efficiency`: the fraction of
    the peak that is assumed by class, for float32; of matrix products in half precision it is `half_efficiency`, from `source`."""

    name: str
    what: str
    memory_bytes: int
    bytes_per_s: float
    matrix_rate: float
    has_tf32: bool
    half_rates: dict[Precision, float]
    efficiency: dict[Class, float]
    half_efficiency: float
    flash_attention: bool
    source: str
    _model: Any = field(repr=False, compare=False)
    _product: Any = field(repr=False, compare=False)

    @property
    def link(self) -> Link | None:
        """To the host's memory; None where the library has no figures for it (`checkmate devices` lists those that there are)."""
        found = lib.ckm_device_link_find(self.name.encode())
        if not found:
            return None
        link = found.contents
        return Link(link.what.decode(), link.out_bytes_per_second, link.in_bytes_per_second)

    @property
    def is_gpu(self) -> bool:
        """Whether it has its own memory, which PyTorch's CUDA allocator manages."""
        return self.memory_bytes > 0

    def nanoseconds(self, work: Work) -> float:
        """The predicted time (docs/DEVICES.md)."""
        time = c.c_double()
        kernels = CDeviceKernels(_CLASSES.index(work.arithmetic), _PRECISIONS.index(work.precision), work.macs, work.bytes, work.launches)
        call("ckm_device_time", self._model, self._product, c.byref(kernels), c.byref(time))
        return time.value


def names() -> list[str]:
    """Of all devices, in the order of the library's table."""
    return [lib.ckm_device_at(i).contents.name.decode() for i in range(lib.ckm_device_count())]


def find(name: str) -> Device:
    """The device of that name, ignoring case. ValueError, with a list, if there is none."""
    if not isinstance(name, str):
        raise TypeError(f"device must be the name of one, {_listed()}, not {name!r}")
    model, product = lib.ckm_device_find(name.encode()), lib.ckm_device_product_find(name.encode())
    if not model or not product or "\0" in name:
        raise ValueError(f'there is no model of a device "{name}"; there are {_listed()}')
    m, p = model.contents, product.contents
    halves: dict[Precision, float] = {"float16": p.float16_macs_per_s, "bfloat16": p.bfloat16_macs_per_s}
    return Device(
        name=m.name.decode(), what=p.what.decode(), memory_bytes=p.memory_bytes, bytes_per_s=m.bytes_per_s, matrix_rate=m.matrix_macs_per_s,
        has_tf32=m.matrix_macs_per_s > m.macs_per_s,
        half_rates=halves, efficiency=dict(zip(_CLASSES, m.efficiency, strict=True)), half_efficiency=p.half_efficiency,
        flash_attention=p.flash_attention, source=p.source.decode(), _model=model, _product=product,
    )  # fmt: skip


def _listed() -> str:
    return ", ".join(names())
