# SPDX-License-Identifier: Apache-2.0
"""Calls of a graph that move tensors to the second memory and back.

What stands for a copy in a graph is a *ticket*, a tensor of one number: AOTAutograd lets the forward pass save tensors only for the backward
pass. The copy lives as long as the ticket's storage, which autograd keeps as it keeps what is saved.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import fx

from .store import Copy, Store, Transfer
from .weights import Weights

#: Bytes of a ticket.
TICKET_BYTES = 8

#: Storages lie at multiples of this in the memory that they come back to.
_ALIGNED = 64

_Call = TypeVar("_Call", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Look:
    """Of a tensor that was moved. `begin`: the byte where its storage begins in memory that all storages come back to."""

    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]
    begin: int
    offset: int
    conj: bool
    neg: bool

    @staticmethod
    def at(value: torch.Tensor, begin: int) -> _Look:
        return _Look(value.dtype, value.shape, value.stride(), begin, int(value.storage_offset()), value.is_conj(), value.is_neg())

    def made(self, storage: torch.UntypedStorage, *, alone: bool = False) -> torch.Tensor:
        """`alone`: the memory is of its storage alone."""
        offset = self.offset + (0 if alone else self.begin // self.dtype.itemsize)
        value = torch.empty(0, dtype=self.dtype, device="cpu").set_(storage, offset, self.shape, self.stride)  # type: ignore[call-overload]
        value = value.conj() if self.conj else value
        return torch._neg_view(value) if self.neg else value  # type: ignore[no-any-return]


class _Ticket(bytearray):
    """The memory of a ticket. `copies`: one for each storage, and where it comes back to in memory of `bytes`. `looks`: of each tensor; None
    for what is none. `coming`: transfers back, by the address that they fill."""

    def __init__(self, number: int) -> None:
        super().__init__(number.to_bytes(TICKET_BYTES, "little"))
        self.copies: list[tuple[Copy, int]] = []
        self.looks: list[_Look | None] = []
        self.leaving: list[Transfer] = []
        self.coming: dict[int, list[Transfer]] = {}
        self.bytes = 0

    def begin_back(self, store: Store) -> tuple[torch.UntypedStorage, list[Transfer]]:
        storage = torch.empty(self.bytes, dtype=torch.uint8, device="cpu").untyped_storage()
        return storage, [store.back(copy, storage, at) for copy, at in self.copies]

    def made(self, storage: torch.UntypedStorage) -> tuple[torch.Tensor | None, ...]:
        return tuple(None if look is None else look.made(storage) for look in self.looks)


_numbers = itertools.count(1)
_tickets: weakref.WeakValueDictionary[int, _Ticket] = weakref.WeakValueDictionary()


def _effect(call: _Call) -> _Call:
    """Graphs keep it though nothing reads what it gives."""
    fx.node.has_side_effect(call)
    return call


def _ticket(ticket: torch.Tensor) -> _Ticket:
    return _tickets[int(ticket)]


@_effect
def begin_out(store: Store, *values: Any) -> torch.Tensor:
    """Begins to move the storages of tensors. Gives a ticket."""
    number = next(_numbers)
    memory = _Ticket(number)
    begins: dict[int, int] = {}
    for value in values:
        if not isinstance(value, torch.Tensor):
            memory.looks.append(None)
            continue
        storage = value.untyped_storage()
        if storage._cdata not in begins:  # as a rule there is one
            begins[storage._cdata] = at = -(-memory.bytes // _ALIGNED) * _ALIGNED
            copy, transfer = store.out(storage)
            memory.copies.append((copy, at))
            memory.leaving.append(transfer)
            memory.bytes = at + storage.nbytes()
        memory.looks.append(_Look.at(value, begins[storage._cdata]))
    _tickets[number] = memory
    return torch.frombuffer(memory, dtype=torch.int64)


@_effect
def wait_out(ticket: torch.Tensor, *_values: Any) -> None:
    """Returns when the copies are there; until then the tensors must stay."""
    for transfer in _ticket(ticket).leaving:
        transfer.wait()


@_effect
def begin_in(store: Store, ticket: torch.Tensor) -> torch.Tensor:
    """Begins to bring back what a ticket stands for. Gives one of the tensors: its memory is there from now on, what is in it is not."""
    memory = _ticket(ticket)
    with torch.no_grad():
        storage, transfers = memory.begin_back(store)
        made = next(look for look in memory.looks if look is not None).made(storage)
    memory.coming[storage.data_ptr()] = transfers
    return made


@_effect
def wait_in(ticket: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The tensors, as they were when they were moved, when they are back in the memory that `begin_in` gave."""
    memory, storage = _ticket(ticket), first.untyped_storage()
    for transfer in memory.coming.pop(storage.data_ptr(), ()):  # none: a second backward pass reads what came back in the first
        transfer.wait()
    with torch.no_grad():
        return memory.made(storage)


@_effect
def leave(store: Store, *values: Any) -> torch.Tensor:
    """Moves tensors, at once. Gives a ticket."""
    ticket = begin_out(store, *values)
    wait_out(ticket)
    return ticket


def come_back(store: Store, ticket: torch.Tensor, single: bool) -> Any:
    """Brings them back, at once, each storage as one: a tensor, or the tuple of them."""
    memory = _ticket(ticket)
    with torch.no_grad():
        storages = {at: torch.empty(copy.bytes, dtype=torch.uint8, device="cpu").untyped_storage() for copy, at in memory.copies}
        for transfer in [store.back(copy, storages[at]) for copy, at in memory.copies]:
            transfer.wait()
        made = tuple(None if look is None else look.made(storages[look.begin], alone=True) for look in memory.looks)
    return made[0] if single else made


#: Weights that are on their way, by the address that they fill.
_arriving: dict[int, Transfer] = {}


def _like(weight: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    with torch.no_grad():
        return torch.empty(0, dtype=weight.dtype, device="cpu").set_(storage, 0, weight.shape, weight.stride())  # type: ignore[call-overload, no-any-return]


def load(weights: Weights, weight: torch.Tensor) -> torch.Tensor:
    """Reads a frozen weight, at once."""
    return _like(weight, weights.read(weight))


@_effect
def begin_load(weights: Weights, weight: torch.Tensor) -> torch.Tensor:
    """Begins to read one. Its memory is there from now on, what is in it is not."""
    storage, transfer = weights.begin(weight)
    _arriving[storage.data_ptr()] = transfer
    return _like(weight, storage)


#: Calls that give a weight in memory of its own, though they are traced with that of the weight.
LOADS = (load, begin_load)


@_effect
def wait_load(coming: torch.Tensor) -> torch.Tensor:
    """The weight, when it is there."""
    transfer = _arriving.pop(coming.data_ptr(), None)  # none: a second backward pass reads what came in the first
    if transfer is not None:
        transfer.wait()
    return coming
