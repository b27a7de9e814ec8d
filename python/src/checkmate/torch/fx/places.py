# SPDX-License-Identifier: Apache-2.0
"""Where in the user's model a call of a traced graph comes from: the module's path and the line of the program.

Dynamo notes both for the forward pass, and AOTAutograd gives a call of the backward pass those of the one it differentiates.
"""

from __future__ import annotations

import os
import re
import sys
from types import FrameType

import torch
from torch import fx

from ..user_code import FOLDERS

#: How Dynamo names what holds the model: a local or global variable, what a bound method is of, the cell of a closure.
_HOLDER = re.compile(r"^[LG]\['[^']*'\]|^[A-Za-z_]\w*$")
_PARTS = re.compile(r"\['?([^'\]]*)'?\]")
_WRAPPERS = ("_orig_mod", "__self__", "_modules", "__closure__", "cell_contents")
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)', re.MULTILINE)


def module_of(node: fx.Node) -> str:
    """The path of the innermost module that the call is part of, as in the state dict: "layers.3.mlp.up_proj"; "" for the
    model itself and for what belongs to none."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    paths = [str(entry[0]) for entry in stack.values()]
    root, path = paths[0], paths[-1]
    # The first entry is the model, unless that was not called as a module; then paths begin with what holds it.
    inside = _holder(root) == root and (path == root or path.startswith((f"{root}.", f"{root}[")))
    beginning = root if inside else _holder(path)
    parts = _PARTS.sub(r".\1", path[len(beginning) :]).split(".")
    return ".".join(part for part in parts if part and part not in _WRAPPERS and not part.startswith("__"))


def model_called() -> str:
    """The class of the model whose call under way made torch.compile compile something; "" where it is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, torch._dynamo.eval_frame.OptimizedModule):
            return type(owner._orig_mod).__name__
        frame = frame.f_back
    return ""


def _holder(path: str) -> str:
    """The beginning of a path that is no name of a module."""
    found = _HOLDER.match(path)
    if found is None:
        return ""
    end = found.end()
    while (more := re.match(r"\.(_orig_mod|__self__|__closure__\[\d+\]|cell_contents)(?=[.\[]|$)", path[end:])) is not None:
        end += more.end()
    return path[:end]


def source_of(node: fx.Node) -> str:
    """The line of the program that made the call, "model.py:212": the innermost one that is neither PyTorch's nor
    this package's; "" if there is none."""
    frames = [(m["file"], m["line"]) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    frames = [frame for frame in frames if not frame[0].startswith(FOLDERS)]
    return f"{os.path.basename(frames[-1][0])}:{frames[-1][1]}" if frames else ""
