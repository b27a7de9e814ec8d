# SPDX-License-Identifier: Apache-2.0
"""Frozen weights in the second memory: parameters that need no gradients, which a step reads when it needs them.

In a folder they lie in a file without a name that is mapped into memory, and each parameter's data is that mapping. So a parameter stays what it
was for everybody: what reads it reads the file, and what writes to it writes to the file, which the next step reads. There is no copy that could
be stale, and so no checksum either. A step reads the file as such and touches no page of the mapping. In this machine's memory (HOST) they
stay where they are, and a step copies them.
"""

from __future__ import annotations

import itertools
import mmap
import weakref
from collections.abc import Callable, Iterable

import torch

from ...errors import CheckmateError
from .. import user_code
from .store import HOST, File, Store, Transfer, bytes_of, copy_bytes, failed

#: Smaller weights stay in memory: reading them saves nothing.
LEAST_BYTES = 4096


def frozen(value: object) -> bool:
    """Whether a weight may be read again in every step: by its kind, wherever it is. It is all that its storage holds."""
    return (
        type(value) is torch.nn.Parameter and not value.requires_grad and value.device.type == "cpu" and value.layout == torch.strided
        and not value.is_quantized and value.untyped_storage().nbytes() == span_bytes(value) >= LEAST_BYTES
    )  # fmt: skip


def span_bytes(value: torch.Tensor) -> int:
    """From a tensor's first byte to its last, gaps included."""
    if value.numel() == 0:
        return 0
    return (1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))) * value.element_size()


class _Mapping(mmap.mmap):
    """The memory of a file, which is there as long as anything lies in it. `begin`: its address."""

    file: File
    begin: int

    @staticmethod
    def of(file: File) -> _Mapping:
        try:
            made = _Mapping(file.handle, file.size)
        except OSError as error:
            raise failed(file.path, f"{file.size:,} bytes cannot be mapped into memory", error) from error
        made.file = file
        made.begin = torch.frombuffer(made, dtype=torch.uint8).data_ptr()
        return made


class Weights:
    """Those of one store. `assumed`: nothing is moved, and every weight that could be is taken to be; for what only plans."""

    def __init__(self, store: Store, *, assumed: bool = False) -> None:
        self.store = store
        self.assumed = assumed or store.where == HOST
        self._mappings: weakref.WeakSet[_Mapping] = weakref.WeakSet()
        self._staying = 0  # bytes that stay in memory because others hold them, too

    def __repr__(self) -> str:
        """As the store's."""
        return repr(f"weights in {self.store.where}")

    def __deepcopy__(self, _memo: object) -> Weights:
        return self

    @property
    def bytes(self) -> int:
        """Of the files."""
        return sum(mapping.file.size for mapping in self._mappings)

    def place(self, value: torch.Tensor) -> tuple[File, int] | None:
        """The file that a tensor lies in, and where it begins there."""
        at = value.data_ptr()
        for mapping in self._mappings:
            if mapping.begin <= at < mapping.begin + mapping.file.size:
                return mapping.file, at - mapping.begin
        return None

    def away(self, value: object) -> bool:
        """Whether a tensor takes no memory that the budget counts."""
        return frozen(value) and (self.assumed or self.place(value) is not None)  # type: ignore[arg-type]

    def keep(self, values: Iterable[object]) -> None:
        """Of all tensors of a model, moves the frozen weights to the file that are not there, and brings back those that are trained."""
        if self.assumed:
            return
        by_storage: dict[int, list[torch.Tensor]] = {}
        for value in dict.fromkeys(v for v in values if isinstance(v, torch.Tensor) and v.layout == torch.strided and v.device.type == "cpu"):
            by_storage.setdefault(value.untyped_storage()._cdata, []).append(value)
        leaving: list[list[torch.Tensor]] = []
        staying = 0
        for members in by_storage.values():
            there, still = self.place(members[0]) is not None, all(map(frozen, members))
            if still and not there:
                if self._others_hold(members[0].untyped_storage(), len(members)):
                    staying += members[0].untyped_storage().nbytes()
                else:
                    leaving.append(members)
            elif there and not still:
                _seat(members, members[0].untyped_storage().clone())  # type: ignore[no-untyped-call]
        if staying > self._staying:
            user_code.warn(
                f"offload: frozen weights of {staying:,} bytes stay in memory, and in the budget, because something other than the model holds their "
                "memory, such as a state_dict(): let go of that before compile"
            )
        self._staying = staying
        if leaving:
            self._move(leaving)

    def _others_hold(self, storage: torch.UntypedStorage, tensors: int) -> bool:
        """Whether there are more than this many tensors on a storage: the others would keep their own values, and its memory would stay."""
        count = getattr(torch._C, "_storage_Use_Count", None)
        return count is not None and count(storage._cdata) > tensors + 1

    def _move(self, groups: list[list[torch.Tensor]]) -> None:
        sizes = [members[0].untyped_storage().nbytes() for members in groups]
        begins = [0, *itertools.accumulate(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes)]
        limit = self.store.limit_bytes
        if limit is not None and self.bytes + begins[-1] > limit:
            raise CheckmateError(
                f"offload: {self.store.where}: the frozen weights take {self.bytes + begins[-1]:,} bytes of offload_memory={limit}: give more, "
                "or leave it out"
            )
        file = File(self.store.where)
        file.grow(begins[-1])
        for members, at, size in zip(groups, begins, sizes, strict=False):
            file.write([(at, size)], bytes_of(members[0].untyped_storage()), checked=False)
        mapping = _Mapping.of(file)
        for members, at, size in zip(groups, begins, sizes, strict=False):
            _seat(members, torch.frombuffer(mapping, dtype=torch.uint8, count=size, offset=at).untyped_storage())
        self._mappings.add(mapping)
        self.store.resident_bytes = self.bytes

    def _reader(self, weight: torch.Tensor, target: torch.UntypedStorage) -> Callable[[], None]:
        """What fills memory of its span with a weight's bytes, as they are then."""
        found = self.place(weight)

        def run() -> None:
            if found is not None:
                found[0].read([(found[1], target.nbytes())], bytes_of(target), checked=False)
            else:
                copy_bytes(target, weight)

        return run

    def read(self, weight: torch.Tensor) -> torch.UntypedStorage:
        target = torch.empty(span_bytes(weight), dtype=torch.uint8, device="cpu").untyped_storage()
        self._reader(weight, target)()
        return target

    def begin(self, weight: torch.Tensor) -> tuple[torch.UntypedStorage, Transfer]:
        """As `read`, in the thread for transfers back."""
        target = torch.empty(span_bytes(weight), dtype=torch.uint8, device="cpu").untyped_storage()
        return target, self.store.begin_back(self._reader(weight, target))


def _seat(members: list[torch.Tensor], storage: torch.UntypedStorage) -> None:
    """Gives tensors on one storage another one of the same content."""
    with torch.no_grad():
        for value in members:
            made = torch.empty(0, dtype=value.dtype, device="cpu").set_(storage, value.storage_offset(), value.shape, value.stride())  # type: ignore[call-overload]
            value.data = made
