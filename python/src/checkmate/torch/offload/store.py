# SPDX-License-Identifier: Apache-2.0
"""The second memory itself: a file in a folder, or buffers of this machine's memory. Two threads copy, one each way.

The file has no name: it is gone when the process ends, however it does. A copy is a list of pieces of it, so that free room is never too
scattered. Each copy in a file has a checksum, which is compared when it is read back.
"""

from __future__ import annotations

import collections
import ctypes
import errno
import os
import queue
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import torch

from ...errors import CheckmateError

#: Bytes of one read or write, between which its checksum is computed.
_PIECE = 1 << 20

#: What `offload=` is for buffers of this machine's memory.
HOST = "host"


class Transfer:
    """A copy under way. `wait` returns when it is done and raises what it failed with."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None

    def finish(self, error: BaseException | None) -> None:
        self._error = error
        self._done.set()

    def wait(self) -> None:
        self._done.wait()
        if self._error is not None:
            raise self._error


class _Lane:
    """Transfers one way, one after the other, in a thread that ends with the store."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Transfer] | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()

    def begin(self, job: Callable[[], None]) -> Transfer:
        made = Transfer()
        self._jobs.put((job, made))
        return made

    def end(self) -> None:
        self._jobs.put(None)


def _work(jobs: queue.SimpleQueue[tuple[Callable[[], None], Transfer] | None]) -> None:
    while (entry := jobs.get()) is not None:
        job, made = entry
        error: BaseException | None = None
        try:
            job()
        except BaseException as failed:  # noqa: BLE001 - raised by `wait`
            error = failed
        entry = job = None  # type: ignore[assignment]  # releases what the job holds before the waiting thread goes on
        made.finish(error)
        made = None  # type: ignore[assignment]


class File:
    """Pieces of a file without a name. All methods but `read` and `write` need the store's lock."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            handle, path = tempfile.mkstemp(prefix="checkmate-offload-", dir=folder)
        except OSError as error:
            raise failed(folder, "no file can be made there", error) from error
        os.unlink(path)
        self.handle, self.path, self.size = handle, path, 0
        self.free: list[tuple[int, int]] = []  # offset and bytes, in order, none touching the next
        weakref.finalize(self, os.close, handle)

    def grow(self, bytes_: int) -> None:
        """By this many bytes, which the disk then has reserved."""
        try:
            os.posix_fallocate(self.handle, self.size, bytes_)
        except OSError as error:
            raise failed(self.path, f"{bytes_:,} bytes more than {self.size:,} cannot be had", error) from error
        self.release([(self.size, bytes_)])
        self.size += bytes_

    def take(self, bytes_: int) -> list[tuple[int, int]]:
        if (missing := bytes_ - sum(size for _at, size in self.free)) > 0:
            self.grow(missing)
        taken: list[tuple[int, int]] = []
        while bytes_:
            at, size = self.free.pop(0)
            used = min(size, bytes_)
            taken.append((at, used))
            bytes_ -= used
            if used < size:
                self.free.insert(0, (at + used, size - used))
        return taken

    def release(self, pieces: list[tuple[int, int]]) -> None:
        joined: list[tuple[int, int]] = []
        for at, size in sorted([*self.free, *pieces]):
            if joined and sum(joined[-1]) == at:
                joined[-1] = joined[-1][0], joined[-1][1] + size
            else:
                joined.append((at, size))
        self.free = joined

    def write(self, pieces: list[tuple[int, int]], data: memoryview, *, checked: bool = True) -> int:
        """Returns the checksum; 0 where it is not `checked`."""
        check = done = 0
        for at, size in pieces:
            while size:
                part = data[done : done + min(size, _PIECE)]
                check = zlib.crc32(part, check) if checked else 0
                self._write(part, at)
                at, size, done = at + len(part), size - len(part), done + len(part)
        return check

    def _write(self, part: memoryview, at: int) -> None:
        while part:
            try:
                wrote = os.pwrite(self.handle, part, at)
            except OSError as error:
                raise failed(self.path, f"{len(part):,} bytes cannot be written at {at:,}", error) from error
            if wrote == 0:
                raise CheckmateError(f"offload: {self.path}: {len(part):,} bytes cannot be written at {at:,}: nothing more is taken")
            part, at = part[wrote:], at + wrote

    def read(self, pieces: list[tuple[int, int]], data: memoryview, *, checked: bool = True) -> int:
        """As `write`."""
        check = done = 0
        for at, size in pieces:
            while size:
                part = data[done : done + min(size, _PIECE)]
                try:
                    got = os.preadv(self.handle, [part], at)
                except OSError as error:
                    raise failed(self.path, f"{len(part):,} bytes cannot be read at {at:,}", error) from error
                if got == 0:
                    raise CheckmateError(f"offload: {self.path}: the file ends at byte {at:,}, before the end of the copy there: it was truncated")
                check = zlib.crc32(part[:got], check) if checked else 0
                at, size, done = at + got, size - got, done + got
        return check


class _Buffers:
    """Memory of this machine that the budget does not count. It is not from PyTorch's allocator, whose reports are of what it counts."""

    path = HOST

    def take(self, bytes_: int) -> list[Any]:
        return [bytearray(bytes_)]

    def grow(self, bytes_: int) -> None:
        pass

    def release(self, pieces: list[Any]) -> None:
        pieces.clear()

    def write(self, pieces: list[Any], data: memoryview) -> int:
        pieces[0][: len(data)] = data
        return 0

    def read(self, pieces: list[Any], data: memoryview) -> int:
        data[:] = pieces[0]
        return 0


class Copy:
    """What one storage was when it was moved; its room is given back when this dies."""

    def __init__(self, store: Store, bytes_: int) -> None:
        self.store, self.bytes = store, bytes_
        self.pieces: list[Any] = []
        self.check = 0

    def __del__(self) -> None:
        self.store.give_back(self)  # anywhere, even while this thread has the store's lock


class Store:
    """`where`: a folder, or HOST. `limit_bytes`: of copies at one time; None: what there is. Nothing is made before the first transfer."""

    def __init__(self, where: str, limit_bytes: int | None = None) -> None:
        self.where, self.limit_bytes = where, limit_bytes
        self._used = self.most = self.resident_bytes = 0  # resident: what stays there between steps, which is part of the limit
        self._returned: collections.deque[tuple[int, list[Any]]] = collections.deque()
        self._lock = threading.Lock()
        self._place: File | _Buffers | None = None
        self._lanes: tuple[_Lane, _Lane] | None = None
        self._process = 0

    def __repr__(self) -> str:
        """A literal: fx writes code with it, which is parsed and not run."""
        return repr(f"offload to {self.where}")

    def __deepcopy__(self, _memo: object) -> Store:
        return self

    def _open(self) -> tuple[File | _Buffers, tuple[_Lane, _Lane]]:
        if self._process not in (0, os.getpid()):
            raise CheckmateError(f"offload: {self.where}: this process was forked from the one that compiled the model; compile the model in it")
        if self._place is None or self._lanes is None:
            self._place = _Buffers() if self.where == HOST else File(self.where)
            self._lanes = _Lane("checkmate-out"), _Lane("checkmate-in")
            self._process = os.getpid()
            for lane in self._lanes:
                weakref.finalize(self, lane.end)
        return self._place, self._lanes

    def reserve(self, bytes_: int) -> None:
        """Makes the file at least this large, so that a step finds the room."""
        with self._lock:
            place, _ = self._open()
            if isinstance(place, File) and bytes_ > place.size:
                place.grow(bytes_ - place.size)

    def out(self, source: torch.UntypedStorage) -> tuple[Copy, Transfer]:
        """Begins to copy a storage, which must not change until the transfer is over."""
        made = Copy(self, source.nbytes())
        with self._lock:
            place, lanes = self._open()
            self._take_back()
            if self.limit_bytes is not None and self._used + self.resident_bytes + made.bytes > self.limit_bytes:
                used, made.bytes = self._used + self.resident_bytes, 0
                raise CheckmateError(
                    f"offload: {self.where}: {source.nbytes():,} bytes in addition to {used:,} are more than offload_memory={self.limit_bytes}: "
                    "several steps hold copies at once, as with retain_graph=True. Give more, or drop the outputs of the earlier ones"
                )
            taken, made.bytes = made.bytes, 0
            made.pieces = place.take(taken) if taken else []
            made.bytes = taken
            self._used += taken
            self.most = max(self.most, self._used)

        def run() -> None:
            if made.bytes:
                made.check = place.write(made.pieces, bytes_of(source))

        return made, lanes[0].begin(run)

    def back(self, copy: Copy, target: torch.UntypedStorage, begin: int = 0) -> Transfer:
        """Begins to copy back what has been waited for, to the bytes of a storage from `begin` on."""
        with self._lock:
            place, lanes = self._open()

        def run() -> None:
            if copy.bytes and place.read(copy.pieces, bytes_of(target)[begin : begin + copy.bytes]) != copy.check:
                raise CheckmateError(
                    f"offload: {place.path}: {copy.bytes:,} bytes came back other than they were written (their checksums differ): the disk or "
                    "another program changed them. Nothing was computed with them; give another folder"
                )

        return lanes[1].begin(run)

    def begin_back(self, run: Callable[[], None]) -> Transfer:
        """Any other transfer back."""
        with self._lock:
            _place, lanes = self._open()
        return lanes[1].begin(run)

    def give_back(self, copy: Copy) -> None:
        if isinstance(self._place, _Buffers):
            copy.pieces, pieces = [], copy.pieces
            pieces.clear()
        self._returned.append((copy.bytes, copy.pieces))

    def _take_back(self) -> None:
        while self._returned:
            bytes_, pieces = self._returned.popleft()
            self._used -= bytes_
            if self._place is not None and pieces:
                self._place.release(pieces)

    @property
    def used(self) -> int:
        """Bytes of the copies that there are."""
        with self._lock:
            self._take_back()
            return self._used


def bytes_of(storage: torch.UntypedStorage) -> memoryview:
    """Its bytes; the storage must outlive them."""
    return memoryview((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())).cast("B")


def copy_bytes(target: torch.UntypedStorage, source: torch.Tensor) -> None:
    """Fills a storage with what begins at a tensor's first element. Other threads run meanwhile."""
    ctypes.memmove(target.data_ptr(), source.data_ptr(), target.nbytes())


def failed(path: str, what: str, error: OSError) -> CheckmateError:
    fix = {errno.ENOSPC: "there is no room: give a folder on a larger disk, or a smaller offload_memory=",
           errno.EDQUOT: "a quota is used up: give another folder, or a smaller offload_memory=",
           errno.EFBIG: "files may not be so large: raise the limit (ulimit -f), or give a smaller offload_memory="}  # fmt: skip
    more = fix.get(error.errno or 0, "give another folder")
    return CheckmateError(f"offload: {path}: {what}: {os.strerror(error.errno or 0)}; {more}")
