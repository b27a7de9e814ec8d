# SPDX-License-Identifier: Apache-2.0
"""Where the user's own code is: the place that an error names, and the line that a warning points at."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
import warnings

import torch


def place(trace: str) -> str:
    """The last place that a stack trace names, one outside of PyTorch if there is one, in brackets, after a blank; nothing where it
    names none. Of a line of a library the user's own line that led there is named too, if there is one."""
    places = [p for p in re.findall(r'File "([^"]+)", line (\d+)', trace) if not p[0].startswith(_INSIDE[1])]
    places = [p for p in places if not p[0].startswith(_INSIDE[0])] or places
    if not places:
        return ""
    own = [p for p in places if not _LIBRARY.search(p[0])]
    called = f", from {own[-1][0]}:{own[-1][1]}" if own and own[-1] != places[-1] else ""
    return f" ({places[-1][0]}:{places[-1][1]}{called})"


_LIBRARY = re.compile(rf"[\\/](site|dist)-packages[\\/]|^{re.escape(sysconfig.get_path('stdlib') + os.sep)}")
#: Of code that is no user's model: PyTorch's and this package's.
FOLDERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_INSIDE = (*FOLDERS, contextlib.__file__)


def inside_pytorch(file: str) -> bool:
    return file.startswith(_INSIDE[0])


def warn(message: str) -> None:
    """A RuntimeWarning at the user's line: the nearest one outside of this package and PyTorch."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"checkmate: {message}", RuntimeWarning, stacklevel=level)
