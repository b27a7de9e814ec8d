# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and calls of the C library. An exception for an error of the library has its code and message."""

from __future__ import annotations

import ctypes as c
import operator
import os
import re
from typing import Any

from ._library import CError, lib

_NAMES = ["ok", "argument", "memory", "io", "format", "overflow", "unsupported", "not found", "internal", "stopped"]


class CheckmateError(Exception):
    """An error of the C library: `code` (a number), `kind` (its name), `message`, and the place: `file`, `line`."""

    #: TensorFlow's AutoGraph wraps errors that pass through it.
    ag_pass_through = True

    def __init__(self, message: str, code: int = 0, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.file, self.line = code, message, file, line
        self.kind = _NAMES[code] if 0 <= code < len(_NAMES) else str(code)


class InfeasibleError(CheckmateError):
    """No schedule fits the budget, or none was found.

    `proven`: whether it is proven that none of the class `covers` fits `budget_bytes`: of "any" schedule, of those that keep the graph's
    "order", or of the "frontier"-advancing ones among them. `smallest_known`: the smallest peak of any schedule found, in bytes, or None.
    `largest_impossible`: the largest number of bytes proven too small for that class; `impossible_for_all`: for any schedule, which is less
    where the class is not "any". What a front end says is proven is so for the bytes that its graph counts, which were measured, or
    estimated.
    """

    def __init__(self, message: str, *, proven: bool, budget_bytes: int, smallest_known: int | None, largest_impossible: int,
                 covers: str = "any", impossible_for_all: int = -1) -> None:  # fmt: skip
        super().__init__(message)
        self.proven, self.budget_bytes, self.covers = proven, budget_bytes, covers
        self.smallest_known, self.largest_impossible = smallest_known, largest_impossible
        self.impossible_for_all = largest_impossible if covers == "any" else impossible_for_all

    def facts(self) -> dict[str, Any]:
        """What it says besides its message, for an error with another one."""
        return {name: getattr(self, name)
                for name in ("proven", "budget_bytes", "smallest_known", "largest_impossible", "covers", "impossible_for_all")}  # fmt: skip


class UnsupportedError(CheckmateError):
    """A model or a step that cannot be planned, and why."""


def framework_missing(room: str, name: str, oldest: str, install: str, error: ImportError) -> ImportError:
    """The error of `checkmate.<room>` when the framework `name` cannot be imported: not installed, or installed and broken. `oldest`: the
    oldest version that is supported, such as "2.6"; `install`: the command that installs it."""
    if isinstance(error, ModuleNotFoundError) and error.name == name.lower().replace("pytorch", "torch"):
        return ImportError(f"checkmate.{room} needs {name} {oldest} or newer: {install}")
    return ImportError(f"checkmate.{room} needs {name} {oldest} or newer, and the one that is installed cannot be imported: {error}")


def framework_too_old(room: str, name: str, oldest: str, upgrade: str, version: str) -> ImportError | None:
    """The error of `checkmate.<room>` when the framework `name` is older than `oldest`; None if it is not, or its version is not a number."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) >= tuple(map(int, oldest.split("."))):
        return None
    return ImportError(f"checkmate.{room} needs {name} {oldest} or newer, and this is {version}: {upgrade}")


def call(name: str, *arguments: object) -> None:
    """Calls a function of the library that returns ckm_status and takes ckm_error last; raises CheckmateError."""
    for argument in arguments:
        if isinstance(argument, int):
            int64(argument)
    error = CError()
    status = getattr(lib, name)(*arguments, c.byref(error))
    if status == 0:
        return
    message, file = error.message.decode("utf-8", "replace"), error.file.decode("utf-8", "replace")
    if file:
        message = f"{file}:{error.line}: {message}" if error.line else f"{file}: {message}"
    raise CheckmateError(message, status, file, error.line)


def int64(value: int, name: str = "a number") -> int:
    """The value. TypeError where it is no integer; ValueError where it is out of the library's range, in which ctypes would cut
    bits off."""
    try:
        operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} must be less than 2**63, not {value}")
    return value


def replace_file(path: str | os.PathLike[str], text: str) -> None:
    """Replaces a file atomically: at any moment it is the old file or the new one. Keeps permissions and follows links."""
    data = text.encode()
    call("ckm_file_replace", os.fsencode(path), data, len(data))
